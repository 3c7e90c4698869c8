"""Finds and opens the libraries that localllm's build compiles from `native/`.

An installation without a compiler has none. Knows nothing of their content.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

PACKAGE = "localllm_native"
"""The folder in site-packages into which the build installs them."""
SUFFIXES = (".so", ".dll", ".dylib")

T = TypeVar("T")


class NotCompiled(Exception):
    """This installation has no usable library of that name; the message says why."""


def load(name: str, open_library: Callable[[Path], T]) -> T:
    """Open the library of that name with `open_library`.

    Raises `NotCompiled`, also when `open_library` raises `OSError` (not a library), `AttributeError` (a different one)
    or `ValueError` (built for another version of localllm).
    """
    spec = find_spec(PACKAGE)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    found = [path for folder in folders for path in Path(folder).glob(f"{name}.*") if path.suffix in SUFFIXES]
    if not found:
        raise NotCompiled("there was no C++ compiler when localllm was installed")
    try:
        return open_library(found[0])
    except (OSError, AttributeError, ValueError) as error:
        raise NotCompiled(str(error)) from error
