"""How often a draft model's guesses are right, by how sure it is of them: learned from every token that came.

    probability   0 ... 0.3 ... 0.5 ... 0.7 ... 0.85 ... 0.95 ... 0.99 ... 1
    level             0     1       2       3        4        5        6

A model's own probabilities are those of another text than the target writes: another temperature, another model. What
counts is how often the target drew what was guessed. Knows nothing of models.
"""

from __future__ import annotations

from bisect import bisect_right

_BOUNDS = (0.3, 0.5, 0.7, 0.85, 0.95, 0.99)
ASSUMED = (0.2, 0.35, 0.5, 0.65, 0.78, 0.88, 0.93)
"""Of each level, before anything was learned."""
ASSUMED_MEAN = 0.65
"""Of any guess."""
FEWEST, MOST = 4, 30
"""A rate is taken for the mean of so many tokens at first, and of so many at most: later ones count more."""
TEACHING = 0.04
"""How much of what later sequences begin with one token changes."""
_MEAN = len(ASSUMED)


class Trust:
    """In the draft of one sequence, or, as its `teacher`, of all sequences of a model."""

    __slots__ = ("_counts", "_rates", "_teacher")

    def __init__(self, teacher: Trust | None = None) -> None:
        self._rates: list[float] = [*ASSUMED, ASSUMED_MEAN] if teacher is None else list(teacher._rates)
        self._counts = [FEWEST] * len(self._rates)
        self._teacher = teacher

    @property
    def mean(self) -> float:
        """The chance of a guess before it is made, if those before it are right."""
        return self._rates[_MEAN]

    def chance(self, probability: float) -> float:
        """Of a guess that the draft gives this probability."""
        return self._rates[bisect_right(_BOUNDS, probability)]

    def learn(self, probability: float, *, is_right: bool) -> None:
        """What the draft gave this probability came, or did not."""
        for level in (bisect_right(_BOUNDS, probability), _MEAN):
            count = self._counts[level] + 1
            self._rates[level] += (is_right - self._rates[level]) / count
            self._counts[level] = min(count, MOST)
            if self._teacher is not None:
                self._teacher._rates[level] += TEACHING * (is_right - self._teacher._rates[level])
