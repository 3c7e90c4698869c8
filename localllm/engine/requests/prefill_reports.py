"""Progress of a prompt, for a request that wants it: when it gets its slot, after each step, when it is complete.

Knows nothing of how steps are planned.
"""

from __future__ import annotations

from localllm.types import PromptProgress


class PromptReports:
    """For one sequence; used by the engine's thread."""

    def __init__(self, *, every_step: bool) -> None:
        """`every_step`: otherwise only the last report, when the prompt is complete."""
        self._every_step = every_step
        self._last = -1
        """Tokens computed at the time of the last report."""

    def is_news(self, progress: PromptProgress) -> bool:
        """Whether this is to be reported, before or after a step; if so, it counts as reported."""
        is_complete = progress.computed == progress.total
        if progress.computed <= self._last or not (self._every_step or is_complete):
            return False
        self._last = progress.computed
        return True
