"""ggml backends besides the CPU's: which ones device names require, and which llama.cpp includes them as files.

Loads none of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from localllm.errors import LoadFailed
from localllm.llama.devices import Ggml
from localllm.llama.log import NO_REASON
from localllm.llama.runtimes import installed
from localllm.llama.runtimes.found import Runtime
from localllm.system import libraries


class Backend(NamedTuple):
    """A backend by its names."""

    file: str
    """libggml-FILE."""
    registry: str
    """Name in ggml's registry."""
    build: str
    """`localllm runtime build` of it."""
    driver: tuple[str, ...] = ()
    """Name prefixes of the libraries that come with the device's driver, never with a build."""
    driver_name: str = ""


class NotLoaded(NamedTuple):
    """A file of a runtime that does not load here, because a library that it needs is missing."""

    file: str
    """Its name: a backend, or a libllama that is linked with one."""
    library: str
    """The missing library; empty: the system did not name it."""

    def __str__(self) -> str:
        with_it = (each for each in BACKENDS.values() if each.driver and self.library.startswith(each.driver))
        backend = next(with_it, None)
        if not self.library:
            return f"{self.file} does not load: the driver of its device or another library is missing"
        if backend is not None:
            return f"{self.file} does not load: {self.library} is missing, a part of {backend.driver_name}"
        return (
            f"{self.file} does not load: {self.library} is missing; install what it belongs to, or tell the system's "
            "loader its folder (on Linux: LD_LIBRARY_PATH)"
        )


BACKENDS = {
    "cuda": Backend("cuda", "CUDA", "cuda", ("libcuda.", "nvcuda."), "NVIDIA's driver"),
    "rocm": Backend("hip", "ROCm", "hip", ("libamdhip", "libhsa-"), "AMD's ROCm driver"),
    "rpc": Backend("rpc", "RPC", "rpc"),
    "vulkan": Backend(
        "vulkan", "Vulkan", "vulkan", ("libvulkan.",), "Vulkan's loader (on Debian and Ubuntu libvulkan1)"
    ),
}
"""Keyed by the beginning of their devices' names."""
_OTHER_REGISTRIES = {"metal": "MTL"}
"""File -> its name in ggml's registry, where it is not the same."""
_STEM = re.compile(r"[a-z]+")
_MISSING = re.compile(r"(\S+): cannot open shared object file|Library not loaded: (\S+)")
"""Messages of the loaders of Linux and macOS; Windows gives no reason."""


def not_loaded(path: Path, reason: str) -> NotLoaded | None:
    """The missing library that `reason` names; None: the backend itself is broken, and no other library repairs it."""
    if found := _MISSING.search(reason):
        library = PurePath(found[1] or found[2]).name
        return None if library == path.name else NotLoaded(path.name, library)
    is_silent = not reason.removeprefix(NO_REASON).strip()
    return NotLoaded(path.name, "") if is_silent else None


def needed(devices: Sequence[str] | None, *, rpc: bool) -> tuple[str, ...]:
    """Which of `BACKENDS` these device names require."""
    stems = [found[0] for name in devices or () if (found := _STEM.match(name.lower()))]
    return tuple(sorted({stem for stem in stems if stem in BACKENDS} | ({"rpc"} if rpc else set())))


def missing(needs: Sequence[str], plugin_dir: Path | None) -> tuple[str, ...]:
    """Those missing from the plugin folder: the llama.cpp in use must include them."""
    files = () if plugin_dir is None else installed.plugin_files(plugin_dir)
    return tuple(each for each in needs if BACKENDS[each].file not in map(_file, files))


def brings(runtime: Runtime, needs: Sequence[str]) -> bool:
    """Whether the runtime's folder has a file for each of these backends."""
    try:
        files = installed.find(runtime.library).plugins
    except LoadFailed:
        return False
    return all(BACKENDS[each].file in map(_file, files) for each in needs)


def is_linked_in(ggml: Ggml, path: Path) -> bool:
    """Whether the library is linked with the backend of that file, as in builds without GGML_BACKEND_DL; then it is
    registered before any file is loaded."""
    file = _file(path)
    name = next((each.registry for each in BACKENDS.values() if each.file == file), _OTHER_REGISTRIES.get(file, file))
    return bool(ggml.backend_reg_by_name(name.encode()))


def check(ggml: Ggml, runtime: Runtime, needs: Sequence[str], absent: Sequence[NotLoaded] = ()) -> None:
    """Raises `LoadFailed`, with the remedy, for a backend that is not registered: llama.cpp was built without it, or
    has it but could not load it (`absent`).
    """
    for each in needs:
        backend = BACKENDS[each]
        if not ggml.backend_reg_by_name(backend.registry.encode()):
            wish = "rpc" if each == "rpc" else "device"
            for known in absent:
                if _file(Path(known.file)) == backend.file:
                    raise LoadFailed(f"{wish}: {known}", param=wish)
            raise LoadFailed(
                f"{wish}: the llama.cpp in use ({runtime.name}) has no {backend.registry} backend; "
                f"`localllm runtime build {backend.build}` makes one that has it, to be used where needed "
                "(`localllm runtime list` shows what is here)",
                param=wish,
            )


def _file(plugin: Path) -> str:
    return libraries.stem_of(plugin).removeprefix("ggml-")
