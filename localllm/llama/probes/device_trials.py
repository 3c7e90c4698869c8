"""Finds out whether a device computes as the CPU does, and faster: a child process per device, since drivers crash.

The result is remembered for library, CPU, device and version. `--gpu-layers auto` uses only devices that passed and are
faster than the CPU; layers or devices that a user names are used in any case. Plans nothing itself.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple

import msgspec

from localllm.llama.library import CpuChoice, Library
from localllm.llama.probes import selftest
from localllm.llama.probes.device_trial_child import DeviceAnswer, DeviceRequest
from localllm.llama.probes.selftest import RecordedRun
from localllm.llama.runtimes import found as runtimes
from localllm.measuring import probe
from localllm.measuring.conditions import conditions_here
from localllm.measuring.result_store import ResultStore
from localllm.planning.device_choice import GPU_KINDS
from localllm.system.programs import own_command
from localllm.types import DeviceInfo

FILE_NAME = "devices.json"
MAX_REMEMBERED = 32
TIMEOUT_S = 90.0
"""A driver compiles its shaders first: 20 s on Mesa's software device."""
MOST_DIFFERENT = 0.1
"""Share of the recorded tokens that may differ: devices round differently, and one that miscalculates gets most of them
wrong."""
_RPC = "RPC"


class DeviceTrial(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out about a device."""

    problem: str = ""
    """How it failed; empty: it computes as the CPU does."""
    prompt_times: float = 0.0
    """How many times as fast as this CPU it computes a prompt."""
    answer_times: float = 0.0
    """The same for one stream of tokens."""

    @property
    def times(self) -> float:
        """Both with equal weight."""
        return float((self.prompt_times * self.answer_times) ** 0.5)

    @property
    def is_automatic(self) -> bool:
        """Whether layers go there if the user has no wish."""
        return not self.problem and self.times > 1.0

    def __str__(self) -> str:
        if self.problem:
            return f"{self.problem}, so --gpu-layers auto leaves it alone"
        speed = f"prompts {self.prompt_times:.2g} and answers {self.answer_times:.2g} times as fast as on the CPU"
        return f"right, {speed}" if self.is_automatic else f"{speed}, so --gpu-layers auto leaves it alone"


def examined(
    loaded: Library, data_dir: Path, *, plugin_dir: Path | None = None, measure: bool = True, fresh: bool = False
) -> tuple[DeviceInfo, ...]:
    """The library's devices, with what trials of each GPU found; those that were not tried are, if `measure`.

    Devices of other machines are not measured: a user named them.
    """
    key = _Key(loaded.choice, loaded.build.fingerprint, plugin_dir)
    return _examined(loaded.devices(), key, data_dir, measure=measure, fresh=fresh)


def examine_runtime(choice: CpuChoice, data_dir: Path, *, fresh: bool = False) -> tuple[DeviceInfo, ...]:
    """The GPUs of a runtime that is not loaded here, examined."""
    request = DeviceRequest(choice=choice)
    answer, _ = probe.ask(_command(), request, DeviceAnswer, TIMEOUT_S)
    devices = () if answer is None else answer.devices
    key = _Key(choice, "" if answer is None else answer.fingerprint, None)
    gpus = tuple(device for device in devices if _is_tried(device))
    return _examined(gpus, key, data_dir, measure=True, fresh=fresh)


class _Key(NamedTuple):
    """What a trial of a device depends on besides it."""

    choice: CpuChoice
    fingerprint: str
    plugin_dir: Path | None


def _examined(
    devices: tuple[DeviceInfo, ...], key: _Key, data_dir: Path, *, measure: bool, fresh: bool
) -> tuple[DeviceInfo, ...]:
    memory = ResultStore(data_dir / FILE_NAME, DeviceTrial, most=MAX_REMEMBERED, subject="what devices can do")
    here = conditions_here(library=key.fingerprint, backend=key.choice.label())
    found = []
    for device in devices:
        trial = None
        if _is_tried(device):
            name = here.key(device.name, device.description, device.id)
            trial = None if fresh else memory.get(name)
            if trial is None and measure:
                trial = try_device(key.choice, device.name, key.plugin_dir)
                memory.put(name, trial)
        found.append(device if trial is None else _with(device, trial))
    runtime = key.choice.runtime
    if measure and key.plugin_dir is None and runtimes.has_gpu_backend(runtime):
        is_last = not any(_is_tried(each) and each.is_automatic for each in found)
        with contextlib.suppress(OSError):
            runtimes.put_last(runtime.name, data_dir, is_last=is_last)
    return tuple(found)


def _is_tried(device: DeviceInfo) -> bool:
    return device.kind in GPU_KINDS and device.backend != _RPC


def _with(device: DeviceInfo, trial: DeviceTrial) -> DeviceInfo:
    return msgspec.structs.replace(device, is_automatic=trial.is_automatic, trial=str(trial))


def try_device(choice: CpuChoice, name: str, plugin_dir: Path | None = None) -> DeviceTrial:
    """Times the device and the CPU; where the device is faster, compares its tokens with the recorded ones."""
    recorded = msgspec.json.decode(selftest.RECORDED_PATH.read_bytes(), type=RecordedRun)
    request = DeviceRequest(
        choice=choice,
        plugin_dir=None if plugin_dir is None else str(plugin_dir),
        device=name,
        model_path=str(selftest.MODEL_PATH),
        prompt=recorded.prompt,
        singles=recorded.singles,
    )
    answer, failure = probe.ask(_command(), request, DeviceAnswer, TIMEOUT_S)
    if answer is None or answer.error or failure is not None:
        detail = (answer.error if answer else None) or (failure.detail if failure else "no answer")
        return DeviceTrial(problem=f"its driver or backend failed in the self-test ({detail})")
    if answer.times > 1.0:
        num_wrong = sum(a != b for a, b in zip(answer.greedy, recorded.greedy, strict=True))
        if num_wrong > MOST_DIFFERENT * len(recorded.greedy):
            return DeviceTrial(problem=f"computes wrongly: {num_wrong} of {len(recorded.greedy)} tokens differ")
    return DeviceTrial(prompt_times=answer.prompt_times, answer_times=answer.answer_times)


def _command() -> list[str]:
    return own_command("localllm.llama.probes.device_trial_child")
