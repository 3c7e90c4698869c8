"""Downloads a wheel of the package index and takes llama.cpp's libraries out of it.

pip downloads it, from the index that the user configured, and refuses a file with another hash. Nothing of the wheel is
installed or run as Python code. Knows neither names of runtimes nor whether the libraries work here.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from localllm.errors import InvalidParameter, LoadFailed
from localllm.system import libraries, machine
from localllm.system.programs import is_frozen, own_command
from localllm.types import upstream
from localllm.types.libraries.wheels import WHEELS, File, Wheel

_STEMS = ("llama", "ggml", "gomp", "mtmd")
"""Names begin so; the rest of a wheel is not needed."""
_PYTHON = "3.12"
"""For pip: none of the wheel's Python code is used, so any Python takes one for this version."""
_LAST_LINES = 4


def named(name: str) -> Wheel | None:
    """The wheel that `localllm runtime install` calls so; of a name without version, such as `vulkan`, the newest."""
    return next((wheel for wheel in reversed(WHEELS) if name in (wheel.name, wheel.name.rpartition("-")[0])), None)


def offered() -> tuple[Wheel, ...]:
    """Those for this machine, oldest llama.cpp first."""
    return tuple(wheel for wheel in WHEELS if machine.wheel_platform() in wheel.files)


def file_of(wheel: Wheel) -> File:
    """Its file for this machine. Raises `InvalidParameter`."""
    file = wheel.files.get(machine.wheel_platform())
    if file is None:
        here = ", ".join(each.name for each in offered()) or "none"
        raise InvalidParameter(
            f"there is no {wheel.name} for {machine.platform_name()}; wheels for it: {here}", param="target"
        )
    return file


def download(wheel: Wheel, folder: Path, pip: Sequence[str] | None = None) -> Path:
    """The downloaded file. Raises `LoadFailed` with pip's last lines, `InvalidParameter`."""
    return pip_download(f"{wheel.package}=={wheel.version}", folder, sha256=file_of(wheel).sha256, pip=pip)


def pip_download(
    requirement: str, folder: Path, *, sha256: str, index: str = "", pip: Sequence[str] | None = None
) -> Path:
    """The wheel of `requirement`; one with another hash is refused, unless `sha256` is empty. `index`: URL of the only
    place to look at; empty: as the user configured pip.

    Raises `LoadFailed` with pip's last lines.
    """
    if is_frozen() and pip is None:
        raise LoadFailed(
            f"a download needs Python and pip, which this frozen program lacks; download {requirement} elsewhere (pip "
            "download --no-deps), and name the file",
            param="target",
        )
    wanted = folder / "wanted.txt"
    wanted.write_text(requirement + (f" --hash=sha256:{sha256}" if sha256 else "") + "\n", "utf-8")
    options = ["--no-deps", "--only-binary=:all:", f"--python-version={_PYTHON}", "--no-input"]
    options += ["--require-hashes"] if sha256 else []
    options += [f"--index-url={index}"] if index else []
    # Variables replace what pip's configuration adds to an index; an option would only add one more place.
    variables = {"PIP_EXTRA_INDEX_URL": index, "PIP_FIND_LINKS": index} if index else {}
    command = [*(pip or own_command("pip")), "download", "--quiet", "--disable-pip-version-check", *options]
    try:
        done = subprocess.run(
            [*command, "--dest", str(folder), "--requirement", str(wanted)], env=os.environ | variables,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
    except OSError as error:
        raise LoadFailed(f"{command[0]} does not start: {error}") from error
    found = next(folder.glob("*.whl"), None)
    if done.returncode or found is None:
        lines = [line for line in done.stdout.splitlines() if line.strip() and not line.startswith("WARNING")]
        raise LoadFailed(
            f"pip could not download {requirement.replace('==', ' ')}: {' '.join(lines[-_LAST_LINES:]) or 'no reason'}",
            param="target",
        )
    return found


def is_wanted(name: str) -> bool:
    """Whether a library of a wheel is llama.cpp, or one that it loads."""
    stem = libraries.stem_of(Path(name))
    return (stem.startswith(_STEMS) and not stem.startswith("llama_")) or stem.startswith(upstream.WHEEL_PACKAGE)
