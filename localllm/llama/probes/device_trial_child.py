"""`python -m localllm.llama.probes.device_trial_child`: a `DeviceRequest` in, `DeviceAnswer`s out, or a crash.

First matrices on the device and on the CPU are timed: in the bundled model, starting operations would take longer than
computing them. Then, on a device that is faster, the bundled model's tokens, which the parent compares. Figures:
benchmarks/log/devices.md#devices-against-the-cpu.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from localllm.errors import LocalLLMError
from localllm.llama import library
from localllm.llama.library import CpuChoice, Library
from localllm.llama.probes.selftest_child import greedy_tokens
from localllm.llama.probes.speed_graph import Cpu, Gpu, Passes
from localllm.llama.probes.speed_probe import product
from localllm.measuring import probe
from localllm.system import cpu as system_cpu
from localllm.system.cgroups import threads_within
from localllm.types import DeviceInfo

KIND = "Q4_K"


class Load(NamedTuple):
    """Matrices that a step computes with."""

    side: int
    prompt_rows: int
    prompt_matrices: int
    token_matrices: int


SMALL = Load(2048, 64, 1, 4)
USUAL = Load(4096, 256, 2, 12)
"""113 MB for one token: no cache of a usual CPU holds them."""
HOPELESS = 0.5
"""A device that is less than so many times as fast with `SMALL` is not examined further: a software device would take
minutes."""
MOST_S = 0.5
ROUNDS = 8


class DeviceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A device and what it is to compute, as in `selftest_child.Request`; without a device: which ones there are."""

    choice: CpuChoice
    plugin_dir: str | None = None
    device: str = ""
    model_path: str = ""
    prompt: tuple[int, ...] = ()
    singles: tuple[int, ...] = ()


class DeviceAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Speeds; of a device that is faster than the CPU a second answer has the tokens too."""

    error: str | None = None
    prompt_times: float = 0.0
    """How many times as fast as the CPU it computes many tokens at once."""
    answer_times: float = 0.0
    """The same for one token after the other."""
    greedy: tuple[int, ...] = ()
    devices: tuple[DeviceInfo, ...] = ()
    fingerprint: str = ""
    """Of the library, if devices were asked for."""

    @property
    def times(self) -> float:
        """Both with equal weight."""
        return float((self.prompt_times * self.answer_times) ** 0.5)


def reply(request: DeviceRequest, send: probe.Send) -> None:
    """Answers the one request."""
    answer = DeviceAnswer()
    try:
        loaded = library.load(request.choice, plugin_dir=Path(request.plugin_dir) if request.plugin_dir else None)
        if not request.device:
            send(DeviceAnswer(devices=loaded.devices(), fingerprint=loaded.build.fingerprint))
            return
        answer = _timed(loaded, request.device, SMALL)
        if answer.times > HOPELESS:
            answer = _timed(loaded, request.device, USUAL)
        send(answer)
        if answer.times > 1.0:
            tokens = greedy_tokens(loaded, Path(request.model_path), request.prompt, request.singles, [request.device])
            send(msgspec.structs.replace(answer, greedy=tokens))
    except LocalLLMError as error:
        send(msgspec.structs.replace(answer, error=error.message))


def _timed(loaded: Library, device: str, load: Load) -> DeviceAnswer:
    cpu = Cpu(loaded, threads_within(system_cpu.num_physical_cores()))
    cpu_prompt_s, cpu_token_s = _seconds(cpu, load)
    cpu.close()
    gpu = Gpu(loaded, device)
    prompt_s, token_s = _seconds(gpu, load)
    gpu.close()
    return DeviceAnswer(prompt_times=cpu_prompt_s / prompt_s, answer_times=cpu_token_s / token_s)


def _seconds(machine: Cpu, load: Load) -> tuple[float, float]:
    return (
        _fastest_s(machine, load.side, load.prompt_matrices, load.prompt_rows),
        _fastest_s(machine, load.side, load.token_matrices, 1),
    )


def _fastest_s(machine: Cpu, side: int, matrices: int, rows: int) -> float:
    with Passes(machine, product(side, rows), weights=(KIND, (side, side)), each=matrices) as passes:
        return passes.times(ROUNDS, MOST_S).seconds[0]


if __name__ == "__main__":
    probe.serve(DeviceRequest, reply)
