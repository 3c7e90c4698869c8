"""Which sequence gets which tokens in the next step. Pure: no thread, no clock, no backend.

Running sequences get their next token first; what is left of the batch is shared evenly among those that have more to
catch up with (prompts). Waiting sequences enter the lowest free slot, first come first served, because llama.cpp
decodes consecutive ascending slots fastest. Knows nothing of text or sampling.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from localllm.engine.backend import Segment
from localllm.engine.sequence import Sequence


class StepPlan(NamedTuple):
    """One decode: what to compute, in slot order, and who was just given a slot."""

    segments: list[Segment]
    sequences: list[Sequence]
    """`sequences[i]` owns `segments[i]`."""
    admitted: list[Sequence]


class Scheduler:
    """Owns the slots and the waiting line; the only writer of `Sequence.slot` and `num_computed`."""

    def __init__(self, *, num_slots: int, slot_capacity: int, batch_capacity: int) -> None:
        if batch_capacity < num_slots:
            raise ValueError(f"a batch of {batch_capacity} tokens cannot feed {num_slots} slots")
        self.slot_capacity = slot_capacity
        self._batch_capacity = batch_capacity
        self._slots: list[Sequence | None] = [None] * num_slots
        self._waiting: deque[Sequence] = deque()

    @property
    def running(self) -> list[Sequence]:
        """In slot order."""
        return [sequence for sequence in self._slots if sequence is not None]

    @property
    def has_work(self) -> bool:
        return bool(self._waiting) or any(sequence is not None for sequence in self._slots)

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence whose prompt has 1 to `slot_capacity - 1` tokens."""
        if not 0 < sequence.num_prompt < self.slot_capacity:
            raise ValueError(f"a prompt of {sequence.num_prompt} tokens for slots of {self.slot_capacity}")
        self._waiting.append(sequence)

    def find(self, id: int) -> Sequence | None:
        for sequence in (*self.running, *self._waiting):
            if sequence.id == id:
                return sequence
        return None

    def remove(self, sequence: Sequence) -> int | None:
        """Forget a sequence, running or waiting; returns the slot that became free."""
        slot, sequence.slot = sequence.slot, None
        if slot is None:
            self._waiting.remove(sequence)
        else:
            self._slots[slot] = None
        return slot

    def plan(self) -> StepPlan:
        """The next step; empty when there is nothing to do. Call `commit` once it has been computed."""
        admitted = self._admit()
        running = self.running
        share = self._shares(running)
        segments, sequences = [], []
        for sequence in running:
            count = share[sequence.id]
            if count == 0:
                continue
            assert sequence.slot is not None
            start = sequence.num_computed
            tokens = sequence.tokens[start : start + count]
            segments.append(Segment(sequence.slot, start, tokens, wants_token=start + count == sequence.num_tokens))
            sequences.append(sequence)
        return StepPlan(segments, sequences, admitted)

    def commit(self, plan: StepPlan) -> None:
        """The plan's tokens are in the KV cache now."""
        for segment, sequence in zip(plan.segments, plan.sequences, strict=True):
            sequence.num_computed = segment.start + len(segment.tokens)

    def _admit(self) -> list[Sequence]:
        admitted = []
        for slot, owner in enumerate(self._slots):
            if owner is None and self._waiting:
                sequence = self._waiting.popleft()
                sequence.slot = slot
                self._slots[slot] = sequence
                admitted.append(sequence)
        return admitted

    def _shares(self, running: list[Sequence]) -> dict[int, int]:
        """Tokens for each running sequence: one for all, then even parts of the rest, smallest need first."""
        share = {sequence.id: 1 for sequence in running}
        left = self._batch_capacity - len(running)
        hungry = sorted((s for s in running if s.num_pending > 1), key=lambda s: s.num_pending)
        for position, sequence in enumerate(hungry):
            extra = min(sequence.num_pending - 1, left // (len(hungry) - position))
            share[sequence.id] += extra
            left -= extra
        return share
