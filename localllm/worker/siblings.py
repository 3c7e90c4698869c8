"""CPU time of the other workers of our parent: of one server, or of one program that has several models.

Read from the system, so that nobody has to tell anybody anything: the parent's children that run our module, and each
one's own CPU clock. Where the system has no such files (macOS, Windows) there are none, and what other workers compute
counts as any other program's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

MODULE = b"localllm.worker"
"""In the command line of each."""
LOOK_S = 0.5
"""Between two looks for new ones."""
MOST = 32
"""More are not looked at: each reading costs half a microsecond for each."""


def are_known() -> bool:
    """Whether this system tells of them."""
    return _process_cpu_s(os.getpid()) is not None and any(Path("/proc/self/task").glob("*/children"))


class Siblings:
    """Belongs to one thread."""

    def __init__(
        self, proc: Path = Path("/proc"), *, module: bytes = MODULE, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._proc = proc
        self._module = module
        self._now = now
        self._seen_s: dict[int, float] = {}
        """Of each by its process id, what its clock said last."""
        self._total_s = 0.0
        self._next_look_s = 0.0

    def cpu_s(self) -> float:
        """Of all together since they were first seen; it never falls, though processes end."""
        now_s = self._now()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + LOOK_S
            for pid in self._workers() - self._seen_s.keys():
                if (clock_s := _process_cpu_s(pid)) is not None:
                    self._seen_s[pid] = clock_s
        for pid, before_s in list(self._seen_s.items()):
            clock_s = _process_cpu_s(pid)
            if clock_s is None or clock_s < before_s:  # it is gone, and its number may be another's
                del self._seen_s[pid]
            else:
                self._total_s += clock_s - before_s
                self._seen_s[pid] = clock_s
        return self._total_s

    def _workers(self) -> set[int]:
        found: set[int] = set()
        for path in self._proc.glob(f"{os.getppid()}/task/*/children"):  # of each thread that started some
            found.update(map(int, _read(path).split()))
        found.discard(os.getpid())
        return {pid for pid in sorted(found)[-MOST:] if self._module in _read(self._proc / str(pid) / "cmdline")}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has just ended
        return b""


def _process_cpu_s(pid: int) -> float | None:
    """None: there is no such process, or this system gives nobody another's clock."""
    clock = getattr(time, "clock_gettime", None)
    try:  # Linux's number of the CPU clock of a process (clock_getcpuclockid)
        return None if clock is None else float(clock(~pid << 3 | 2))
    except OSError:
        return None
