"""Main memory of this machine or container: total and available."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

from localllm.system import cgroups


def _windows_memory() -> tuple[int, int] | None:
    """Total and available main memory in bytes."""
    if sys.platform == "win32":

        class MemoryStatus(ctypes.Structure):
            _fields_ = (
                ("length", ctypes.c_uint32),
                ("load", ctypes.c_uint32),
                ("total_physical", ctypes.c_uint64),
                ("available_physical", ctypes.c_uint64),
                ("rest", ctypes.c_uint64 * 5),
            )

        status = MemoryStatus(length=ctypes.sizeof(MemoryStatus))
        if not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
            return None
        return int(status.total_physical), int(status.available_physical)
    else:
        return None


def available_memory() -> int | None:
    """Bytes that this process could allocate without swapping; None if unknown."""
    if sys.platform == "win32":
        status = _windows_memory()
        return None if status is None else status[1]
    elif sys.platform == "darwin":
        try:
            text = subprocess.run(["vm_stat"], capture_output=True, text=True, timeout=5, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            return None
        pages = dict(line.split(":", 1) for line in text.splitlines()[1:] if ":" in line)
        reclaimable = ("Pages free", "Pages inactive", "Pages speculative", "Pages purgeable")
        return sum(int(pages.get(name, "0").strip(" .")) for name in reclaimable) * os.sysconf("SC_PAGE_SIZE")
    else:
        available, group = _linux_memory_available(), cgroups.memory()
        if available is None or group is None:
            return available
        return min(available, group.free_bytes)


def total_memory() -> int | None:
    """Main memory of this machine, or of this container, in bytes; None if unknown."""
    if sys.platform == "win32":
        status = _windows_memory()
        return None if status is None else status[0]
    else:
        try:
            total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (OSError, ValueError):
            return None
        group = cgroups.memory() if sys.platform == "linux" else None
        return total if group is None else min(total, group.limit_bytes)


def _linux_memory_available() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return None
