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
