"""Shared libraries: their file names, and where their symbols are found."""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path

_NAME = re.compile(r"(?:lib)?(.+?)(?P<hash>-[0-9a-f]{8,32})?\.(?:so(?:\.[0-9.]+)?|dylib|dll)")
"""Tools that put libraries into a wheel give each a hash in its name."""


def shared_library_names(stem: str) -> tuple[str, ...]:
    """File names that a shared library called `stem` may have, likeliest first; `stem` may hold a `*`."""
    if sys.platform == "win32":
        return (f"{stem}.dll", f"lib{stem}.dll")
    elif sys.platform == "darwin":
        return (f"lib{stem}.dylib", f"lib{stem}.so")
    else:
        return (f"lib{stem}.so",)


def stem_of(path: Path) -> str:
    """`ggml-cpu` for libggml-cpu-0786c92d.so, `llama` for libllama.so.0.7.0; empty for what is no shared library."""
    found = _NAME.fullmatch(path.name)
    return found[1] if found else ""


def find_library(folder: Path, stem: str) -> Path | None:
    """The shared library called `stem`, or one whose name has a hash besides."""
    exact = (folder / name for name in shared_library_names(stem))
    hashed = (path for path in sorted(folder.glob(f"*{stem}-*")) if stem_of(path) == stem)
    return next((path for path in (*exact, *hashed) if path.is_file()), None)


def symbol_libraries(main: ctypes.CDLL, folder: Path, stems: tuple[str, ...]) -> list[ctypes.CDLL]:
    """Where to look up the symbols of `main` and of the libraries that it depends on.

    dlsym searches the dependencies of a handle too; Windows does not, so there each DLL is opened by its name.
    """
    if sys.platform == "win32":
        paths = (find_library(folder, stem) for stem in stems)
        return [main, *(ctypes.CDLL(str(path)) for path in paths if path is not None)]
    else:
        return [main]
