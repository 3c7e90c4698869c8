"""The CPU: its model, its cores, its load."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from localllm.system import cgroups


def cpu_model() -> str:
    """A name for this CPU that changes when the CPU does; a key for remembered self-tests."""
    if sys.platform == "linux":
        wanted = ("model name", "cpu family", "model\t", "flags", "Features", "CPU part")
        try:
            with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
                first = file.read().split("\n\n", 1)[0]
        except OSError:
            return "unknown"
        return "\n".join(line for line in first.splitlines() if line.startswith(wanted))
    else:
        import platform

        return f"{platform.machine()} {platform.processor()}"


def cpu_name() -> str:
    """The CPU's marketing name."""
    import platform

    named = (line.partition(":")[2].strip() for line in cpu_model().splitlines() if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def num_physical_cores() -> int:
    """CPU cores that this process may use; hyperthreads count once if they can be identified.

    In a container, at most as many as its CPU quota keeps busy. On macOS only the fast cores: evenly divided work
    would wait for the slow ones.
    """
    if sys.platform == "linux":
        usable = os.sched_getaffinity(0)
        siblings = set()
        for cpu in usable:
            try:
                path = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
                siblings.add(Path(path).read_text("ascii").strip())
            except OSError:
                siblings.add(str(cpu))
        return cgroups.threads_within(max(1, len(siblings)))
    elif sys.platform == "darwin":
        libc = ctypes.CDLL(None)
        for name in (b"hw.perflevel0.physicalcpu", b"hw.physicalcpu"):  # the first on Apple silicon
            count, size = ctypes.c_int32(0), ctypes.c_size_t(4)
            if libc.sysctlbyname(name, ctypes.byref(count), ctypes.byref(size), None, ctypes.c_size_t(0)) == 0:
                return max(1, count.value)
        return os.cpu_count() or 1
    else:
        return max(1, (os.cpu_count() or 1) // 2)


def num_usable_cpus() -> int:
    """Logical CPUs that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    else:
        return os.cpu_count() or 1


def busy_cpu_s() -> float | None:
    """CPU time that all processes have used on these CPUs, from an arbitrary start; None if unknown."""
    if sys.platform == "linux":
        try:
            with open("/proc/stat", encoding="ascii") as file:
                lines = [line.split() for line in file if line.startswith("cpu")]
            usable = {f"cpu{cpu}" for cpu in os.sched_getaffinity(0)}
            busy = sum(int(line[at]) for line in lines if line[0] in usable for at in (1, 2, 3, 6, 7, 8))
        except (OSError, ValueError, IndexError):
            return None
        return busy / os.sysconf("SC_CLK_TCK")
    elif sys.platform == "darwin":
        libc, ticks, count = ctypes.CDLL(None), (ctypes.c_uint32 * 4)(), ctypes.c_uint32(4)  # user, system, idle, nice
        failed = libc.host_statistics(libc.mach_host_self(), 3, ticks, ctypes.byref(count))  # HOST_CPU_LOAD_INFO
        return None if failed else (ticks[0] + ticks[1] + ticks[3]) / 100
    else:
        times = [ctypes.c_uint64() for _ in range(3)]  # idle, kernel (idle, too), user; in 100 ns
        if not ctypes.windll.kernel32.GetSystemTimes(*map(ctypes.byref, times)):
            return None
        return (times[1].value + times[2].value - times[0].value) / 1e7
