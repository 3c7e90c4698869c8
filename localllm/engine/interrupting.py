"""Whether the next decode may be interrupted, and when an arriving item ends it.

Arrivals are announced on other threads while the engine's thread decodes: what they know of that decode is a record
published before it began. Knows nothing of how a decode is ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Sequence as Many
from typing import NamedTuple

from localllm.engine.backend import BatchDecoder
from localllm.engine.inbox import Cancel, Inspect, Item, RowsReady
from localllm.engine.requests.sequence import Sequence
from localllm.engine.scheduling.media_steps import can_be_interrupted
from localllm.engine.scheduling.parking import outranks
from localllm.engine.scheduling.scheduler import Scheduler
from localllm.engine.scheduling.step_plan import StepPlan
from localllm.engine.scheduling.waits import Leader
from localllm.engine.scheduling.whole import Interruptions

ARRIVAL_DELAY_S = 0.05
"""While nothing streams, an arriving item ends the step with its current ubatch, at the latest after this time."""
RECENT_STEP_S = 0.05
"""A step that began less than this ago is ended at once: little is lost."""


class _Decoding(NamedTuple):
    """What interrupting threads know of a decode that may be interrupted."""

    began_s: float
    ids: frozenset[int]
    """Sequences that have a slot."""
    has_room: bool
    """Whether another request could enter."""
    lowest: Sequence | None = None
    """A request that outranks this one takes its slot."""
    awaited: Many[Leader] = ()
    """The prefixes it computes that others wait for: a request that begins with one would wait, too."""

    def admits(self, item: Sequence) -> bool:
        """Whether a request could enter after the decode, but for what it would wait for in any case."""
        takes_a_slot = self.lowest is not None and outranks(item, self.lowest)
        return (self.has_room or takes_a_slot) and not any(each.serves(item) for each in self.awaited)


class Interrupter:
    """`announce` may be called on any thread, everything else on the engine's."""

    def __init__(
        self, decoder: BatchDecoder, interruptions: Interruptions, *, max_step_s: float, clock: Callable[[], float]
    ) -> None:
        self._decoder = decoder
        self._interruptions = interruptions
        self._max_step_s = max_step_s
        self._clock = clock
        self._decoding = _Decoding(-math.inf, frozenset(), has_room=False)

    def may_interrupt(self, scheduler: Scheduler) -> bool:
        """Whether the next decode may be interrupted: only while nothing streams, because prompts then get whole
        batches."""
        can = self._decoder.can_be_interrupted and self._interruptions.are_allowed
        return can and scheduler.num_streams == 0

    def listen(self, plan: StepPlan, scheduler: Scheduler) -> float | None:
        """How long the decode may run until some deadline; None: it must not be interrupted."""
        if any(sequence.wants_scores for sequence in plan.sequences):
            return None  # what was computed but not scored would have to be recomputed
        if not all(map(can_be_interrupted, plan.sequences)):
            return None
        running = scheduler.running
        now_s = self._clock()
        ids, has_room = frozenset(sequence.id for sequence in running), len(running) < scheduler.kv.num_slots
        self._decoding = _Decoding(now_s, ids, has_room=has_room, lowest=scheduler.lowest(), awaited=scheduler.awaited)
        return max(0.0, scheduler.next_deadline_s() - now_s)

    def announce(self, item: Item) -> None:
        """End a step for an arriving item: soon, or where ending it costs nothing.

        A request that finds no slot, or waits for a prefix that the step computes, does not start any sooner, but its
        deadline may pass. What is read here may be one step old; then a request waits for as long as an uninterrupted
        step takes.
        """
        if not self._decoder.can_be_interrupted:
            return
        step, now_s = self._decoding, self._clock()
        if isinstance(item, Sequence) and not step.admits(item):
            within_s = item.next_deadline_s - now_s
        elif isinstance(item, Inspect | RowsReady) or (isinstance(item, Cancel) and item.id not in step.ids):
            within_s = self._max_step_s
        else:
            is_last = isinstance(item, Cancel) and len(step.ids) == 1
            within_s = 0.0 if is_last or now_s - step.began_s < RECENT_STEP_S else ARRIVAL_DELAY_S
        self._decoder.interrupt(max(0.0, within_s))
