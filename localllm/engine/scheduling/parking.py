"""Running sequences that give their slots to waiting ones which outrank them by a class, or by `MARGIN`.

The state of such a sequence is parked in main memory, pinned, and restored when a slot is free again; it then goes on
exactly where it stopped. Where main memory has no room, it is computed again. What it gains and costs:
benchmarks/log/scheduling.md#interactive-requests-beside-batches. Decides who leaves; who enters, `entrance` decides.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence as Many

from localllm.engine.cache.kvcache import KvCache
from localllm.engine.requests.sequence import Sequence
from localllm.engine.scheduling.aging import AGED_S
from localllm.types.states import Preemptions

logger = logging.getLogger("localllm")

MARGIN = 100
"""Within a class, a priority lower by at least this takes the slot of a running request."""
TENURE_S = AGED_S
"""A sequence that entered by age, while others outranked it, keeps its slot for this long, or to its end if it cannot
be parked: aging and preemption would otherwise undo each other's work for ever."""


def outranks(one: Sequence, other: Sequence) -> bool:
    """Whether one may take the slot of the other."""
    due, others = one.request.due, other.request.due
    if due.is_batch != others.is_batch:
        return others.is_batch
    return others.priority - due.priority >= MARGIN


class Parking:
    """Used by the scheduler."""

    def __init__(self, kv: KvCache) -> None:
        self._kv = kv
        self.counts = Preemptions()

    def leavers(self, sequence: Sequence, running: Many[Sequence], now_s: float) -> list[Sequence]:
        """Running sequences that may leave for this one: the lowest-ranked first, then the shortest."""
        lower = [other for other in running if outranks(sequence, other)]
        if (wanted := sequence.request.reuse.wanted_slot) is not None:
            lower = [other for other in lower if other.slot == wanted]
        return sorted((other for other in lower if self._may_leave(other, now_s)), key=_last_first)

    def park(self, sequence: Sequence) -> None:
        """Take a running sequence's slot away."""
        assert sequence.slot is not None
        num_tokens, state = sequence.progress.num_computed, self._kv.park(sequence.slot)
        if state is None:
            fields = {"request": sequence.id, "tokens": num_tokens, "reason": "no room in main memory (kv_ram_mb)"}
            logger.warning("parked_without_state", extra={"fields": fields | {"effect": "they are computed again"}})
        sequence.progress.parked(state)
        sequence.progress.must_stay |= state is None
        sequence.drawing.proposal = None
        self.counts = Preemptions(self.counts.total + 1, self.counts.recomputed + (state is None))

    def dropped(self, sequence: Sequence) -> None:
        """A waiting sequence is gone: what was parked of it stays for prompts with the same prefix."""
        if sequence.progress.state is not None:
            self._kv.unpark(sequence.progress.state, is_restored=False)

    def _may_leave(self, sequence: Sequence, now_s: float) -> bool:
        """One that waits for a mask draws from logits that no state has; of one that is scored, log-probabilities would
        be lost; a shifted one does not hold what it would compute. None is computed again twice."""
        progress = sequence.progress
        if not progress.num_pending or progress.num_shifted or progress.is_within_span or sequence.wants_scores:
            return False
        if now_s < progress.stays_until_s or sequence.request.reuse.wanted_slot is not None:
            return False
        assert progress.slot is not None
        if not self._kv.pending.can_save(progress.slot):
            return False
        return not progress.must_stay or self._kv.can_park(progress.slot)


def resting(running: Many[Sequence], now_s: float) -> list[Sequence]:
    """Running sequences that sit out while the prompt of one that outranks them is computed."""
    hungry = [
        each
        for each in running
        if not each.progress.num_generated and each.progress.num_pending and not each.progress.lacks_rows
    ]
    if not hungry:
        return []
    return [
        each
        for each in running
        if now_s >= each.progress.stays_until_s and any(outranks(other, each) for other in hungry)
    ]


def _last_first(sequence: Sequence) -> tuple[bool, int, int, int]:
    due = sequence.request.due
    return not due.is_batch, -due.priority, sequence.progress.num_computed, -sequence.id
