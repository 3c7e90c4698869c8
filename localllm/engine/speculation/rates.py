"""How often guesses are right, by how many tokens before them agreed: learned from every token, computed or not.

The estimate for a wrong source falls with every token, and rises again as soon as it would have been right, without
anything having to be tried. Knows nothing of texts.
"""

from __future__ import annotations

from collections.abc import Iterable

DOUBTFUL = -1
"""Stands in for the number of agreeing tokens where the expected token was wrong the last time."""
MAX_MATCHES = 17
"""Maximum number of agreeing tokens that is distinguished."""
_LEVEL_OF = (0, 0, 1, 2, 2, *[3] * 4, *[4] * 8, 5, 6)
"""Maps agreeing tokens, up to `MAX_MATCHES`, and after that `DOUBTFUL`, to the level at which they are learned."""
ASSUMED = (0.2, 0.3, 0.45, 0.65, 0.8, 0.9, 0.2)
"""Assumed success rate of each level before anything was learned."""
FIRST_WEIGHT, MAX_WEIGHT = 3, 15
"""Number of tokens that a rate counts as the mean of: at first, and at most, so that recent tokens weigh more."""
TEACHING = 0.02
"""Weight of one token in the rates that later sequences start with."""


class Rates:
    """Rates of one source: of a sequence or, as its `teacher`, of all sequences of a model."""

    __slots__ = ("_by_level", "_counts", "_teacher")

    def __init__(self, teacher: Rates | None = None) -> None:
        self._by_level: list[float] = list(ASSUMED if teacher is None else teacher._by_level)
        self._counts = [FIRST_WEIGHT] * len(ASSUMED)
        self._teacher = teacher

    def learn(self, num_agreed: int, *, is_right: bool) -> None:
        """Record whether the token after `num_agreed` agreeing ones was the expected one."""
        level = _LEVEL_OF[min(num_agreed, MAX_MATCHES)]
        rates, count = self._by_level, self._counts[level] + 1
        rates[level] += (is_right - rates[level]) / count
        if count <= MAX_WEIGHT:
            self._counts[level] = count
        if self._teacher is not None:
            taught = self._teacher._by_level
            taught[level] += TEACHING * (is_right - taught[level])

    def chance(self, num_agreed: int) -> float:
        """Probability that the next token is the expected one."""
        return self._by_level[_LEVEL_OF[min(num_agreed, MAX_MATCHES)]]

    def chances(self, num_agreed: int, doubts: Iterable[int]) -> tuple[float, ...]:
        """Probability that each of the next tokens is right, given that those before it are. `doubts`: which are
        doubtful."""
        rates = self._by_level
        return tuple(
            [
                rates[DOUBTFUL if doubt else _LEVEL_OF[min(agreed, MAX_MATCHES)]]
                for agreed, doubt in enumerate(doubts, start=num_agreed)
            ]
        )
