"""Processes: groups, limits, exit reasons, standard streams. Knows no program."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import weakref
from typing import IO, Any, BinaryIO, NamedTuple


def own_process_group() -> dict[str, Any]:
    """`Popen` arguments that keep Ctrl-C from a child and, on Windows, stop a desktop app's child opening a console."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW}
    else:
        return {"process_group": 0}


def kill_group(pid: int) -> None:
    """Kill a child with `own_process_group` and everything it started. Raises `OSError` if nothing is left of them."""
    if sys.platform == "win32":
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(pid)], capture_output=True)
    else:
        os.killpg(pid, signal.SIGKILL)


_not_for_forks: weakref.WeakSet[IO[bytes]] = weakref.WeakSet()


def keep_from_forks(stream: IO[bytes]) -> None:
    """Close the stream in forks, which would otherwise keep a child alive that runs until end-of-file."""
    _not_for_forks.add(stream)


def _close_in_fork() -> None:
    for stream in list(_not_for_forks):
        getattr(stream, "raw", stream).close()  # not the buffer, whose lock another thread may have had


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_fork)


class ExitReason(NamedTuple):
    """How a process ended."""

    exit_code: int | None
    signal: str | None
    crashed: bool
    """Whether a fault or a signal ended it."""

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


def reload_signal() -> signal.Signals | None:
    """The signal that makes a daemon reread its files; Windows has none."""
    if sys.platform == "win32":
        return None
    else:
        return signal.SIGHUP


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
    """Limit this process's address space; False if the system has no such limit."""
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


def raise_file_limit(wanted: int) -> int | None:
    """Let this process open `wanted` files, or as many as it may; returns the limit, or None if there is none."""
    if sys.platform == "win32":
        return None
    else:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft == resource.RLIM_INFINITY or soft >= target:
            return None if soft == resource.RLIM_INFINITY else soft
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        except (ValueError, OSError):  # macOS has a further limit, kern.maxfilesperproc
            return soft
        return target


def limit_further_cpu(seconds: float) -> None:
    """Have the system kill this process after `seconds` (rounded up) more of CPU time; no effect on Windows."""
    if sys.platform != "win32":
        import math
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        total = math.ceil(used.ru_utime + used.ru_stime + seconds)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (total, hard))


def lower_priority(niceness: int) -> None:
    """Let other processes go first: by so many steps of `nice`, on Windows by one class."""
    if sys.platform == "win32":
        kernel = ctypes.windll.kernel32
        kernel.SetPriorityClass(kernel.GetCurrentProcess(), 0x4000)  # BELOW_NORMAL_PRIORITY_CLASS
    else:
        os.nice(niceness)


def die_quietly() -> None:
    """This process may crash by design: no core dump, and on Windows no dialog that waits for a click."""
    if sys.platform == "win32":
        ctypes.windll.kernel32.SetErrorMode(0x0001 | 0x0002)  # SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX
    else:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
