"""What the engine asks of a constraint: what is allowed next, what must come next, whether the text may end.

Says nothing of grammars. The tokens of a constraint are those that its sequence generated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from localllm.engine.sampling.parameters import Mask


class ConstraintFailed(Exception):
    """It cannot go on: a limit was reached, or a token was taken that it does not allow; the text is the reason."""


class Constraint(Protocol):
    """Of one sequence; used by one thread at a time."""

    @property
    def is_complete(self) -> bool:
        """Nothing but the end can follow what was taken."""
        ...

    def forced(self) -> Sequence[int]:
        """Tokens that must come next, as the tokenizer would have made them. Raises `ConstraintFailed`."""
        ...

    def take(self, token: int) -> None:
        """The sequence goes on with it. Raises `ConstraintFailed`."""
        ...

    def masks(self, ahead: Sequence[int], num_rows: int) -> list[Mask]:
        """What is allowed in the last `num_rows` of the rows behind 0, 1, ... all of the tokens `ahead`.

        As if these had been taken; nothing is. End tokens are allowed where the text may end. Raises
        `ConstraintFailed`.
        """
        ...
