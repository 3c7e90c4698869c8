"""Memory for saved states that has its pages before it is needed, so that a save only copies.

States lie in one reserved address range. A thread of its own gives pages to what the next saves will need; a save takes
those. When the last reference to a state is dropped, whoever held it (a cache, a thread that writes it to the disk, a
slice of it), its memory is free again, with its pages. Bounded:

    states that somebody holds + memory that lies ready <= `max_bytes`, as long as the states alone are

States beyond that, and what no free piece is long enough for, get fresh memory of their own, as if there were no pool.
The address range is `SPAN` times as long as `max_bytes`, so that pieces stay long enough whatever sizes come and go.
Knows nothing of what a state means.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections import deque
from mmap import mmap

import numpy as np
import numpy.typing as npt

from localllm import osdep
from localllm.llama import pages
from localllm.llama.arena import Arena

BLOCK_BYTES = 64 * 1024
"""Sizes are rounded up to this; a multiple of every system's page."""
LEAST_BYTES = 1024 * 1024
"""A smaller state gets memory of its own: few pages, and rounding it up would waste more than a sixteenth."""
SPAN = 2 if pages.CAN_RELEASE else 1
CHUNK_BYTES = 4 * 1024 * 1024
"""Made ready in one go, during which a save waits: 1 to 15 ms."""
PAUSE_S = 0.001
"""Between two of these at least."""
SHARE = 1 / 16
"""Of a core's time that making pages may take: fresh memory of a virtual machine costs 3 ms a MiB, and a thread that
computes waits for it."""
IDLE_S = 60.0
"""After so long without a save only the largest state's memory stays ready."""
SPARE_BYTES = 512 * 1024 * 1024
"""Nothing is made ready where the system has less memory available than this."""


class BufferPool:
    """`take` and `expect` are one thread's; memoryviews may be dropped on any."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes` 0: every state gets memory of its own."""
        self._max_bytes = min(max_bytes, osdep.total_memory() or max_bytes)
        span = self._max_bytes * SPAN // BLOCK_BYTES * BLOCK_BYTES
        self._memory: mmap | None = None
        if span:
            with contextlib.suppress(OSError, ValueError, OverflowError):  # address space may be limited
                self._memory = pages.reserve(span)
        self._address = 0 if self._memory is None else np.frombuffer(self._memory, np.uint8).ctypes.data
        self._lock = threading.Lock()
        """Guards all that follows but the deque."""
        self._arena = Arena(0 if self._memory is None else span)
        self._held_bytes = 0
        self._expected = (0, 0)
        self._is_idle = False
        self._dropped: deque[tuple[int | None, int]] = deque()
        """Where states lay that nobody holds any more, None for memory of their own, and how long they were.

        Filled by the interpreter wherever a last reference goes, also inside of the lock: nothing may wait there.
        """
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def held_bytes(self) -> int:
        """Of states that somebody holds."""
        with self._lock:
            self._collect()
            return self._held_bytes

    @property
    def ready_bytes(self) -> int:
        """That lie ready."""
        with self._lock:
            self._collect()
            return self._arena.num_ready

    def take(self, num_bytes: int) -> memoryview:
        """Memory for a state, writable, with anything in it: the caller's until the last reference to it is dropped."""
        size = -(-num_bytes // BLOCK_BYTES) * BLOCK_BYTES
        with self._lock:
            self._collect()
            self._is_idle = False
            is_inside = num_bytes >= LEAST_BYTES and self._held_bytes + size <= self._max_bytes
            start = self._arena.find(size) if is_inside else None
            if start is None:
                start, size = None, num_bytes
            else:
                self._arena.take(start, start + size)
            self._held_bytes += size
            self._keep_bound(0, 0)
            buffer = self._buffer(start, num_bytes)
        # The array itself is nobody's but the view's: what is sliced of a view refers to the array, too.
        weakref.finalize(buffer, self._dropped.append, (start, size)).atexit = False
        self._wake.set()
        return buffer.data

    def expect(self, largest_bytes: int, all_bytes: int) -> None:
        """The next states are to be so large at most, and together."""
        with self._lock:
            self._expected, self._is_idle = (largest_bytes, all_bytes), False
        if largest_bytes < LEAST_BYTES or self._memory is None or self._closing.is_set():
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kv-pages", daemon=True)
            self._thread.start()
        self._wake.set()

    def prepare(self) -> bool:
        """Make the next piece ready of what is expected. Whether there was one. The pool's thread calls it.

        First comes one place for the largest state, for which memory that lies ready elsewhere is given back if it must
        be; then as much of the rest as may be.
        """
        available = osdep.available_memory()
        if available is not None and available < SPARE_BYTES:
            return False
        with self._lock:
            if self._closing.is_set():
                return False
            self._collect()
            largest, together = self._expected
            return self._prepare(largest, moves=True) or (not self._is_idle and self._prepare(together, moves=False))

    def close(self) -> None:
        """Makes nothing ready any more; memory goes with the last state in it. Twice is fine."""
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            self._memory, self._arena = None, Arena(0)
            self._dropped.clear()

    def _buffer(self, start: int | None, num_bytes: int) -> npt.NDArray[np.uint8]:
        if start is None or self._memory is None:
            return np.empty(num_bytes, np.uint8)
        return np.frombuffer(self._memory, np.uint8, num_bytes, start)

    def _collect(self) -> None:
        """What was dropped is free. The caller has the lock."""
        while self._dropped:
            start, size = self._dropped.popleft()
            self._held_bytes -= size
            if start is not None and self._arena.size:
                self._arena.give(start, start + size, is_ready=True)
                self._keep_bound(0, 0)

    def _keep_bound(self, start: int, end: int, coming_bytes: int = 0) -> None:
        """Give memory back that lies ready, not in that range, until so much more fits. The caller has the lock."""
        if not pages.CAN_RELEASE:
            return
        while (beyond := self._held_bytes + self._arena.num_ready + coming_bytes - self._max_bytes) > 0:
            run = self._arena.ready_outside(start, end)
            if run is None:
                return
            size = min(run.size, -(-beyond // BLOCK_BYTES) * BLOCK_BYTES)
            self._release(run.end - size, run.end)

    def _release(self, start: int, end: int) -> None:
        pages.release(self._address + start, end - start)
        self._arena.mark(start, end, is_ready=False)

    def _run(self) -> None:
        is_busy, pause_s = False, 0.0
        while not self._closing.is_set():
            if is_busy:
                self._closing.wait(pause_s)
            elif not self._wake.wait(IDLE_S):
                self._rest()
            self._wake.clear()
            began_s = time.thread_time()
            is_busy = self.prepare()
            pause_s = max(PAUSE_S, (time.thread_time() - began_s) * (1 / SHARE - 1))

    def _rest(self) -> None:
        """Nobody saved anything for long: keep what the largest state needs."""
        with self._lock:
            self._is_idle = True
            self._collect()
            size = min(self._expected[0], self._arena.longest)
            start = self._arena.find(size) or 0
            while (run := self._arena.ready_outside(start, start + size)) is not None and pages.CAN_RELEASE:
                self._release(run.start, run.end)

    def _prepare(self, wanted_bytes: int, *, moves: bool) -> bool:
        """A chunk of the range that has most of so many bytes; `moves`: for memory that lies elsewhere."""
        room = min(self._max_bytes - self._held_bytes, self._arena.longest)
        size = min(-(-wanted_bytes // BLOCK_BYTES), room // BLOCK_BYTES) * BLOCK_BYTES
        start = self._arena.find(size) if size > 0 else None
        fresh = None if start is None else self._arena.first_fresh(start, start + size)
        if start is None or fresh is None:
            return False
        num_bytes = min(fresh[1] - fresh[0], CHUNK_BYTES)
        if moves:
            self._keep_bound(start, start + size, coming_bytes=num_bytes)
        if self._held_bytes + self._arena.num_ready + num_bytes > self._max_bytes:
            return False
        pages.populate(self._address + fresh[0], num_bytes)
        self._arena.mark(fresh[0], fresh[0] + num_bytes, is_ready=True)
        return True
