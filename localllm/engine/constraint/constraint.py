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
    def param(self) -> str:
        """Where it stands in the request, as errors name it."""
        ...

    @property
    def end_tokens(self) -> Sequence[int]:
        """Those that end an answer: `masks` allow them where the text may end."""
        ...

    @property
    def cost_s(self) -> float:
        """What a mask takes to compute: about the longest of the last ones, each row's by itself."""
        ...

    @property
    def is_complete(self) -> bool:
        """Nothing but the end can follow what was taken."""
        ...

    @property
    def forced(self) -> Sequence[int]:
        """Tokens that must come next, as the tokenizer would have made them; no end tokens."""
        ...

    @property
    def ends_forced(self) -> bool:
        """Whether nothing but the end can follow the forced tokens."""
        ...

    def take(self, token: int) -> None:
        """The sequence goes on with it. Raises `ConstraintFailed`."""
        ...

    def allows(self, token: int, num_behind: int) -> bool:
        """Whether it may come when so many of the forced tokens were taken; much cheaper than a mask.

        If so, then what is taken next are these and the token, or nothing any more. Raises `ConstraintFailed`.
        """
        ...

    def num_allowed(self, tokens: Sequence[int]) -> int:
        """How many of these may come next, one after the other; none behind an end token."""
        ...

    def masks(self, ahead: Sequence[int], num_rows: int) -> list[Mask]:
        """What is allowed in the last `num_rows` of the rows behind 0, 1, ... all of the tokens `ahead`.

        As if these had been taken; nothing is. Behind tokens that may not come anything may be in it. End tokens are
        allowed where the text may end. Good until the next call. Raises `ConstraintFailed`.
        """
        ...
