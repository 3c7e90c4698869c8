"""What another llama.cpp would gain on this machine over the installed one, known without loading either.

The figures were measured with Q8_0 models of 135 to 193 million parameters on two cores, the best variant against AVX2
alone (benchmarks/log/cpu.md#llamacpp-without-a-compiler).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from localllm.errors import LoadFailed
from localllm.llama.runtimes import found as runtimes
from localllm.llama.runtimes import installed, wheel_files
from localllm.system import cpu as system_cpu
from localllm.system import machine

TOLD, TOLD_OF_GPU = "told-of-gain", "told-of-gpu"
"""Files among the runtimes that record that the user was informed."""


class Gain(NamedTuple):
    """Gain of a build with code for every CPU, as factors."""

    instructions: str
    prompt: float
    answer: float


_GAINS = (("amx_int8", Gain("AMX", 2.3, 1.5)), ("avx512f", Gain("AVX-512", 1.4, 1.2)))
"""Flags in Linux's /proc/cpuinfo, best first."""


def gain(data_dir: Path, cpu: str | None = None) -> Gain | None:
    """What a build would gain here; None if nothing: all code is there already, or this CPU has at most AVX2."""
    if not machine.builds_cpu_variants() or any(_has_variants(each) for each in runtimes.usable(data_dir)):
        return None
    flags = (system_cpu.cpu_model() if cpu is None else cpu).split()
    return next((found for flag, found in _GAINS if flag in flags), None)


def gpu_advice(data_dir: Path, maker: str | None = None) -> str | None:
    """A sentence if there is a GPU that no llama.cpp here can use, with the command to type."""
    maker = machine.gpu_maker() if maker is None else maker
    if maker is None or any(each.uses_gpus for each in runtimes.listed(data_dir)):
        return None
    wheel = wheel_files.named("vulkan")
    remedy = "`localllm runtime build vulkan` compiles one that does"
    if wheel in wheel_files.offered():
        assert wheel is not None
        megabytes = wheel_files.file_of(wheel).size_bytes / 1e6
        remedy = (
            f"`localllm runtime install vulkan` brings one that does ({megabytes:.0f} MB, without a compiler, built by "
            f"{wheel.maker})"
        )
    return f"this machine has a GPU of {maker}, which the installed llama.cpp does not use: {remedy}"


def advice_once(data_dir: Path) -> str | None:
    """A sentence for the user, the first time that something could be gained here."""
    if (advice := gpu_advice(data_dir)) is not None:
        return advice if _is_first(data_dir, TOLD_OF_GPU) else None
    found = gain(data_dir)
    return None if found is None or not _is_first(data_dir, TOLD) else sentence(found)


def _is_first(data_dir: Path, told: str) -> bool:
    path = runtimes.folder_of(data_dir) / told
    if path.exists():
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError:
        return False  # otherwise it would be repeated every time
    return True


def sentence(found: Gain) -> str:
    """Includes the command to type."""
    return (
        f"this llama.cpp does not use this CPU's {found.instructions}: `localllm runtime build cpu` (about 10 minutes, "
        f"with a C++ compiler; with --background it needs no terminal) makes prompts about {found.prompt:g} times and "
        f"answers {found.answer:g} times as fast"
    )


def _has_variants(runtime: runtimes.Runtime) -> bool:
    try:
        return installed.find(runtime.library).has_all_variants
    except LoadFailed:
        return False
