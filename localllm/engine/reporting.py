"""Sends the results of steps; those of the last step while a device computes the next one, if nobody waits for them.

Knows nothing of how results come about.
"""

from __future__ import annotations

from collections.abc import Callable

from localllm.engine.answers.answering import Answers
from localllm.engine.inbox import StepOutput


class Reporter:
    """Used by the engine's thread."""

    def __init__(self, answers: Answers, emit: Callable[[StepOutput], None]) -> None:
        self._answers = answers
        self._emit = emit
        self._unreported: StepOutput | None = None
        """Output of the last step, until it is reported."""

    @property
    def has_unreported(self) -> bool:
        return self._unreported is not None

    def keep(self, output: StepOutput) -> None:
        """Output of a step that has just ended; `report_last` sends it, together with the tokens taken in that step."""
        self._unreported = output

    def report_last(self) -> None:
        """Send what was kept, if that was not done yet."""
        output, self._unreported = self._unreported, None
        if output is not None:
            self._answers.report(output)
            self.send(output)

    def send(self, output: StepOutput) -> None:
        """Send an output as it is, unless it is empty."""
        if output.deltas or output.failures:
            self._emit(output)
