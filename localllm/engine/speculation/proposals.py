"""Tokens that a step computes after a sequence's last one.

    tokens of the sequence   forced                    guessed
    ... last              |  f1 .. fm               |  g1 .. gn
    row after each        f1 ..  fm, then draws:    g1? ..  gn?, one more

Forced tokens are certain (a grammar allows nothing else): they are taken without being drawn. Guessed tokens are taken
as long as the draw equals the guess, so the text is the same as without guesses. Says nothing of how tokens are found.
"""

from __future__ import annotations

from typing import NamedTuple

from localllm.types import SourceName

ASSUMED_CHANCE = 0.8
"""Assumed probability that a guess is right, if its source gives none."""


class Proposal(NamedTuple):
    """Possible next tokens of a sequence; the scheduler decides how many of them are computed."""

    forced: tuple[int, ...] = ()
    guessed: tuple[int, ...] = ()
    """After the forced ones."""
    chances: tuple[float, ...] = ()
    """Probability that each guess is right, given that those before it are; `ASSUMED_CHANCE` for missing ones."""
    source: SourceName | None = None
    """Source of the guesses, if there are any."""

    def draft(self, num_rows: int) -> Draft:
        """For a step in which the sequence gets `num_rows` rows, at least one."""
        return Draft((*self.forced, *self.guessed)[: num_rows - 1], self.forced[:num_rows])


class Draft(NamedTuple):
    """The part of a proposal that one step computes."""

    tokens: tuple[int, ...]
    """Computed after the sequence's last token."""
    forced: tuple[int, ...]
    """Taken without being drawn: the first of `tokens`, and possibly one after them."""

    @property
    def guessed(self) -> tuple[int, ...]:
        return self.tokens[len(self.forced) :]

    @property
    def num_drawn(self) -> int:
        """Rows from which a token is drawn: the last ones."""
        return len(self.tokens) + 1 - len(self.forced)


ONE_ROW = Draft((), ())
"""Nothing is computed after the last token."""
