"""CPU time of our relatives: of our parent's other workers (those of the same server, or of the same program with
several models), and of our own encoder of pictures.

Read from the system, without communication: a parent's children that run one module, and the CPU clock of each. Systems
without such files (macOS, Windows) have none: their processes then count as other programs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

MODULE, ENCODER = b"localllm.worker", b"localllm.worker.media.encoder_child"
"""Parts of command lines: of every worker, and of its encoder."""
LOOK_S = 0.5
"""Seconds between two searches for new workers."""
MOST = 32
"""Workers that are read at most, since reading each costs half a microsecond."""


def are_known() -> bool:
    """Whether this system shows them."""
    return _process_cpu_s(os.getpid()) is not None and any(Path("/proc/self/task").glob("*/children"))


class Siblings:
    """Belongs to one thread."""

    def __init__(
        self,
        proc: Path = Path("/proc"),
        *,
        parent: Callable[[], int] = os.getppid,
        module: bytes = MODULE,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._proc = proc
        self._parent = parent
        self._module = module
        self._now = now
        self._seen_s: dict[int, float] = {}
        """Process id -> the last reading of its clock."""
        self._total_s = 0.0
        self._next_look_s = 0.0

    def cpu_s(self) -> float:
        """Their total since each was first seen; it never falls, although processes end."""
        now_s = self._now()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + LOOK_S
            for pid in self._workers() - self._seen_s.keys():
                if (clock_s := _process_cpu_s(pid)) is not None:
                    self._seen_s[pid] = clock_s
        for pid, before_s in list(self._seen_s.items()):
            clock_s = _process_cpu_s(pid)
            if clock_s is None or clock_s < before_s:  # it is gone, and another process may have its id
                del self._seen_s[pid]
            else:
                self._total_s += clock_s - before_s
                self._seen_s[pid] = clock_s
        return self._total_s

    def _workers(self) -> set[int]:
        found: set[int] = set()
        for path in self._proc.glob(f"{self._parent()}/task/*/children"):  # a thread lists the children it started
            found.update(map(int, _read(path).split()))
        found.discard(os.getpid())
        workers = [pid for pid in sorted(found) if self._module in _read(self._proc / str(pid) / "cmdline")]
        return set(workers[-MOST:])


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has just ended
        return b""


def _process_cpu_s(pid: int) -> float | None:
    """None if there is no such process, or this system does not show another process's clock."""
    clock = getattr(time, "clock_gettime", None)
    try:  # Linux's number of the CPU clock of a process (clock_getcpuclockid)
        return None if clock is None else float(clock(~pid << 3 | 2))
    except OSError:
        return None
