"""Predicts how fast models will be on this machine before any is loaded or downloaded: asks a probe, then calculates.

A child measures, because the library it loads may crash. Knows nothing of how it measures.
"""

from __future__ import annotations

from collections.abc import Sequence

from localllm.errors import LocalLLMError
from localllm.measuring import probe
from localllm.planning.plan import plan
from localllm.planning.speed import Kernels, kernels, predict
from localllm.planning.speeds import NotPredicted, ProbeAnswer, ProbeQuestion, Speed
from localllm.settings.config import Settings
from localllm.system import cpu
from localllm.system.programs import own_command
from localllm.types import DeviceInfo, ModelInfo
from localllm.types.load_options import LoadOptions

TIMEOUT_S = 90.0


def child_command() -> list[str]:
    """The argv of the child that measures."""
    return own_command("localllm.llama.probes.speed_probe_child")


def speeds(
    settings: Settings,
    options: LoadOptions,
    infos: Sequence[ModelInfo],
    devices: Sequence[DeviceInfo],
    *,
    may_measure: bool = True,
) -> list[Speed | NotPredicted]:
    """A prediction for each model, loaded with `options` while `devices` are present. Blocks for about 0.2 s for each
    tensor type never measured here. Without `may_measure`, speeds that need such a measurement are not predicted."""
    wanted = [_wanted(info, options, devices) for info in infos]
    asked = [each for each in wanted if isinstance(each, Kernels)]
    if not asked:
        return [each for each in wanted if isinstance(each, NotPredicted)]
    answer = ask(
        ProbeQuestion(
            data_dir=str(settings.data_dir),
            runtime=settings.runtime,
            threads=options.threads or cpu.num_physical_cores(),
            kernels=tuple(sorted({name for each in asked for name in each.names})),
            heads=tuple(sorted({each.head_size for each in asked})),
            may_measure=may_measure,
        )
    )
    found: list[Speed | NotPredicted] = []
    for info, each in zip(infos, wanted, strict=True):
        if isinstance(each, NotPredicted):
            found.append(each)
        elif answer.speed is None:
            found.append(NotPredicted(answer.error or "the probe gave no reason"))
        else:
            found.append(predict(info, options, answer.speed))
    return found


def ask(question: ProbeQuestion) -> ProbeAnswer:
    """The probe's answer; a crash becomes an answer with an error."""
    answer, failure = probe.ask(child_command(), question, ProbeAnswer, TIMEOUT_S)
    if failure is None and answer is not None:
        return answer
    return ProbeAnswer(error=f"the probe ended early ({'' if failure is None else failure.detail})")


def _wanted(info: ModelInfo, options: LoadOptions, devices: Sequence[DeviceInfo]) -> Kernels | NotPredicted:
    try:
        if plan(info, options, devices).gpu_layers:
            return NotPredicted("GPUs take layers, and only the CPU is measured")
    except LocalLLMError as error:
        return NotPredicted(error.message)
    return kernels(info)
