"""Masks of the rows that a step draws from, and who computes them.

A token is first drawn from the whole row and stands if the constraint allows it; usually no mask is needed. Where many
draws are refused, the mask is computed by another thread while the backend decodes: llguidance and llama.cpp both
release the interpreter lock. Otherwise the engine's own thread computes it when needed, which is cheaper than handing
it over; slow ones go to a thread of their own, so that no sequence waits for another's grammar. A mask not ready soon
after the decode is late: its sequence draws later.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Many

from localllm.engine.constraint.follower import Search, Work
from localllm.engine.requests.sequence import Sequence
from localllm.engine.scheduling.step_plan import StepPlan
from localllm.engine.speculation.proposals import Draft
from localllm.system.threads import start_thread

INLINE_S = 0.0005
"""A mask needed at once and expected to take less than this is computed by the engine's thread
(benchmarks/log/structure.md#masks)."""
PATIENCE_S = 0.003
"""The longest that a step waits for masks of its rows, beyond its decode."""


class Masking:
    """Used by the engine's thread, around each decode."""

    def __init__(self, wake: Callable[[], None], *, clock: Callable[[], float] = time.perf_counter) -> None:
        """`wake` is called on another thread when late masks are ready."""
        self._wake = wake
        self._clock = clock
        self._quick = _Lane("masks", wake)
        self._slow = _Lane("slow-masks", wake)
        self._inline: list[Work] = []

    def begin(self, plan: StepPlan) -> None:
        """Before the decode: start slow masks beside it."""
        self.compute()  # left over from a decode that failed or was interrupted
        for sequence, segment in zip(plan.sequences, plan.segments, strict=True):
            follower = sequence.drawing.follower
            if follower is None:
                continue
            draft = plan.drafts.get(sequence.id)
            ahead, num_rows = ((), 1) if draft is None else (draft.tokens, draft.num_drawn)
            is_last = segment.start + len(segment.tokens) - len(ahead) == sequence.progress.num_tokens
            if not is_last or not num_rows or not (num_rows > 1 or follower.wants_masks_ahead):
                continue
            if (work := follower.new_work(ahead, num_rows)) is None:
                continue
            if num_rows > 1 and num_rows * follower.cost_s < INLINE_S and not follower.is_busy:
                self._inline.append(work)
            else:
                self._quick.put(work)

    def compute(self) -> None:
        """Compute quick masks, while a device decodes or after it."""
        for work in self._inline:
            work.run()
        self._inline.clear()

    def wait(self, sequences: Iterable[Sequence]) -> None:
        """Wait until the masks of these sequences are ready, or late."""
        until_s = 0.0
        for sequence in sequences:
            work = None if sequence.drawing.follower is None else sequence.drawing.follower.current_work
            if work is None or work.is_done:
                continue
            now_s = self._clock()
            until_s = until_s or now_s + PATIENCE_S
            if work.follower.is_slow or not work.wait(until_s - now_s):
                work.is_waited_for = True

    def needed(self, sequence: Sequence, draft: Draft) -> Work | None:
        """The mask for rows from which a forbidden token was drawn; None: not ready, and `wake` will be called.

        A quick one is computed at once.
        """
        follower = sequence.drawing.follower
        assert follower is not None
        work = follower.new_work(draft.tokens, draft.num_drawn)
        if work is not None and (draft.tokens or follower.cost_s < INLINE_S):
            work.run()
        elif work is not None:
            (self._slow if follower.is_slow else self._quick).put(work)
            if follower.is_slow or not work.wait(PATIENCE_S):
                work.is_waited_for = True
        work = follower.work
        return work if work is not None and work.is_done else None

    def are_late(self, searches: Many[Search]) -> list[bool]:
        """Compute these beside the next steps; whether each takes longer than this step waits."""
        for search in searches:
            self._slow.put(search)
        until_s = self._clock() + PATIENCE_S
        for search in searches:
            if not search.wait(until_s - self._clock()):
                search.is_waited_for = True
        return [not search.is_done for search in searches]

    def stop(self) -> None:
        """From any thread: the threads end once they have computed what they were given."""
        self._quick.stop()
        self._slow.stop()


class _Lane:
    """A thread that computes one mask after the other, started with the first."""

    def __init__(self, name: str, wake: Callable[[], None]) -> None:
        self._name = name
        self._wake = wake
        self._works: queue.SimpleQueue[Work | None] | None = None

    def put(self, work: Work) -> None:
        works = self._works
        if works is None:
            works = self._works = queue.SimpleQueue()
            start_thread(lambda: self._run(works), self._name)
        works.put(work)

    def stop(self) -> None:
        works, self._works = self._works, None
        if works is not None:
            works.put(None)

    def _run(self, works: queue.SimpleQueue[Work | None]) -> None:
        while (work := works.get()) is not None:
            work.run()
            if work.is_waited_for:
                self._wake()
