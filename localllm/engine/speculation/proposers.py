"""Who proposes tokens before each step: a source for each sequence, one for all together, and the grammar.

Knows nothing of how tokens are found, nor how many of them are computed.
"""

from __future__ import annotations

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


class Drafting(Protocol):
    """Guesses for all sequences of a step together. Called on the engine's thread, before any `propose`."""

    def weigh(self, target: RowCost, *, max_rollback: int, rolls_back_equals: bool) -> None:
        """Receives, once and first of all, the cost of the steps that verify guesses, and what their memory can roll
        back: see `Backend`."""
        ...

    def draft(self, running: Many[Sequence]) -> None:
        """Draft for those that draw a token in the next step. Never raises: after a failure it stops drafting."""
        ...


class Proposers(NamedTuple):
    """All there are; a sequence's grammar is its own."""

    each: Proposer | None = None
    together: Drafting | None = None

    def ask(self, running: Many[Sequence]) -> None:
        """Sets the proposals of the sequences that draw a token in the next step."""
        if self.together is not None:
            self.together.draft(running)
        for sequence in running:
            if self.each is None and sequence.follower is None:
                continue
            if sequence.num_pending != 1 or sequence.max_tokens == 0 or sequence.wants_scores:
                sequence.proposal = None
                continue
            proposal = None if self.each is None else self.each.propose(sequence)
            sequence.proposal = proposal if sequence.follower is None else sequence.follower.proposal(proposal)


NOBODY = Proposers()
