"""What the engine asks of a constraint: what is allowed next, what must come next, whether the text may end.

Says nothing of grammars. The tokens of a constraint are those that its sequence generated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from localllm.engine.sampling.parameters import Mask


class ConstraintFailed(Exception):
    """It cannot continue: a limit was reached, or a forbidden token was taken; the message is the reason."""


class Constraint(Protocol):
    """For one sequence; used by one thread at a time."""

    @property
    def param(self) -> str:
        """The request's parameter that errors name."""
        ...

    @property
    def end_tokens(self) -> Sequence[int]:
        """Tokens that end an answer: `masks` allow them where the text may end."""
        ...

    @property
    def cost_s(self) -> float:
        """Time to compute a mask: about the longest of the latest ones, rows counted separately."""
        ...

    @property
    def is_complete(self) -> bool:
        """Only the end can follow what was taken."""
        ...

    @property
    def forced(self) -> Sequence[int]:
        """Tokens that must come next, as the tokenizer would have made them; no end tokens."""
        ...

    @property
    def ends_forced(self) -> bool:
        """Whether only the end can follow the forced tokens."""
        ...

    @property
    def is_cut(self) -> bool:
        """Whether what it forces is an end before the sequence's limit, not the grammar's only way on."""
        ...

    @property
    def end_reason(self) -> Literal["stop", "length"]:
        """Why a complete text ends: `length` if it was closed early, which the request did not ask for."""
        ...

    def is_settled(self, token: int, num_left: int) -> bool:
        """Whether `in_time` answers at once; if not, `look` finds the answer first."""
        ...

    def look(self, token: int, num_left: int) -> None:
        """Find out what `in_time` will answer, on any thread. Takes up to some hundred masks."""
        ...

    def in_time(self, token: int, num_left: int) -> int:
        """What to take in place of this token, if at most `num_left` may come: usually the token itself; otherwise the
        first of those that are forced from now on, so that the text ends in time."""
        ...

    def take(self, token: int) -> None:
        """The sequence continues with this token. Raises `ConstraintFailed`."""
        ...

    def allows(self, token: int, num_behind: int) -> bool:
        """Whether it may come after `num_behind` of the forced tokens; much cheaper than a mask.

        If so, then those tokens and this one must be taken next, or nothing any more. Raises `ConstraintFailed`.
        """
        ...

    def num_allowed(self, tokens: Sequence[int]) -> int:
        """How many of these may come next, one after the other; none after an end token."""
        ...

    def masks(self, ahead: Sequence[int], num_rows: int) -> list[Mask]:
        """What is allowed in the last `num_rows` of the rows after 0, 1, ... all of the tokens `ahead`.

        As if these had been taken; none is. After tokens that are not allowed, a mask may contain anything. End tokens
        are allowed where the text may end. Valid until the next call. Raises `ConstraintFailed`.
        """
        ...
