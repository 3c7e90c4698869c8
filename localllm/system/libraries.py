"""Shared libraries: their file names, and where their symbols are found."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path


def shared_library_names(stem: str) -> tuple[str, ...]:
    """File names that a shared library called `stem` may have, likeliest first; `stem` may hold a `*`."""
    if sys.platform == "win32":
        return (f"{stem}.dll", f"lib{stem}.dll")
    elif sys.platform == "darwin":
        return (f"lib{stem}.dylib", f"lib{stem}.so")
    else:
        return (f"lib{stem}.so",)


def symbol_libraries(main: ctypes.CDLL, folder: Path, stems: tuple[str, ...]) -> list[ctypes.CDLL]:
    """Where to look up the symbols of `main` and of the libraries that it depends on.

    dlsym searches the dependencies of a handle too; Windows does not, so there each DLL is opened by its name.
    """
    if sys.platform == "win32":
        paths = (folder / name for stem in stems for name in shared_library_names(stem))
        return [main, *(ctypes.CDLL(str(path)) for path in paths if path.is_file())]
    else:
        return [main]
