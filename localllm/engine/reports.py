"""How far a prompt is, for a request that wants to know: when it has its slot, after each step, when it is whole.

Knows nothing of how steps are planned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localllm.types import Delta, PromptProgress

if TYPE_CHECKING:
    from localllm.engine.sequence import Sequence


class PromptReports:
    """Of one sequence; used by the engine's thread."""

    def __init__(self, *, every_step: bool) -> None:
        """`every_step`: else only the last, when the prompt is whole."""
        self._every_step = every_step
        self._last = -1
        """Tokens that were computed when it was told last."""

    def news(self, sequence: Sequence, now_s: float) -> list[Delta]:
        """What there is to tell before a step, or after it."""
        computed = min(sequence.num_computed, sequence.num_prompt)
        if computed <= self._last or not (self._every_step or computed == sequence.num_prompt):
            return []
        self._last = computed
        began_s = now_s if sequence.admitted_s is None else sequence.admitted_s
        slot = -1 if sequence.slot is None else sequence.slot
        progress = PromptProgress(sequence.num_prompt, sequence.num_cached, computed, now_s - began_s, slot)
        return [Delta(progress=(progress,))]
