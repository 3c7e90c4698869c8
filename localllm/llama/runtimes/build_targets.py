"""Which GPUs a build is compiled for: those of this machine, as NVIDIA's own tool lists them, or every architecture.

A CUDA backend for one architecture compiles in a fifth of the time of llama.cpp's own list of architectures.
"""

from __future__ import annotations

import re
import subprocess

SETTING = "CMAKE_CUDA_ARCHITECTURES"
TIMEOUT_S = 20.0
"""Includes waking up an idle driver."""
_CAPABILITY = re.compile(r"^\s*(\d{1,2})\.(\d)\s*$", re.ASCII | re.MULTILINE)


def cuda_architectures() -> tuple[str, ...]:
    """Architectures of this machine's GPUs, as CMake names them (`86`); empty without a GPU or its driver."""
    try:
        asked = subprocess.run(
            ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ()
    found = _CAPABILITY.findall(asked.stdout.decode("utf-8", "replace"))
    return tuple(sorted({major + minor for major, minor in found}, key=int))


def flags(kind: str, given: str) -> str:
    """CMake's flag for this machine's GPUs; empty if the user's flags name architectures."""
    if kind != "cuda" or SETTING in given:
        return ""
    here = cuda_architectures()
    return f"-D{SETTING}={';'.join(here)}" if here else ""


def note(kind: str, given: str) -> str:
    """What a build for every architecture costs, and how to shorten it; empty if it is for particular GPUs."""
    if kind != "cuda" or SETTING in given or cuda_architectures():
        return ""
    return (
        ", for every GPU architecture, since no GPU was found here (an hour or more on two cores; "
        f"CMAKE_ARGS=-D{SETTING}=86 compiles for one)"
    )
