"""What identifies this machine: platform, boot."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path


def builds_cpu_variants() -> bool:
    """Whether to recommend llama.cpp's flags for run-time-selectable CPU backends here (GCC and Clang on Linux)."""
    return sys.platform == "linux"


def platform_name() -> str:
    """For people: `Linux x86_64`, `Darwin arm64`."""
    import platform

    return f"{platform.system()} {platform.machine()}"


def wheel_platform() -> str:
    """System and processor, as in `types.wheels`: `linux-x86_64`, `darwin-arm64`, `windows-x86_64`."""
    import platform

    processor = platform.machine().lower().replace("amd64", "x86_64")
    return f"{platform.system().lower()}-{processor}"


_GPU_MAKERS = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}
"""PCI vendor -> name, the likeliest fastest first."""


def gpu_maker(root: Path = Path("/")) -> str | None:
    """Who made the GPU that Linux has a driver for; None: there is none, or this is another system.

    `root`: of the file system.
    """
    vendors = set()
    for path in root.glob("sys/class/drm/renderD*/device/vendor"):
        try:
            vendors.add(path.read_text("ascii").strip())
        except (OSError, ValueError):
            continue
    if any(root.glob("proc/driver/nvidia/gpus/*")):
        vendors.add("0x10de")
    return next((name for vendor, name in _GPU_MAKERS.items() if vendor in vendors), None)


def boot_id() -> str | None:
    """An id that changes with every boot; None if unknown."""
    if sys.platform == "linux":
        try:
            return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip() or None
        except (OSError, ValueError):
            return None
    elif sys.platform == "darwin":
        size, text = ctypes.c_size_t(64), ctypes.create_string_buffer(64)
        libc = ctypes.CDLL(None)
        if libc.sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
            return None
        return text.value.decode("ascii", "replace") or None
    else:
        return None
