"""How often guesses are right, by how much before them agreed: learned from every token, computed as a guess or not.

A source that is wrong is believed less with every token, and more again as soon as it would have been right: nothing
has to be tried for that. Knows nothing of texts.
"""

from __future__ import annotations

from collections.abc import Iterable

DOUBTFUL = -1
"""In place of how many tokens agreed: where another one stood the last time."""
LONGEST = 17
"""Agreement beyond so many tokens says no more."""
_LEVEL_OF = (0, 0, 1, 2, 2, *[3] * 4, *[4] * 8, 5, 6)
"""Tokens that agreed, up to `LONGEST`, and behind that `DOUBTFUL`, to the level that they are learned as."""
ASSUMED = (0.2, 0.3, 0.45, 0.65, 0.8, 0.9, 0.2)
"""Of each level, before anything was learned."""
FEWEST, MOST = 3, 15
"""A rate is taken for the mean of so many tokens at first, and of so many at most: later ones count more."""
TEACHING = 0.02
"""How much of the rates that later sequences begin with one token changes."""


class Rates:
    """Of one source: of a sequence, or, as its `teacher`, of all sequences of a model."""

    __slots__ = ("_by_level", "_counts", "_teacher")

    def __init__(self, teacher: Rates | None = None) -> None:
        self._by_level: list[float] = list(ASSUMED if teacher is None else teacher._by_level)
        self._counts = [FEWEST] * len(ASSUMED)
        self._teacher = teacher

    def learn(self, num_agreed: int, *, is_right: bool) -> None:
        """The token after so many that agreed was the expected one, or not."""
        level = _LEVEL_OF[min(num_agreed, LONGEST)]
        rates, count = self._by_level, self._counts[level] + 1
        rates[level] += (is_right - rates[level]) / count
        if count <= MOST:
            self._counts[level] = count
        if self._teacher is not None:
            taught = self._teacher._by_level
            taught[level] += TEACHING * (is_right - taught[level])

    def chance(self, num_agreed: int) -> float:
        """That the next token is the expected one."""
        return self._by_level[_LEVEL_OF[min(num_agreed, LONGEST)]]

    def chances(self, num_agreed: int, doubts: Iterable[int]) -> tuple[float, ...]:
        """Of the next tokens, each that it is right if those before it are. `doubts`: which of them are doubtful."""
        rates = self._by_level
        return tuple(
            [
                rates[DOUBTFUL if doubt else _LEVEL_OF[min(agreed, LONGEST)]]
                for agreed, doubt in enumerate(doubts, start=num_agreed)
            ]
        )
