"""Which set of adapters is computed next: a decode takes one set, so sets take turns.

A turn is a slice of several steps, much longer than what changing the set costs, and as many steps for one set as for
another, so that streams of all sets advance alike. The set that has waited longest is next: none starves
(benchmarks/log/scheduling.md#streams-under-several-sets-of-adapters). Pure: no clock, no backend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Many

from localllm.engine.requests.adapters import NO_ADAPTERS, AdapterSet
from localllm.engine.requests.sequence import Sequence
from localllm.engine.scheduling.cost import Part, StepCost
from localllm.engine.scheduling.pace import StepLimits

MIN_SLICE_S = 0.02
"""A slice is never intended to be shorter."""
SWITCHES_PER_SLICE = 20
"""A slice takes at least this many times what changing the set costs, as far as others may wait for so long."""
LEARNING_RATE = 0.2
FAR = 10_000
"""More than any distance of slots."""
LEARNED = 3
"""Changes of the set from which on their cost is believed."""


class AdapterTurns:
    """Remembers whose turn it is, and what changing the set costs."""

    def __init__(self, limits: StepLimits) -> None:
        """A slice takes at most as long as a step beside streams; where few sets take turns, as long as all others
        together keep one waiting no longer than a step may take."""
        self._limits = limits
        self._switch_s = 0.0
        self._num_learned = 0
        self._current: AdapterSet = NO_ADAPTERS
        self._is_shared = False
        """Whether several sets had something to compute when the last step was planned."""
        self._until_s = 0.0
        self._num_steps_left = 0
        self._num_turns = 0
        self._last_turn: dict[AdapterSet, int] = {}

    def slice_s(self, num_sets: int) -> float:
        """Intended duration of a slice, while so many sets take turns."""
        most_s = max(self._limits.beside_streams_s, self._limits.max_step_s / max(1, num_sets - 1))
        return min(most_s, max(MIN_SLICE_S, SWITCHES_PER_SLICE * self._switch_s))

    def continues(self, now_s: float) -> bool:
        """Whether the next step is for the same sequences as the last one; counts it."""
        if not self._is_shared:
            return True
        if self._num_steps_left < 1 or now_s >= self._until_s:
            return False
        self._num_steps_left -= 1
        return True

    def in_turn(self, running: list[Sequence], cost: StepCost, now_s: float, *, holds: bool) -> list[Sequence]:
        """Those of the set whose turn the next step is. `holds`: the current set has just begun something that ends
        with its next step."""
        if not running or all(each.progress.adapters == running[0].progress.adapters for each in running):
            self._is_shared = False  # whoever comes next need not wait for a slice to end
            return running
        sets: dict[AdapterSet, list[Sequence]] = {}
        for sequence in running:
            progress = sequence.progress
            if progress.num_pending and not progress.lacks_rows:
                sets.setdefault(progress.adapters, []).append(sequence)
        was_shared, self._is_shared = self._is_shared, len(sets) > 1
        if not sets:
            return running
        if not self._is_shared:
            (self._current,) = sets
        elif not was_shared or self._current not in sets or not (holds or self.continues(now_s)):
            self._next_turn(sets, cost, now_s)
        return _of(running, self._current)

    def observe(self, parts: Many[Part], seconds: float, cost: StepCost) -> None:
        """A step of these parts, the first after a change of the set, took `seconds`. If changing it is a small part of
        that, the cost of steps is learned from it, too: there may be no others."""
        if not cost.is_measured:
            return
        extra_s = max(0.0, seconds - cost.seconds(parts))
        self._switch_s += (LEARNING_RATE if self._num_learned else 1.0) * (extra_s - self._switch_s)
        self._num_learned += 1
        if self._num_learned >= LEARNED and seconds > SWITCHES_PER_SLICE * self._switch_s:
            cost.observe(parts, seconds - self._switch_s)

    def _next_turn(self, sets: dict[AdapterSet, list[Sequence]], cost: StepCost, now_s: float) -> None:
        self._last_turn = {each: turn for each, turn in self._last_turn.items() if each in sets}
        if self._current in sets:
            self._last_turn.setdefault(self._current, self._num_turns)
        self._num_turns += 1
        self._current = min(sets, key=lambda each: (self._last_turn.get(each, -1), *_rank(sets[each])))
        self._last_turn[self._current] = self._num_turns
        if not cost.is_measured:  # the second step is measured
            self._until_s, self._num_steps_left = math.inf, 1
            return
        slice_s = self.slice_s(len(sets))
        self._until_s = now_s + slice_s
        step_s = max(cost.seconds([_next_row(sequence) for sequence in each]) for each in sets.values())
        self._num_steps_left = int(slice_s / step_s) if step_s > 0 else 0


def apart_from_others(sequence: Sequence, free: Many[int], running: Many[Sequence]) -> dict[int, int]:
    """How little each free slot suits the sequence: slots of one set beside each other are computed in one pass.

    Best beside its own set, worst beside another; else in the middle of the most free slots, where both have room to
    grow. Empty where all are of one set.
    """
    own = sequence.request.adapters
    sets = {other.slot: other.request.adapters for other in running}
    if all(each == own for each in sets.values()):
        return {}
    found: dict[int, int] = {}
    for run in _runs(sorted(free)):
        for slot in run:
            beside = [sets[each] for each in (slot - 1, slot + 1) if each in sets]
            middle = abs(2 * slot - run[0] - run[-1]) - 2 * len(run)
            found[slot] = 0 if own in beside else 2 * FAR if beside else FAR + middle
    return found


def _runs(slots: Many[int]) -> list[list[int]]:
    """Adjacent ones together."""
    runs: list[list[int]] = []
    for slot in slots:
        if runs and slot == runs[-1][-1] + 1:
            runs[-1].append(slot)
        else:
            runs.append([slot])
    return runs


def _of(running: Many[Sequence], adapters: AdapterSet) -> list[Sequence]:
    return [sequence for sequence in running if sequence.progress.adapters == adapters]


def _rank(sequences: Many[Sequence]) -> tuple[int, float]:
    """Sets that have waited equally long: the more urgent, then the one with the oldest request."""
    dues = [sequence.request.due for sequence in sequences]
    return min(due.priority for due in dues), min(due.created_s for due in dues)


def _next_row(sequence: Sequence) -> tuple[int, int, int]:
    return sequence.slot or 0, sequence.progress.num_computed, 1
