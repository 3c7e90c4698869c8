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
"""Maximum duration of a step beside streams for the sake of a tile, as a multiple of `max_step_s`."""


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
    """Intended duration."""
    longest_s: float
    """Maximum duration beside streams, for a tile that saves much."""
    cost: StepCost
    most_tokens: int = sys.maxsize
    """Maximum number of tokens of prompts and streams together."""
    max_scored_tokens: int = sys.maxsize
    """Maximum number of tokens of prompts whose log-probabilities are wanted, together."""


class Pace:
    """Keeps steps within their limits. Where more requests wait for their first token than stream, prompts get a
    proportionally longer step: otherwise the many would wait for the few."""

    def __init__(self, cost: StepCost, limits: StepLimits, *, is_unified: bool = False) -> None:
        """`is_unified`: the cache computes unequal rows in one pass, which `cost` does not know."""
        self.cost = cost
        """Cost of any step; learned from all steps without guesses, since a few rows each say little about prompts."""
        self.row_cost = RowCost(assumed_unified_cost if is_unified else cost.seconds)
        """Cost of a step in which only streams compute tokens, possibly several each."""
        self._limits = limits

    def budget(self, num_streams: int = 0, num_hungry: int = 0, *, max_scored_tokens: int = sys.maxsize) -> StepBudget:
        """Budget of the next step, while `num_streams` answers are streaming and `num_hungry` have not begun."""
        step_s = self._limits.max_step_s
        if num_streams:
            step_s = min(step_s, self._limits.beside_streams_s * max(1.0, num_hungry / num_streams))
        longest_s = LONGEST_TILE * self._limits.max_step_s
        return StepBudget(step_s, longest_s, self.cost, max_scored_tokens=max_scored_tokens)
