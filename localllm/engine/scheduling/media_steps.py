"""Steps that compute media rows: whose, how many, and when. A batch takes tokens or rows, never both.

So rows have steps of their own, each for one sequence. Beside other prompts they take turns with them, beside streams
they have the time of a prompt's step. A sequence whose rows are not there yet sits out. Knows nothing of how rows are
made.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Many

from localllm.engine.backend import Segment
from localllm.engine.requests.sequence import Sequence
from localllm.engine.scheduling.pace import StepBudget
from localllm.engine.scheduling.shares import Shares
from localllm.engine.scheduling.step_plan import StepPlan
from localllm.engine.scheduling.whole import WholeBatches
from localllm.errors import LocalLLMError


class MediaSteps:
    """Remembers whose turn it is."""

    def __init__(self, shares: Shares, ready: Callable[[], None]) -> None:
        """`ready` is called, on any thread, when rows have come for which a sequence waits."""
        self._shares = shares
        self._ready = ready
        self._is_tokens_turn = False
        """Whether the next step belongs to other prompts, if there are any, because the last one was for rows."""
        self._is_oldests_turn = False
        """Whether the sequence that arrived first is next; otherwise the one that needs the fewest tokens is."""
        self.lacking: list[Sequence] = []
        """Those that lacked rows when the last step was planned."""

    def prefetch(self, sequence: Sequence) -> None:
        """It has entered a slot: request the rows that are not there."""
        if sequence.progress.spans:
            sequence.progress.want_rows(self._ready)

    def look(self, sequences: Many[Sequence]) -> None:
        """Notes which of these, which take rows next, lack them, and requests them."""
        self.lacking = [sequence for sequence in sequences if sequence.progress.lacks_rows]
        for sequence in self.lacking:
            sequence.progress.want_rows(self._ready)

    def plan(
        self,
        sequences: Many[Sequence],
        others: list[Sequence],
        waiting: Many[Sequence],
        budget: StepBudget,
        whole: WholeBatches | None,
    ) -> StepPlan | None:
        """A step of one of these `sequences`, which take rows next; None: the step is for the `others`.

        `whole`: nothing streams, and the step may be interrupted.
        """
        ready = [sequence for sequence in sequences if not sequence.progress.lacks_rows]
        streams = [each for each in others if not each.progress.is_prefilling]
        if not ready or (streams and self._shares.is_streams_turn):
            return None
        is_tokens_turn, self._is_tokens_turn = self._is_tokens_turn, False
        if is_tokens_turn and len(streams) < len(others):
            return None
        self._is_tokens_turn = True
        if self._is_oldests_turn:
            sequence = min(ready, key=lambda each: (each.request.due.created_s, each.id))
        else:
            sequence = min(ready, key=lambda each: each.progress.num_pending)
        self._is_oldests_turn = not self._is_oldests_turn and len(ready) > 1
        if whole is not None and can_be_interrupted(sequence):
            budget = whole.budget(budget, [sequence], waiting)
        count = self._shares.of_span(sequence, streams, budget)
        return StepPlan([_rows_of(sequence, count)], [sequence]) if count else None

    def without_rows(self) -> list[tuple[Sequence, LocalLLMError]]:
        """Running sequences that need rows next and cannot have them, with the reason."""
        found = []
        for sequence in self.lacking:
            span = sequence.progress.next_span
            if sequence.slot is not None and span is not None and span.of.source.failure is not None:
                found.append((sequence, span.of.source.failure))
        return found


def _rows_of(sequence: Sequence, count: int) -> Segment:
    """A segment of the next `count` rows of a sequence."""
    progress = sequence.progress
    assert progress.slot is not None
    start, end = progress.num_computed, progress.num_computed + count
    is_last = end == progress.num_tokens
    wants_next = sequence.wants_scores and progress.spans.at(end) is None
    tokens = progress.tokens[start:end]
    return Segment(progress.slot, start, tokens, int(is_last or wants_next), media=progress.spans.part(start, end))


def can_be_interrupted(sequence: Sequence) -> bool:
    """Whether what whole ubatches of its next span computed can be told apart from the rest."""
    span = sequence.progress.next_span
    extent = None if span is None else span.extent
    return extent is None or not extent.shares_positions
