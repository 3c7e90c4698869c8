"""What the next tokens of a sequence are drawn with: sampler parameters, grammar and masks, guesses and their success.

Knows nothing of slots or of text.
"""

from __future__ import annotations

from collections.abc import Sequence as Tokens
from typing import TYPE_CHECKING

from localllm.engine.constraint.constraint import Constraint
from localllm.engine.constraint.follower import Follower
from localllm.engine.requests.terms import Request
from localllm.engine.sampling.dry import Dry
from localllm.engine.sampling.parameters import Mask, Parameters
from localllm.engine.speculation.proposals import Proposal

if TYPE_CHECKING:
    from localllm.engine.speculation.guesser import Guesser


class DrawingState:
    """Mutable; owned by the engine thread."""

    def __init__(
        self, request: Request, *, dry: Dry | None, constraint: Constraint | None, guesser: Guesser | None
    ) -> None:
        self.parameters = Parameters(request, dry)
        """The sampler's, with penalties and the state of mirostat."""
        self.follower = None if constraint is None else Follower(constraint)
        """The constraint on its answer."""
        self.masks: Tokens[Mask | None] = ()
        """What is allowed in each of the next rows; everything in further ones."""
        self.guesser = guesser if request.takes_guesses else None
        """Source of the proposal's guesses."""
        self.proposal: Proposal | None = None
        """What may be computed after its last token in the next step."""
        self.num_guesses = self.num_right_guesses = 0
        """Tokens that were guessed and computed, and how many of them were right."""
        self.lead = 0.0
        """Tokens by which its answer is ahead of what one row in each step would have brought in the same time, as far
        as the cost of steps is known. Negative: others' rows delayed it."""

    @property
    def is_closed(self) -> bool:
        """Whether its text was closed early and is whole."""
        return self.follower is not None and self.follower.is_cut and self.follower.is_complete

    @property
    def has_masks_coming(self) -> bool:
        """Whether masks for its next rows were requested."""
        return self.follower is not None and self.follower.current_work is not None
