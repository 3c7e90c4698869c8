"""How long the next step may take, learned from previous steps.

Knows nothing of how a step is shared out.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence as Many
from typing import NamedTuple

from localllm.engine.scheduling.cost import Part, StepCost

LONGEST_TILE = 2.0
"""A worthwhile tile may take this many times `max_step_s` beside streams."""


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
    """Keeps steps under `max_step_s` seconds, so that a cancel or a new request never waits longer; and keeps steps
    that compute prompts while answers stream under `prefill_step_s`, so that the streams flow. Where more requests wait
    for their first token than stream, prompts get a proportionally longer step: otherwise the many would wait for the
    few."""

    def __init__(self, cost: StepCost, *, max_step_s: float, prefill_step_s: float = math.inf) -> None:
        self.cost = cost
        self._max_step_s = max_step_s
        self._prefill_step_s = min(prefill_step_s, max_step_s)

    def budget(self, num_streams: int = 0, num_hungry: int = 0) -> StepBudget:
        """For the next step, while `num_streams` answers are streaming and `num_hungry` have not begun."""
        step_s = self._max_step_s
        if num_streams:
            step_s = min(step_s, self._prefill_step_s * max(1.0, num_hungry / num_streams))
        return StepBudget(step_s, LONGEST_TILE * self._max_step_s, self.cost)

    def observe(self, parts: Many[Part], seconds: float) -> None:
        """A step of these parts took `seconds`."""
        self.cost.observe(parts, seconds)
