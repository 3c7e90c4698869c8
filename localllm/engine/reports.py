"""Progress of a prompt, for a request that wants it: when it gets its slot, after each step, when it is complete.

Knows nothing of how steps are planned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localllm.types import Delta, PromptProgress

if TYPE_CHECKING:
    from localllm.engine.sequence import Sequence


class PromptReports:
    """For one sequence; used by the engine's thread."""

    def __init__(self, *, every_step: bool) -> None:
        """`every_step`: otherwise only the last report, when the prompt is complete."""
        self._every_step = every_step
        self._last = -1
        """Tokens computed at the time of the last report."""

    def news(self, sequence: Sequence, now_s: float) -> list[Delta]:
        """Reports due before or after a step."""
        computed = min(sequence.num_computed, sequence.num_prompt)
        if computed <= self._last or not (self._every_step or computed == sequence.num_prompt):
            return []
        self._last = computed
        began_s = now_s if sequence.admitted_s is None else sequence.admitted_s
        slot = -1 if sequence.slot is None else sequence.slot
        progress = PromptProgress(sequence.num_prompt, sequence.num_cached, computed, now_s - began_s, slot)
        return [Delta(progress=(progress,))]
