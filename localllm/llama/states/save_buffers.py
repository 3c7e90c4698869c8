"""Memory for saved states whose pages exist before it is needed, so that a save only copies.

States lie in one reserved address range. A background thread provides pages for the next saves, which then use them:
for one while the CPU computes steps, and while it does not for all that the slots hold.
When the last reference to a state is dropped, wherever it was held (a cache, a thread that writes it to disk, a slice
of it), its memory is free again, with its pages. Bounded:

    states in use + ready memory <= `max_bytes`, as long as the states alone are

States beyond that, or for which no free piece is long enough, get fresh memory of their own, as if there were no pool.
The address range is `SPAN` times `max_bytes`, so that pieces stay long enough as sizes change. Knows nothing
of what a state means.
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

from localllm.llama.states import pages
from localllm.llama.states.arena import Arena
from localllm.system import memory

BLOCK_BYTES = 64 * 1024
"""Sizes are rounded up to this; a multiple of every system's page."""
LEAST_BYTES = 1024 * 1024
"""A smaller state gets memory of its own: it has few pages, and rounding it up would waste more than a sixteenth."""
SPAN = 2 if pages.CAN_RELEASE else 1
CHUNK_BYTES = 4 * 1024 * 1024
"""Made ready at once, during which a save waits: 1 to 15 ms."""
PAUSE_S = 0.001
"""Minimum pause between two chunks."""
SHARE, SHARE_BEHIND, SHARE_AT_REST = 1 / 16, 1 / 4, 1 / 2
"""Share of a core's time for creating pages: beside steps, beside them after a save that lacked pages, and while
nothing is computed. Fresh memory of a virtual machine costs 3 ms per MiB, and a computing thread waits for it."""
IDLE_S = 60.0
"""After this long without a save only enough memory for the largest state stays ready."""
SPARE_BYTES = 512 * 1024 * 1024
"""Nothing is made ready where the system has less memory available than this."""
READY_SHARE = 1 / 8
"""Limit for ready memory beyond the largest state's, as a share of what the system has available."""


class BufferPool:
    """`take` and `expect` belong to one thread; memoryviews may be dropped on any."""

    def __init__(self, max_bytes: int, *, competes: bool = True) -> None:
        """`max_bytes` 0: every state gets memory of its own. `competes`: steps are computed on the same cores."""
        self._max_bytes = min(max_bytes, memory.total_memory() or max_bytes)
        span = self._max_bytes * SPAN // BLOCK_BYTES * BLOCK_BYTES
        self._memory: mmap | None = None
        if span:
            with contextlib.suppress(OSError, ValueError, OverflowError):  # address space may be limited
                self._memory = pages.reserve(span)
        self._address = 0 if self._memory is None else np.frombuffer(self._memory, np.uint8).ctypes.data
        self._competes = competes
        # Written only by the thread that calls `take`:
        self._is_resting = False
        self._is_short = False
        """Something was taken, and the thread was not woken since."""
        self._lock = threading.Lock()
        """Guards all fields below except the deque."""
        self._arena = Arena(0 if self._memory is None else span)
        self._held_bytes = 0
        self._expected = (0, 0)
        self._is_idle = False
        self._is_behind = False
        """Something taken lacked pages, and no place for the largest state has been ready since."""
        self._dropped: deque[tuple[int | None, int]] = deque()
        """Positions of dropped states (None for memory of their own) and their sizes.

        Filled by the interpreter wherever a last reference goes, even while the lock is held: nothing may wait there.
        """
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def held_bytes(self) -> int:
        """Size of states in use."""
        with self._lock:
            self._collect()
            return self._held_bytes

    def take(self, num_bytes: int) -> memoryview:
        """Writable memory for a state, with arbitrary content: the caller's until the last reference to it is
        dropped."""
        size = -(-num_bytes // BLOCK_BYTES) * BLOCK_BYTES
        with self._lock:
            self._collect()
            self._is_idle = self._is_resting = False
            is_inside = num_bytes >= LEAST_BYTES and self._held_bytes + size <= self._max_bytes
            start = self._arena.find(size) if is_inside else None
            if start is None:
                start, size = None, num_bytes
            else:
                self._is_behind |= self._arena.first_fresh(start, start + size) is not None
                self._arena.take(start, start + size)
            self._held_bytes += size
            self._keep_bound(0, 0)
            buffer = self._buffer(start, num_bytes)
        # Only the view refers to the array; slices of a view refer to the array, too.
        weakref.finalize(buffer, self._dropped.append, (start, size)).atexit = False
        self._is_short = True
        return buffer.data

    def refill(self) -> None:
        """Make memory ready for what was taken since; called after a step. A save comes right before one, and making
        pages then would hold it up (benchmarks/log/kv.md#pages-for-the-next-states)."""
        self._is_resting = False
        if self._is_short:
            self._is_short = False
            self._wake.set()

    def expect(self, largest_bytes: int, all_bytes: int) -> None:
        """Announce the largest size of the next states, and their total; see `refill`."""
        with self._lock:
            self._expected, self._is_idle = (largest_bytes, all_bytes), False
        if largest_bytes < LEAST_BYTES or self._memory is None or self._closing.is_set():
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kv-pages", daemon=True)
            self._thread.start()
        self._is_short = False
        self._wake.set()

    def rest(self) -> None:
        """Nothing is computed until the next `take` or `refill`: time to make memory ready for all that is expected."""
        if not self._is_resting:
            self._is_resting = True
            self._wake.set()  # only now: whoever asks an idle engine for its state must not put off `_shrink`

    def prepare(self) -> float:
        """Make the next piece of what is expected ready, and return the share of a core's time that it is worth; 0:
        there was none. Called by the pool's thread.

        First one place for the largest state, for which ready memory elsewhere is given back if necessary; then, while
        the CPU computes nothing, as much of the rest as the system can spare.
        """
        available = memory.available_memory()
        if available is not None and available < SPARE_BYTES:
            return 0
        with self._lock:
            if self._closing.is_set():
                return 0
            self._collect()
            largest, together = self._expected
            share = SHARE_AT_REST if self._is_resting else SHARE_BEHIND if self._is_behind else SHARE
            if self._prepare(largest, moves=True):
                return share
            self._is_behind = False
            if self._is_idle or (self._competes and not self._is_resting):
                return 0
            if available is not None:
                together = min(together, int(available * READY_SHARE))
            return share if self._prepare(together, moves=False) else 0

    def close(self) -> None:
        """Make nothing ready any more; memory goes with the last state in it. Idempotent."""
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
        """Free what was dropped. The caller holds the lock."""
        while self._dropped:
            start, size = self._dropped.popleft()
            self._held_bytes -= size
            if start is not None and self._arena.size:
                self._arena.give(start, start + size, is_ready=True)
                self._keep_bound(0, 0)

    def _keep_bound(self, start: int, end: int, coming_bytes: int = 0) -> None:
        """Give back ready memory outside that range until `coming_bytes` more fit. The caller holds the lock."""
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
        share, pause_s = 0.0, 0.0
        while not self._closing.is_set():
            if share:
                self._closing.wait(pause_s)
            elif not self._wake.wait(IDLE_S):
                self._shrink()
            self._wake.clear()
            began_s = time.thread_time()
            share = self.prepare()
            pause_s = max(PAUSE_S, (time.thread_time() - began_s) * (1 / share - 1)) if share else 0

    def _shrink(self) -> None:
        """Nothing was saved for long: keep only what the largest state needs."""
        with self._lock:
            self._is_idle = True
            self._collect()
            size = min(self._expected[0], self._arena.longest)
            start = self._arena.find(size) or 0
            while (run := self._arena.ready_outside(start, start + size)) is not None and pages.CAN_RELEASE:
                self._release(run.start, run.end)

    def _prepare(self, wanted_bytes: int, *, moves: bool) -> bool:
        """Prepare a chunk of the range that has most of `wanted_bytes`; `moves`: ready memory elsewhere may be given
        up."""
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
