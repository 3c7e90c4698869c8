"""How much of prompts a step takes while nobody streams and a decode can be interrupted: whole batches.

llama.cpp computes a prompt fastest in ubatches that are full. A step is then as long as its batch, and who arrives ends
it. Ending it loses the ubatch that was being computed: how much is lost in all is bounded. Pure: no clock, no backend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Many

from localllm.engine.scheduling.pace import Budget
from localllm.engine.sequence import Sequence

LONGEST_UBATCH_S = 5.0
"""A ubatch that would take longer is made smaller: so much is lost at most by ending a step.

Smaller ones are dear: behind 5,000 tokens 192 rows take as long as 350 of 512.
"""
LEAST_PROMPT = 64
"""Tokens of each prompt that a step of several has, if there is time, however short the shortest is."""
NEARLY_ALL = 1.25
"""Prompts of nearly equal lengths end together, if that makes the shortest wait so many times as long at most."""
MUCH_LONGER = 4
"""Prompts so many times as long let those that take so little go first."""
ALLOWED_LOSS_S = 0.3
"""So much may be lost before anything is held back."""
LOSS_SHARE = 0.2
"""And so much of what computes something after that."""
LEAST_LOSS_S = 0.005
"""What ending a step costs that has computed nothing: planning it, and building its graph."""


class Interruptions:
    """Whether steps may be interrupted: as long as little is lost by it.

    All that is ever lost is less than `ALLOWED_LOSS_S`, what one more interruption loses, and `LOSS_SHARE` of the time
    in which something was computed; so every prompt goes on, whatever arrives and goes.
    """

    def __init__(self) -> None:
        self._debt_s = 0.0

    @property
    def are_allowed(self) -> bool:
        return self._debt_s < ALLOWED_LOSS_S

    def computed(self, seconds: float) -> None:
        """What was computed in so many seconds stays."""
        self._debt_s = max(0.0, self._debt_s - LOSS_SHARE * seconds)

    def lost(self, seconds: float) -> None:
        """What was computed in so many seconds does not."""
        self._debt_s += max(seconds, LEAST_LOSS_S)


class WholeBatches:
    """Says how much of a step prompts get while nobody streams."""

    def __init__(self, *, batch_capacity: int, ubatch_capacity: int) -> None:
        self._batch_capacity = batch_capacity
        self._ubatch_capacity = ubatch_capacity
        self._is_turn_of_all = False
        self.is_measured = False
        """Whether a step was: until then the cost of steps is not known, and they stay bounded."""

    def prompts(self, running: Many[Sequence], waiting: Many[Sequence]) -> list[Sequence]:
        """Who takes part in the step: those first that end much sooner than the others, but every other time all."""
        needs = {sequence.id: _next_event(sequence, waiting) for sequence in running}
        shortest = min(needs.values(), default=0)
        short = [sequence for sequence in running if needs[sequence.id] <= NEARLY_ALL * shortest]
        rest = [needs[sequence.id] for sequence in running if sequence not in short]
        if not self.is_measured or not rest or MUCH_LONGER * len(short) * shortest > min(rest):
            self._is_turn_of_all = False
            return list(running)
        is_turn_of_all, self._is_turn_of_all = self._is_turn_of_all, not self._is_turn_of_all
        return list(running) if is_turn_of_all else short

    def budget(self, bounded: Budget, running: Many[Sequence], waiting: Many[Sequence]) -> Budget:
        """In the place of one that bounds a step's time: for `running` prompts, some of whose prefixes are waited for.

        A prompt alone gets a whole batch, and several, which llama.cpp computes in ubatches of equal parts, one ubatch:
        or less, as much as lets the first of them end.
        """
        if not self.is_measured or not running or any(sequence.wants_scores for sequence in running):
            return bounded
        count, cost = len(running), bounded.cost
        depth = max(sequence.num_computed for sequence in running)
        ubatch_s = cost.seconds([(0, depth, self._ubatch_capacity)])
        most_s = math.inf if ubatch_s <= LONGEST_UBATCH_S else LONGEST_UBATCH_S
        needs = sorted(_next_event(sequence, waiting) for sequence in running)
        most_tokens = count * max(needs[0], LEAST_PROMPT) if count > 1 else needs[0]
        if sum(needs) <= NEARLY_ALL * most_tokens:
            most_tokens = sum(needs)
        most_tokens = min(most_tokens, self._batch_capacity if count == 1 else self._ubatch_capacity)
        if needs[0] < LEAST_PROMPT < needs[-1]:
            most_s = bounded.step_s  # others get more than the shortest needs only as far as there is time
        return bounded._replace(step_s=max(bounded.step_s, most_s), most_tokens=most_tokens)


def _next_event(sequence: Sequence, waiting: Many[Sequence]) -> int:
    """Tokens until its prompt ends, or the prefix of it that somebody waits for."""
    events = [sequence.num_pending]
    for other in waiting:
        leader = None if other.wait is None else other.wait.leader
        if leader is not None and leader.sequence is sequence and leader.until > sequence.num_computed:
            events.append(leader.until - sequence.num_computed)
    return min(events)
