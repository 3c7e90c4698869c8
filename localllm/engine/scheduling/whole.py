"""How much of the prompts a step takes while nothing streams and a decode can be interrupted: whole batches.

llama.cpp computes a prompt fastest in full ubatches. A step is then as long as its batch, and arrivals end it. Ending
it loses the ubatch in progress; the total loss is bounded. Pure: no clock, no backend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Many

from localllm.engine.requests.sequence import Sequence
from localllm.engine.scheduling.cost import StepCost
from localllm.engine.scheduling.pace import StepBudget
from localllm.engine.scheduling.waits import leaders_of

LONGEST_UBATCH_S = 5.0
"""A ubatch that would take longer is made smaller, since this is the most that ending a step can lose.

Smaller ones are expensive: after 5,000 tokens 192 rows take as long as 350 of 512.
"""
MIN_PROMPT_TOKENS = 64
"""Minimum number of tokens of each prompt in a step of several, time permitting, however short the shortest is."""
FINISH_TOGETHER_FACTOR = 1.25
"""Prompts end in the same step if that delays the shortest by at most this factor."""
SAME_EVENT_TOKENS = 8
"""Maximum difference, in tokens, between awaited prefixes of one prompt that are computed in one step."""
SHORT_FIRST_FACTOR = 4
"""Shorter prompts go first if the others are at least this many times as long."""
ALLOWED_LOSS_S = 0.3
"""Loss allowed before anything is restricted."""
LOSS_SHARE = 0.2
"""Further loss allowed, as a share of the useful computing time after that."""
INTERRUPTION_COST_S = 0.005
"""Cost of ending a step that has computed nothing: planning it, and building its graph."""


class Interruptions:
    """Whether steps may be interrupted: as long as little is lost by it.

    The total loss stays below `ALLOWED_LOSS_S`, plus one more interruption, plus `LOSS_SHARE` of the useful computing
    time; so every prompt makes progress, despite arrivals and cancels.
    """

    def __init__(self) -> None:
        self._debt_s = 0.0

    @property
    def are_allowed(self) -> bool:
        return self._debt_s < ALLOWED_LOSS_S

    def computed(self, seconds: float) -> None:
        """Record `seconds` of useful computing."""
        self._debt_s = max(0.0, self._debt_s - LOSS_SHARE * seconds)

    def lost(self, seconds: float) -> None:
        """Record `seconds` of computing lost by an interruption."""
        self._debt_s += max(seconds, INTERRUPTION_COST_S)


class WholeBatches:
    """Decides how much of a step prompts get while nothing streams."""

    def __init__(self, cost: StepCost, *, batch_capacity: int, ubatch_capacity: int) -> None:
        """Until `cost` is measured, steps stay bounded."""
        self._cost = cost
        self._batch_capacity = batch_capacity
        self._ubatch_capacity = ubatch_capacity
        self._is_turn_of_all = False

    def prompts(self, running: Many[Sequence], waiting: Many[Sequence]) -> list[Sequence]:
        """Which prompts take part in the step: first those that end much sooner than the others, but every other time
        all."""
        needs = {sequence.id: _next_event(sequence, waiting) for sequence in running}
        shortest = min(needs.values(), default=0)
        short = [sequence for sequence in running if needs[sequence.id] <= FINISH_TOGETHER_FACTOR * shortest]
        rest = [needs[sequence.id] for sequence in running if sequence not in short]
        if not self._cost.is_measured or not rest or SHORT_FIRST_FACTOR * len(short) * shortest > min(rest):
            self._is_turn_of_all = False
            return list(running)
        is_turn_of_all, self._is_turn_of_all = self._is_turn_of_all, not self._is_turn_of_all
        return list(running) if is_turn_of_all else short

    def budget(self, bounded: StepBudget, running: Many[Sequence], waiting: Many[Sequence]) -> StepBudget:
        """Replaces a budget that bounds a step's time, for `running` prompts, some of whose prefixes are waited for.

        A single prompt gets a whole batch; several, which llama.cpp computes in ubatches of equal parts, get one
        ubatch. Less if that lets the first of them end.
        """
        if not self._cost.is_measured or not running or any(sequence.wants_scores for sequence in running):
            return bounded
        count = len(running)
        depth = max(sequence.progress.num_computed for sequence in running)
        ubatch_s = self._cost.seconds([(0, depth, self._ubatch_capacity)])
        most_s = math.inf if ubatch_s <= LONGEST_UBATCH_S else LONGEST_UBATCH_S
        needs = sorted(_next_event(sequence, waiting) for sequence in running)
        most_tokens = count * max(needs[0], MIN_PROMPT_TOKENS) if count > 1 else needs[0]
        if sum(needs) <= FINISH_TOGETHER_FACTOR * most_tokens:
            most_tokens = sum(needs)
        most_tokens = min(most_tokens, self._batch_capacity if count == 1 else self._ubatch_capacity)
        if needs[0] < MIN_PROMPT_TOKENS < needs[-1]:  # others exceed what the shortest needs only if time allows
            most_s = self._cost.seconds([(each.slot or 0, each.progress.num_computed, needs[0]) for each in running])
        return bounded._replace(step_s=max(bounded.step_s, most_s), most_tokens=most_tokens)


def _next_event(sequence: Sequence, waiting: Many[Sequence]) -> int:
    """Tokens until its prompt ends, or the prefix of it that another sequence waits for.

    Prefixes of nearly the same length, as prompts have that go on alike by chance, are one event: the longest of them.
    """
    awaited = [leader for leader in leaders_of(waiting) if leader.sequence is sequence and leader.is_at_work]
    if not awaited:
        return sequence.progress.num_next
    first = min(leader.until for leader in awaited)
    until = max(leader.until for leader in awaited if leader.until <= first + SAME_EVENT_TOKENS)
    return min(sequence.progress.num_next, until - sequence.progress.num_computed)
