"""For which GPUs a build is compiled: those of this machine, as NVIDIA's own tool lists them, or all that there are.

A CUDA backend for one architecture takes a fifth of the time that llama.cpp's own list of them takes.
"""

from __future__ import annotations

import re
import subprocess

SETTING = "CMAKE_CUDA_ARCHITECTURES"
TIMEOUT_S = 20.0
"""A driver that was idle wakes up first."""
_CAPABILITY = re.compile(r"^\s*(\d{1,2})\.(\d)\s*$", re.ASCII | re.MULTILINE)


def cuda_architectures() -> tuple[str, ...]:
    """Of the GPUs here, as CMake names them (`86`); none where there is no GPU, or no driver to ask."""
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
    """What CMake is told of them; nothing where the user's flags name some."""
    if kind != "cuda" or SETTING in given:
        return ""
    here = cuda_architectures()
    return f"-D{SETTING}={';'.join(here)}" if here else ""


def note(kind: str, given: str) -> str:
    """What a build for no GPU in particular costs, and how to shorten it; empty where it is for one."""
    if kind != "cuda" or SETTING in given or cuda_architectures():
        return ""
    return (
        ", for every architecture of GPUs, since none is seen here (an hour or more on two cores; "
        f"CMAKE_ARGS=-D{SETTING}=86 compiles for one)"
    )
