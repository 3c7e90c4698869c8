"""Who proposes tokens before each step: a source for each sequence, one for all together, and the grammar.

Knows nothing of how tokens are found, nor how many of them are computed.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Many
from typing import NamedTuple, Protocol

from localllm.engine.requests.sequence import Sequence
from localllm.engine.scheduling.row_cost import RowCost
from localllm.engine.speculation.proposals import Proposal


class Proposer(Protocol):
    """Asked before every step, on the engine's thread, about each sequence whose next step computes its last token."""

    def propose(self, sequence: Sequence) -> Proposal | None:
        """Possible next tokens; None or an empty proposal if there are none."""
        ...


class DraftTarget(NamedTuple):
    """The model that verifies the guesses of a draft."""

    cost: RowCost
    """Cost of its steps."""
    max_rollback: int
    """As in `KvCells`."""
    rolls_back_equals: bool


class Drafting(Protocol):
    """Guesses for all sequences of a step together. Called on the engine's thread, before any `propose`."""

    def draft(self, running: Many[Sequence]) -> None:
        """Draft for those that draw a token in the next step. Never raises: after a failure it stops drafting."""
        ...


class Proposers(NamedTuple):
    """All there are; a sequence's grammar is its own."""

    each: Proposer | None = None
    make_drafting: Callable[[DraftTarget], Drafting] | None = None

    def asker(self, target: DraftTarget) -> Asker:
        """Asks them for guesses that this model verifies."""
        return Asker(self.each, None if self.make_drafting is None else self.make_drafting(target))


class Asker:
    """Used by the engine's thread, before each step."""

    def __init__(self, each: Proposer | None, together: Drafting | None) -> None:
        self._each = each
        self._together = together

    @property
    def drafts_together(self) -> bool:
        """Whether a draft guesses for all sequences of a step together."""
        return self._together is not None

    def ask(self, running: Many[Sequence]) -> None:
        """Sets the proposals of the sequences that draw a token in the next step."""
        if self._together is not None:
            self._together.draft(running)
        for sequence in running:
            drawing = sequence.drawing
            if self._each is None and drawing.follower is None:
                continue
            progress = sequence.progress
            is_stream = progress.num_pending == 1 and progress.next_span is None
            if not is_stream or sequence.request.max_tokens == 0 or sequence.wants_scores:
                drawing.proposal = None
                continue
            proposal = None if self._each is None else self._each.propose(sequence)
            drawing.proposal = proposal if drawing.follower is None else drawing.follower.proposal(proposal)


NOBODY = Proposers()
