"""ggml backends besides the CPU's: which ones device names require, and which llama.cpp includes them as files.

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
    """A backend by its names."""

    file: str
    """libggml-FILE."""
    registry: str
    """Name in ggml's registry."""
    build: str
    """Argument of `localllm runtime build` that makes it."""


BACKENDS = {
    "cuda": Backend("cuda", "CUDA", "cuda"),
    "rocm": Backend("hip", "ROCm", "hip"),
    "rpc": Backend("rpc", "RPC", "rpc"),
    "vulkan": Backend("vulkan", "Vulkan", "vulkan"),
}
"""Keyed by the beginning of their devices' names."""
_STEM = re.compile(r"[a-z]+")


def needed(devices: Sequence[str] | None, *, rpc: bool) -> tuple[str, ...]:
    """Which of `BACKENDS` these device names require."""
    stems = [found[0] for name in devices or () if (found := _STEM.match(name.lower()))]
    return tuple(sorted({stem for stem in stems if stem in BACKENDS} | ({"rpc"} if rpc else set())))


def missing(needs: Sequence[str], plugin_dir: Path | None) -> tuple[str, ...]:
    """Those missing from the plugin folder, so that the llama.cpp in use must include them."""
    files = () if plugin_dir is None else installed.plugin_files(plugin_dir)
    return tuple(each for each in needs if BACKENDS[each].file not in map(_file, files))


def brings(runtime: Runtime, needs: Sequence[str]) -> bool:
    """Whether its folder has a file for each."""
    try:
        files = installed.find(runtime.library).plugins
    except LoadFailed:
        return False
    return all(BACKENDS[each].file in map(_file, files) for each in needs)


def check(ggml: Ggml, runtime: Runtime, needs: Sequence[str]) -> None:
    """Raises `LoadFailed` for one that the loaded llama.cpp lacks, with the command to type."""
    for each in needs:
        backend = BACKENDS[each]
        if not ggml.backend_reg_by_name(backend.registry.encode()):
            wish = "rpc" if each == "rpc" else "device"
            raise LoadFailed(
                f"{wish}: the llama.cpp in use ({runtime.name}) has no {backend.registry} backend; "
                f"`localllm runtime build {backend.build}` makes one that has it, to be used where needed "
                "(`localllm runtime list` shows what is here)",
                param=wish,
            )


def _file(plugin: Path) -> str:
    return plugin.stem.removeprefix("lib").removeprefix("ggml-")
