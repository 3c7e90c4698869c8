"""How often a draft model's guesses are right, by its own probability for them: learned from every token that came.

    probability   0 ... 0.3 ... 0.5 ... 0.7 ... 0.85 ... 0.95 ... 0.99 ... 1
    level             0     1       2       3        4        5        6

A model's own probabilities refer to a text other than the one the target writes: another temperature, another model.
What counts is how often the target drew what was guessed. Knows nothing of models.
"""

from __future__ import annotations

from bisect import bisect_right

_BOUNDS = (0.3, 0.5, 0.7, 0.85, 0.95, 0.99)
ASSUMED = (0.2, 0.35, 0.5, 0.65, 0.78, 0.88, 0.93)
"""Assumed acceptance rate of each level of the draft's probability before anything was learned."""
ASSUMED_MEAN = 0.65
"""Assumed mean acceptance rate before anything was learned."""
FIRST_WEIGHT, MAX_WEIGHT = 4, 30
"""Number of tokens that a rate counts as the mean of: at first, and at most, so that recent tokens weigh more."""
TEACHING = 0.04
"""Weight of one token in what later sequences start with."""
_MEAN = len(ASSUMED)


class Trust:
    """Trust in the draft of one sequence or, as its `teacher`, of all sequences of a model."""

    __slots__ = ("_counts", "_rates", "_teacher")

    def __init__(self, teacher: Trust | None = None) -> None:
        self._rates: list[float] = [*ASSUMED, ASSUMED_MEAN] if teacher is None else list(teacher._rates)
        self._counts = [FIRST_WEIGHT] * len(self._rates)
        self._teacher = teacher

    @property
    def mean(self) -> float:
        """Probability that the next guess will be accepted, before it is made, given that those before it are."""
        return self._rates[_MEAN]

    def chance(self, probability: float) -> float:
        """Probability that a guess is accepted to which the draft assigns this probability."""
        return self._rates[bisect_right(_BOUNDS, probability)]

    def learn(self, probability: float, *, is_right: bool) -> None:
        """Record whether a token to which the draft assigned this probability was accepted."""
        for level in (bisect_right(_BOUNDS, probability), _MEAN):
            count = self._counts[level] + 1
            self._rates[level] += (is_right - self._rates[level]) / count
            self._counts[level] = min(count, MAX_WEIGHT)
            if self._teacher is not None:
                self._teacher._rates[level] += TEACHING * (is_right - self._teacher._rates[level])
