"""Masks of the rows that a step draws from, computed while the backend decodes.

Cheap ones are computed by the engine's own thread: handing one over takes longer. The others by two more threads, one
of them for slow constraints, so that nobody waits for another's grammar; llguidance and llama.cpp both let go of the
interpreter. What is not ready soon after the decode is late: its sequence draws later.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable

from localllm.engine.constraint.follower import Work
from localllm.engine.scheduling.plan import StepPlan
from localllm.engine.sequence import Sequence

INLINE_S = 0.00005
"""A mask that is expected to take less is computed by the engine's thread (LOG.md, "Masks")."""
PATIENCE_S = 0.003
"""A step waits so long at most for the masks of its rows, beyond its decode."""


class Masking:
    """Used by the engine's thread, around each decode."""

    def __init__(self, wake: Callable[[], None], *, clock: Callable[[], float] = time.perf_counter) -> None:
        """`wake` is called on another thread when masks are ready that were late."""
        self._wake = wake
        self._clock = clock
        self._quick = _Lane("masks", wake)
        self._slow = _Lane("slow-masks", wake)
        self._inline: list[Work] = []

    def begin(self, plan: StepPlan) -> None:
        """Before the decode: what takes long begins beside it."""
        self.compute()  # what was to be computed beside a decode that failed or was interrupted
        for sequence, segment in zip(plan.sequences, plan.segments, strict=True):
            follower = sequence.follower
            if follower is None:
                continue
            draft = plan.drafts.get(sequence.id)
            ahead, num_rows = ((), 1) if draft is None else (draft.tokens, draft.num_drawn)
            is_last = segment.start + len(segment.tokens) - len(ahead) == sequence.num_tokens
            if not is_last or not num_rows or (work := follower.new_work(ahead, num_rows)) is None:
                continue
            if follower.is_slow:
                self._slow.put(work)
            elif follower.cost_s < INLINE_S and not follower.is_busy:
                self._inline.append(work)
            else:
                self._quick.put(work)

    def compute(self) -> None:
        """While a device decodes, or after it: what takes next to nothing."""
        for work in self._inline:
            work.run()
        self._inline.clear()

    def wait(self, sequences: Iterable[Sequence]) -> None:
        """Until the masks of these are ready, or late."""
        until_s = 0.0
        for sequence in sequences:
            work = None if sequence.follower is None else sequence.follower.work
            if work is None or work.is_done:
                continue
            now_s = self._clock()
            until_s = until_s or now_s + PATIENCE_S
            if work.follower.is_slow or not work.wait(until_s - now_s):
                work.is_waited_for = True

    def stop(self) -> None:
        """From any thread: the threads end when they have computed what they were given."""
        self._quick.stop()
        self._slow.stop()


class _Lane:
    """A thread that computes one mask after the other, begun with the first."""

    def __init__(self, name: str, wake: Callable[[], None]) -> None:
        self._name = name
        self._wake = wake
        self._works: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, work: Work) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._works.put(work)

    def stop(self) -> None:
        self._works.put(None)

    def _run(self) -> None:
        while (work := self._works.get()) is not None:
            work.run()
            if work.is_waited_for:
                self._wake()
