"""ggml backends beside the CPU's: which ones device names ask for, and which llama.cpp brings them along as files.

Loads none of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from localllm.errors import LoadFailed
from localllm.llama import installed
from localllm.llama.devices import Ggml
from localllm.llama.runtimes import Runtime


class Backend(NamedTuple):
    """One of them by its names."""

    file: str
    """libggml-FILE."""
    registry: str
    """In ggml's registry."""
    build: str
    """`localllm runtime build` of it."""


BACKENDS = {
    "cuda": Backend("cuda", "CUDA", "cuda"),
    "rocm": Backend("hip", "ROCm", "hip"),
    "rpc": Backend("rpc", "RPC", "rpc"),
    "vulkan": Backend("vulkan", "Vulkan", "vulkan"),
}
"""By how their devices' names begin."""
_STEM = re.compile(r"[a-z]+")


def needed(devices: Sequence[str] | None, *, rpc: bool) -> tuple[str, ...]:
    """Of `BACKENDS`, those that these device names are of."""
    stems = [found[0] for name in devices or () if (found := _STEM.match(name.lower()))]
    return tuple(sorted({stem for stem in stems if stem in BACKENDS} | ({"rpc"} if rpc else set())))


def missing(needs: Sequence[str], plugin_dir: Path | None) -> tuple[str, ...]:
    """Those that the folder of plugins does not hold, so that the llama.cpp in use has to bring them along."""
    files = () if plugin_dir is None else installed.plugin_files(plugin_dir)
    return tuple(each for each in needs if BACKENDS[each].file not in map(_file, files))


def brings(runtime: Runtime, needs: Sequence[str]) -> bool:
    """Whether its folder holds a file for each."""
    try:
        files = installed.find(runtime.library).plugins
    except LoadFailed:
        return False
    return all(BACKENDS[each].file in map(_file, files) for each in needs)


def check(ggml: Ggml, runtime: Runtime, needs: Sequence[str]) -> None:
    """Raises `LoadFailed` for one that the loaded llama.cpp lacks, with what to type."""
    for each in needs:
        backend = BACKENDS[each]
        if not ggml.backend_reg_by_name(backend.registry.encode()):
            wish = "rpc" if each == "rpc" else "device"
            raise LoadFailed(
                f"{wish}: the llama.cpp in use ({runtime.name}) has no {backend.registry} backend; "
                f"`localllm runtime build {backend.build}` makes one that has, and is used where it is wanted "
                "(`localllm runtime list` shows what is here)",
                param=wish,
            )


def _file(plugin: Path) -> str:
    return plugin.stem.removeprefix("lib").removeprefix("ggml-")
