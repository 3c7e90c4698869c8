"""How long the next step may take, and what steps cost, as learned from previous ones.

Knows nothing of how a step is shared out.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from localllm.engine.scheduling.cost import StepCost
from localllm.engine.scheduling.row_cost import RowCost
from localllm.engine.scheduling.rows import assumed_unified_cost

LONGEST_TILE = 2.0
"""A worthwhile tile may take this many times `max_step_s` beside streams."""


class StepLimits(NamedTuple):
    """How long steps may take, in seconds."""

    max_step_s: float = 0.3
    """A cancel or a new request waits at most this long."""
    prefill_step_s: float = 0.1
    """For steps that compute prompts while answers stream, so that the streams flow."""

    @property
    def beside_streams_s(self) -> float:
        return min(self.prefill_step_s, self.max_step_s)


DEFAULT_LIMITS = StepLimits()


class StepBudget(NamedTuple):
    """How long the next step may take."""

    step_s: float
    """How long it should take."""
    longest_s: float
    """How long it may take beside streams for a tile that saves much."""
    cost: StepCost
    most_tokens: int = sys.maxsize
    """Prompts and streams together, in any case."""


class Pace:
    """Keeps steps within their limits. Where more requests wait for their first token than stream, prompts get a
    proportionally longer step: otherwise the many would wait for the few."""

    def __init__(self, cost: StepCost, limits: StepLimits, *, is_unified: bool = False) -> None:
        """`is_unified`: the cache computes unequal rows in one pass, which `cost` does not know."""
        self.cost = cost
        """Of any step; learned from all but those with guesses: a few rows each say little about prompts."""
        self.row_cost = RowCost(assumed_unified_cost if is_unified else cost.seconds)
        """Of a step in which only streams compute tokens, possibly several each."""
        self._limits = limits

    def budget(self, num_streams: int = 0, num_hungry: int = 0) -> StepBudget:
        """For the next step, while `num_streams` answers are streaming and `num_hungry` have not begun."""
        step_s = self._limits.max_step_s
        if num_streams:
            step_s = min(step_s, self._limits.beside_streams_s * max(1.0, num_hungry / num_streams))
        return StepBudget(step_s, LONGEST_TILE * self._limits.max_step_s, self.cost)
