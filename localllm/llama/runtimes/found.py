"""The llama.cpp libraries of this machine: the package's own, those of wheels, and those in the data directory.

Looks at files only, like `installed.py`, and loads none; `selftest.py` finds out which of them work.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from localllm.errors import LoadFailed, LocalLLMError
from localllm.llama.runtimes import in_packages, installed
from localllm.system import libraries
from localllm.types import upstream
from localllm.types.libraries import builds

Origin = Literal["package", "wheel", "built", "added"]

FOLDER = "runtimes"
"""Below the data directory."""
MANIFEST = "runtime.json"
CHOSEN = "chosen"
"""File that names the runtime to use unless a setting says otherwise."""
AUTO = "auto"
_LAST = ".last-"
"""Prefix of an empty file for each runtime whose devices were of no use."""
_MODULES = (f"{upstream.WHEEL_PACKAGE}*.so", f"{upstream.WHEEL_PACKAGE}*.pyd")
"""Names of a compiled Python module that is a libllama besides, here and on Windows."""
MAX_MANIFEST_BYTES = 64 * 1024


class Runtime(msgspec.Struct, frozen=True):
    """A libllama by name."""

    name: str
    library: str = ""
    """The file; empty: the package's own."""
    unverified: bool = False
    """Whether it is used although localllm does not know its build."""


PACKAGE = Runtime("package")


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a runtime in the data directory."""

    origin: Origin
    package_version: str
    """Version of the package that it was made from."""
    kind: str = "cpu"
    """cpu, vulkan, cuda, rpc ..."""
    build: str = ""
    """A `Build.version`; empty: the bindings' own."""
    unverified: bool = False
    flags: str = ""
    """Flags it was built with."""
    source: str = ""
    """Index that its wheel came from; empty: the package index."""
    sha256: str = ""
    """Of its wheel."""
    created_unix_s: int = 0


class RuntimeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A runtime as shown to users."""

    runtime: Runtime
    origin: Origin
    version: str
    kind: str = "cpu"
    build: str = upstream.LLAMA_VERSION
    """A `Build.version`."""
    why_not: str = ""
    """Why it cannot be used; empty: no problem is known."""
    source: str = ""
    """As in `Manifest`."""
    sha256: str = ""
    """As in `Manifest`."""
    is_last: bool = False
    """Whether `auto` tries every other runtime first, since no device of this one was faster than the CPU."""

    def knows(self, architecture: str) -> bool:
        """Whether its llama.cpp can load such models."""
        return any(each.version == self.build and architecture in each.architectures for each in builds.known())

    @property
    def uses_gpus(self) -> bool:
        """Whether it has a backend of GPUs."""
        return self.kind not in ("cpu", "rpc") or has_gpu_backend(self.runtime)

    @property
    def llama_cpp(self) -> str:
        """`0.6 (b11549)`."""
        try:
            label = builds.named(self.build).label
        except KeyError:
            return "?"
        return f"like {label}, unverified" if self.runtime.unverified else label


def listed(data_dir: Path) -> list[RuntimeRow]:
    """All runtimes, usable or not: those of the data directory, wheels for GPUs that pip installed, the package's own,
    other wheels. Those whose devices were of no use here come last."""
    own, wheels = _package(), list(_packaged())
    for_gpus = [each for each in wheels if each.kind != "cpu"]
    rest = [each for each in wheels if each.kind == "cpu"]
    found = [*_kept(data_dir), *for_gpus, *([own] if own else []), *rest]
    marked = [msgspec.structs.replace(each, is_last=_is_last(each.runtime.name, data_dir)) for each in found]
    return sorted(marked, key=lambda each: each.is_last)


def usable(data_dir: Path) -> list[Runtime]:
    """Those without known problems, in the order in which they are tried."""
    return [each.runtime for each in listed(data_dir) if not each.why_not]


def named(name: str, data_dir: Path) -> Runtime:
    """The runtime of that name. Raises `LoadFailed` if there is none or it has a known problem."""
    found = listed(data_dir)
    for each in found:
        if each.runtime.name == name and not each.why_not:
            return each.runtime
        if each.runtime.name == name:
            raise LoadFailed(f"the runtime {name!r} cannot be used: {each.why_not}", param="runtime")
    here = ", ".join(each.runtime.name for each in found) or "none"
    raise LoadFailed(f"there is no runtime {name!r} here; there are: {here}", param="runtime")


def chosen(data_dir: Path) -> str | None:
    """The name stored by `choose`; None: none was chosen."""
    try:
        return (folder_of(data_dir) / CHOSEN).read_text("utf-8").strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise LoadFailed(f"{folder_of(data_dir) / CHOSEN} cannot be read: {error}; remove it") from error


def choose(name: str, data_dir: Path) -> None:
    """Sets what `auto` means from now on; `auto` itself: whatever works and is fastest. Raises `LoadFailed`."""
    path = folder_of(data_dir) / CHOSEN
    try:
        if name == AUTO:
            path.unlink(missing_ok=True)
            return
        named(name, data_dir)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name + "\n", "utf-8")
    except OSError as error:
        raise LoadFailed(f"{path} cannot be written: {error.strerror}; choose another --home") from error


def folder_of(data_dir: Path) -> Path:
    """The folder of runtimes that were built or added."""
    return data_dir / FOLDER


def library_in(folder: Path) -> Path | None:
    """The libllama in a folder or its subfolders `lib` and `bin`, or a Python module that contains it."""
    for place in (folder, folder / "lib", folder / "bin"):
        if (path := libraries.find_library(place, "llama")) is not None:
            return path
    return _module_in(folder)


def _module_in(folder: Path) -> Path | None:
    return next((path for pattern in _MODULES for path in sorted(folder.glob(pattern))), None)


def _is_last(name: str, data_dir: Path) -> bool:
    return (folder_of(data_dir) / f"{_LAST}{name}").exists()


def _kept(data_dir: Path) -> Iterator[RuntimeRow]:
    parent = folder_of(data_dir)
    if not parent.is_dir():
        return
    for folder in sorted(path for path in parent.iterdir() if path.is_dir() and not path.name.startswith(".")):
        library, why_not = library_in(folder), ""
        try:
            manifest = _manifest(folder / MANIFEST)
        except (OSError, msgspec.MsgspecError, LocalLLMError) as error:
            manifest, why_not = Manifest(origin="added", package_version="?"), f"its {MANIFEST} is damaged: {error}"
        if not why_not and library is None:
            why_not = "its library is gone"
        build = manifest.build or upstream.LLAMA_VERSION
        if not why_not and not manifest.build and manifest.package_version != upstream.PACKAGE_VERSION:
            why_not = f"it is for {upstream.PACKAGE} {manifest.package_version}, not {upstream.PACKAGE_VERSION}"
        if not why_not and build not in {each.version for each in builds.known()}:
            why_not = f"its llama.cpp {build} is no longer known; remove it"
        yield RuntimeRow(
            runtime=Runtime(folder.name, str(library or folder), manifest.unverified),
            origin=manifest.origin,
            version=manifest.package_version,
            kind=manifest.kind,
            build=build,
            source=manifest.source,
            sha256=manifest.sha256,
            why_not=why_not,
        )


def put_last(name: str, data_dir: Path, *, is_last: bool) -> None:
    """Whether `auto` tries the runtime of that name after all others. Raises `OSError`."""
    mark = folder_of(data_dir) / f"{_LAST}{name}"
    if not is_last:
        mark.unlink(missing_ok=True)
    elif not mark.exists():
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def has_gpu_backend(runtime: Runtime) -> bool:
    """Whether there is a file with a backend of GPUs beside its library."""
    try:
        plugins = installed.find(runtime.library).plugins
    except LoadFailed:
        return False
    return any(libraries.stem_of(path) != "ggml-rpc" for path in plugins)


def _manifest(path: Path) -> Manifest:
    if path.stat().st_size > MAX_MANIFEST_BYTES:
        raise LoadFailed("it is too large")
    return msgspec.json.decode(path.read_bytes(), type=Manifest)


def _package() -> RuntimeRow | None:
    """The package's own library; None if the bindings were installed without one, as without a compiler."""
    try:
        files = installed.find()
    except LoadFailed:
        return None
    return RuntimeRow(runtime=PACKAGE, origin="package", version=files.package_version)


def _packaged() -> Iterator[RuntimeRow]:
    """The wheels that pip installed beside localllm."""
    for each in in_packages.packaged():
        library = library_in(each.folder)
        why_not = each.why_not or ("" if library is not None else "its library is not where it is expected")
        yield RuntimeRow(
            runtime=Runtime(each.name, str(library or each.folder)),
            origin="wheel",
            version=each.version,
            kind="cpu" if each.wheel is None else each.wheel.kind,
            build="?" if each.wheel is None else each.wheel.build,
            why_not=why_not,
        )
