"""llama.cpp's libraries in wheels that pip installed beside localllm, as its extras `wheel`, `vulkan` and `cuda` do.

Looks at files only, and imports nothing of those packages. A wheel counts if its version is a pinned one; where its
libraries are separate files, each must have its pinned size and (`changed`) content. Does not know whether they work.
"""

from __future__ import annotations

import hashlib
import importlib.util
import site
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from localllm.types import upstream
from localllm.types.libraries.wheels import WHEELS, Wheel


class Packaged(NamedTuple):
    """A wheel that is installed."""

    name: str
    """Of the runtime: `wheel`, `vulkan-wheel`, `cuda-wheel`."""
    version: str
    folder: Path
    """Where its libraries are."""
    wheel: Wheel | None
    """None: its version is not a pinned one."""
    wanted: str
    """The requirement of the pinned version."""
    why_not: str = ""
    """Why it cannot be used; empty: no problem is known."""


def packaged() -> Iterator[Packaged]:
    """All that are installed."""
    newest = {wheel.package: wheel for wheel in WHEELS}
    if (compiled := _compiled_module()) is not None:
        yield _described("wheel", compiled, newest[upstream.WHEEL_PACKAGE], compiled.parent)
    for wheel in newest.values():
        stem = wheel.package.replace("-", "_")
        for place in _places() if wheel.libraries else ():
            if (place / f"{stem}.libs").is_dir():
                yield _described(f"{wheel.kind}-wheel", place / f"{stem}.libs", wheel, place)
                break


def changed(library: str) -> str:
    """Which file of a wheel that pip installed is not the pinned one: a phrase; empty: none. Reads all of them."""
    folder = Path(library).parent
    for each in packaged():
        if library and each.folder == folder and each.wheel is not None:
            for name, file in each.wheel.libraries.items():
                if hashlib.sha256((folder / name).read_bytes()).hexdigest() != file.sha256:
                    return f"{name} is not that of {each.wanted}; pip install --force-reinstall {each.wanted}"
    return ""


def _described(name: str, folder: Path, newest: Wheel, place: Path) -> Packaged:
    prefix, suffix = f"{newest.package.replace('-', '_')}-", ".dist-info"
    about = next(place.glob(f"{prefix}*{suffix}"), None)
    version = "?" if about is None else about.name.removeprefix(prefix).removesuffix(suffix)
    wheel = next((each for each in WHEELS if (each.package, each.version) == (newest.package, version)), None)
    wanted = f"{newest.package}=={newest.version}"
    why_not = ""
    if wheel is None:
        why_not = f"its version is {version}; for this localllm: pip install {wanted}"
    else:
        for name_of_file, file in wheel.libraries.items():
            path = folder / name_of_file
            if not path.is_file() or path.stat().st_size != file.size_bytes:
                why_not = f"{name_of_file} is not that of {wanted}; pip install --force-reinstall {wanted}"
    return Packaged(name, version, folder, wheel, wanted, why_not)


def _compiled_module() -> Path | None:
    """The folder of the package that is one compiled module."""
    spec = importlib.util.find_spec(upstream.WHEEL_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])


def _places() -> list[Path]:
    """Folders in which pip installs, in the order of imports."""
    return [Path(each) for each in dict.fromkeys((*sys.path, *site.getsitepackages())) if each]
