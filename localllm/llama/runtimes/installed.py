"""The files of one llama.cpp: where they are, and what distinguishes this build from others.

Looks at files only: loads no native code and imports no part of llama_cpp, so it takes a few milliseconds and cannot
crash. Does not know which file works on this CPU; `selftest.py` finds that out.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from localllm.errors import LoadFailed
from localllm.system import libraries, machine
from localllm.types.upstream import PACKAGE, PACKAGE_VERSION

FAST_INSTALL_FLAGS = (
    "-DGGML_NATIVE=OFF -DGGML_BACKEND_DL=ON -DGGML_CPU_ALL_VARIANTS=ON -DCMAKE_CXX_FLAGS='-fno-tree-dse -fno-dse'"
)
"""The best code for every CPU, chosen at run time; the two -fno flags keep GCC from breaking ggml's AMX set-up."""


ONE_VARIANT = "cpu"
"""Name of a loadable CPU backend that has no other."""


class InstalledBindings(msgspec.Struct, frozen=True):
    """The bindings of llama-cpp-python, and the libraries that they should use."""

    package_version: str
    package_dir: Path
    library_dir: Path
    core: tuple[Path, ...]
    """libllama and the ggml libraries loaded with it."""
    variants: dict[str, Path]
    """CPU backends built as loadable files, by name (`haswell`); empty if the CPU backend is linked in."""

    is_foreign: bool = False
    """Whether the library is not the package's own."""

    @property
    def has_all_variants(self) -> bool:
        """Whether it has code for every CPU."""
        return any(name != ONE_VARIANT for name in self.variants)

    @property
    def library_path(self) -> Path:
        return self.core[0]

    @property
    def backend_folders(self) -> tuple[Path, ...]:
        """Where a build puts the backends of devices that are loadable files."""
        return (self.library_dir,) if self.is_foreign else (self.package_dir.parent / "bin",)

    @property
    def plugins(self) -> tuple[Path, ...]:
        """Files of those backends (Vulkan, RPC ...)."""
        return tuple(path for folder in self.backend_folders for path in plugin_files(folder))

    def fingerprint(self, variant: str | None) -> str:
        """Changes with the content of the core libraries or of this CPU variant; a key for caches of results."""
        paths = self.core if variant is None else (*self.core, self.variants[variant])
        return _digest(paths, [])

    def selftest_key(self) -> str:
        """Changes with any library file. For 20 MB of variants only name, size and time are read: 5 ms instead
        of 40."""
        return _digest(self.core, (*self.variants.values(), *self.plugins))


def find(library: str = "") -> InstalledBindings:
    """The bindings with a libllama: the package's, or the file `library`, which may include ggml.

    Raises `LoadFailed` if there is none.
    """
    package_dir = find_bindings()
    if library:
        path = Path(library)
        if not path.is_file():
            raise LoadFailed(f"there is no llama library {path}", public="the runtime's library is gone")
        library_dir, folders = path.parent, [path.parent]
    else:
        library_dir = Path(os.environ.get("LLAMA_CPP_LIB_PATH") or package_dir / "lib")  # the binding's own override
        own = libraries.find_library(library_dir, "llama")
        if own is None:
            raise unusable(f"there is no llama library in {library_dir}", public="there is no llama library")
        path = own
        # pip puts loadable backends into site-packages/bin, other installers beside the library.
        folders = [package_dir.parent / "bin", library_dir.parent / "bin", library_dir]
    rest = [each for stem in ("ggml", "ggml-base", "ggml-cpu") if (each := libraries.find_library(library_dir, stem))]
    return InstalledBindings(
        package_version=_package_version(package_dir),
        package_dir=package_dir,
        library_dir=library_dir,
        core=(path, *rest),
        variants=_variants(folders),
        is_foreign=bool(library),
    )


def find_bindings() -> Path:
    """The folder of the package that binds llama.cpp, which may be installed without a library.

    Raises `LoadFailed` if it is not installed.
    """
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or not spec.submodule_search_locations:
        raise unusable(f"{PACKAGE} is not installed", again=False)
    return Path(spec.submodule_search_locations[0])


def install_command(*, again: bool = True) -> str:
    """The command for the fastest build that runs everywhere; `again`: in place of an installed one. pip's cache would
    give an older build."""
    options = "--no-cache-dir" + (" --force-reinstall --no-deps" if again else "")
    command = f"pip install {options} {PACKAGE}=={PACKAGE_VERSION}"
    return f'CMAKE_ARGS="{FAST_INSTALL_FLAGS}" {command}' if machine.builds_cpu_variants() else command


def unusable(reason: str, *, again: bool = True, public: str | None = None) -> LoadFailed:
    """The error for a library that must be (re)installed: says why, and what to type.

    `public`: the reason without our paths, if it contains any.
    """
    command = install_command(again=again)
    return LoadFailed(
        f"{reason}; to install it, type: {command}",
        public=f"{public or reason}; to install it, type: {command}",
        reason=reason,
        command=command,
    )


def plugin_files(folder: Path) -> list[Path]:
    """The ggml backends (Vulkan, CUDA, RPC ...) in a folder, ordered by name."""
    found = {path for pattern in libraries.shared_library_names("ggml-*") for path in folder.glob(pattern)}
    return sorted(path for path in found if not _is_core(libraries.stem_of(path)))


def _is_core(stem: str) -> bool:
    return stem == "ggml" or stem.startswith(("ggml-base", "ggml-cpu"))


def _package_version(package_dir: Path) -> str:
    """Read from the source text: importlib.metadata would cost 20 ms, importing the package 100."""
    found = re.search(r'^__version__ = "(.+)"', (package_dir / "__init__.py").read_text("utf-8"), re.MULTILINE)
    return found[1] if found else "unknown"


def _variants(folders: Iterable[Path]) -> dict[str, Path]:
    found = {}
    for folder in folders:
        for pattern in libraries.shared_library_names("ggml-cpu-*"):
            for path in sorted(folder.glob(pattern)):
                found[libraries.stem_of(path).removeprefix("ggml-cpu").removeprefix("-") or ONE_VARIANT] = path
    return found


def _digest(contents: Iterable[Path], stats: Iterable[Path]) -> str:
    marks = [(path, path.stat()) for path in contents]
    digest = _hashed(tuple((path, status.st_size, status.st_mtime_ns) for path, status in marks)).copy()
    for path in stats:
        status = path.stat()
        digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()


@functools.lru_cache(maxsize=16)
def _hashed(contents: tuple[tuple[Path, int, int], ...]) -> hashlib.blake2b:
    """Of files of this size and time; never changed. A worker needs the core libraries' twice, for 15 ms each."""
    if not contents:
        return hashlib.blake2b(digest_size=16)
    *before, (path, _, _) = contents
    digest = _hashed(tuple(before)).copy()
    digest.update(path.name.encode())
    digest.update(path.read_bytes())
    return digest
