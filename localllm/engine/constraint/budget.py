"""How many tokens the reasoning before an answer may have, and what must follow to close it.

    [opening]  token 1 .. token n  closing

Works on the bytes of the tokens taken. Knows nothing of grammars: whether the closing is allowed where it is required
is for them to say.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

UNLIMITED = 2**62
"""Tokens."""
_LEADING = ((0b1110_0000, 0b1100_0000, 2), (0b1111_0000, 0b1110_0000, 3), (0b1111_1000, 0b1111_0000, 4))
"""Mask and value of a character's first byte in UTF-8, and its length in bytes."""


class ThoughtBudget:
    """Budget of one answer, before any token was taken."""

    def __init__(
        self,
        num_tokens: int,
        *,
        opening: bytes,
        closing: bytes,
        closing_tokens: tuple[int, ...],
        bytes_of: Callable[[int], bytes],
    ) -> None:
        """`opening`: what the answer begins with if it begins with reasoning; empty: it is inside the reasoning
        already."""
        self._num_left = num_tokens
        self._opening = opening
        self._closing = closing
        self._closing_tokens = closing_tokens
        self._bytes_of = bytes_of
        self._tail = b""
        """Recent bytes that may be part of the opening or the closing."""
        self._is_open = not opening
        self._is_over = False
        self._num_closed = 0
        """Tokens of the closing taken so far."""

    def copy(self) -> ThoughtBudget:
        """For looking ahead."""
        return copy(self)

    @property
    def is_over(self) -> bool:
        """Whether the reasoning has ended, or the answer has none."""
        return self._is_over

    @property
    def must(self) -> tuple[int, ...]:
        """What must come next; empty: the reasoning may continue, or it is over."""
        if self._is_over or not self._is_open or (self._num_left > 0 and not self._num_closed):
            return ()
        return (
            ()
            if not self._num_closed and _is_within_character(self._tail)
            else self._closing_tokens[self._num_closed :]
        )

    def take(self, token: int) -> None:
        """The answer continues with this token."""
        if self._is_over:
            return
        must = self.must
        self._tail += self._bytes_of(token)
        if not self._is_open:
            self._begin()
            return
        self._num_left -= 1
        if must:
            self._num_closed += 1
        self._is_over = self._closing in self._tail or self._num_closed == len(self._closing_tokens)
        self._tail = self._tail[-max(len(self._closing) - 1, 3) :]

    def give_up(self) -> None:
        """What must come is not allowed."""
        self._is_over = True

    def _begin(self) -> None:
        if self._tail.startswith(self._opening):
            self._is_open = True
            self._tail = self._tail[len(self._opening) :]
        elif not self._opening.startswith(self._tail):
            self._is_over = True


def _is_within_character(text: bytes) -> bool:
    """Whether it ends with an incomplete character."""
    for size, byte in enumerate(reversed(text[-3:]), 1):
        if byte & 0b1100_0000 != 0b1000_0000:
            return any(byte & mask == value and size < needed for mask, value, needed in _LEADING)
    return False
