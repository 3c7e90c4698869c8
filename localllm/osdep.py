"""Every branch on the operating system, and nothing else. mypy runs over this file for linux, darwin and win32."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple


def user_data_dir() -> Path:
    """Where models, KV, plugins and logs live."""
    import platformdirs

    return Path(platformdirs.user_data_dir("localllm", appauthor=False))


def user_config_dir() -> Path:
    """Where config.toml lives."""
    import platformdirs

    return Path(platformdirs.user_config_dir("localllm", appauthor=False))


def own_process_group() -> dict[str, Any]:
    """`subprocess.Popen` arguments that keep the terminal's Ctrl-C from reaching the child."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    else:
        return {"process_group": 0}


class ExitReason(NamedTuple):
    """How a process ended."""

    exit_code: int | None
    signal: str | None
    crashed: bool
    """Died of a fault or a signal, rather than leaving by itself."""

    def __str__(self) -> str:
        return f"signal {self.signal}" if self.signal else f"exit code {self.exit_code}"


def exit_reason(returncode: int) -> ExitReason:
    """Reads a `Popen.returncode`: negative signal numbers on POSIX, NTSTATUS values of 0xC0000000 and up on Windows."""
    if sys.platform == "win32":
        code = returncode & 0xFFFFFFFF
        names = {0xC0000005: "ACCESS_VIOLATION", 0xC000001D: "ILLEGAL_INSTRUCTION", 0xC0000409: "ABORT"}
        return ExitReason(code, names.get(code), code >= 0xC0000000)
    else:
        if returncode >= 0:
            return ExitReason(returncode, None, False)
        try:
            name = signal.Signals(-returncode).name
        except ValueError:
            name = str(-returncode)
        return ExitReason(None, name, True)


def claim_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Takes fd 0 and fd 1 for a binary protocol and returns them as private unbuffered files.

    Afterwards fd 0 is the null device and fd 1 is stderr, so that no native print gets between frames.
    """
    sys.stdout.flush()
    read_fd, write_fd = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(read_fd, os.O_BINARY)
        msvcrt.setmode(write_fd, os.O_BINARY)
    sys.stdout = sys.stderr
    return open(read_fd, "rb", buffering=0), open(write_fd, "wb", buffering=0)


def limit_memory(max_bytes: int) -> bool:
    """Bounds this process's address space; False where the system offers no such limit."""
    if sys.platform == "win32":
        return False
    else:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        try:
            resource.setrlimit(resource.RLIMIT_AS, (max_bytes, hard))
        except (ValueError, OSError):  # macOS refuses RLIMIT_AS
            return False
        return True


def limit_further_cpu(seconds: float) -> None:
    """Lets this process burn `seconds` (rounded up) more CPU time before the system kills it; no limit on Windows."""
    if sys.platform != "win32":
        import math
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        total = math.ceil(used.ru_utime + used.ru_stime + seconds)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (total, hard))


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


def num_physical_cores() -> int:
    """CPU cores this process may use, hyperthreads counted once where that can be told."""
    if sys.platform == "linux":
        usable = os.sched_getaffinity(0)
        siblings = set()
        for cpu in usable:
            try:
                path = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
                siblings.add(Path(path).read_text("ascii").strip())
            except OSError:
                siblings.add(str(cpu))
        return max(1, len(siblings))
    else:
        count = os.cpu_count() or 1
        return max(1, count if sys.platform == "darwin" else count // 2)


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


def builds_cpu_variants() -> bool:
    """Whether llama.cpp's flags for run-time-selectable CPU backends are the advice here (GCC and Clang on Linux)."""
    return sys.platform == "linux"


def die_quietly() -> None:
    """This process may crash by design: no core dump, and on Windows no dialog that waits for a click."""
    if sys.platform == "win32":
        ctypes.windll.kernel32.SetErrorMode(0x0001 | 0x0002)  # SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX
    else:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def available_memory() -> int | None:
    """Bytes that this process could still allocate without swapping; None where that cannot be told."""
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
        return int(status.available_physical)
    elif sys.platform == "darwin":
        try:
            text = subprocess.run(["vm_stat"], capture_output=True, text=True, timeout=5, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            return None
        pages = dict(line.split(":", 1) for line in text.splitlines()[1:] if ":" in line)
        reclaimable = ("Pages free", "Pages inactive", "Pages speculative", "Pages purgeable")
        return sum(int(pages.get(name, "0").strip(" .")) for name in reclaimable) * os.sysconf("SC_PAGE_SIZE")
    else:
        available = _linux_memory_available()
        limit, used = _read_number("/sys/fs/cgroup/memory.max"), _read_number("/sys/fs/cgroup/memory.current")
        if limit is not None and used is not None and available is not None:  # a container's own bound
            return min(available, max(0, limit - used))
        return available


def _linux_memory_available() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return None


def _read_number(path: str) -> int | None:
    try:
        return int(Path(path).read_text("ascii"))
    except (OSError, ValueError):  # not there, or the word "max"
        return None


def platform_name() -> str:
    """For people: `Linux x86_64`, `Darwin arm64`."""
    import platform

    return f"{platform.system()} {platform.machine()}"
