"""How much faster one way of loading a model is than another, and how sure that is. Pure arithmetic.

Both are measured by turns, so that what slows the machine down for a while slows both. Of each pair the logarithm of
the ratio of their speeds is a sample; how far these are apart says how far their mean may be off (Student's t). Prompts
and answers count alike, as in `llama.attention`. Knows nothing of what is measured.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

Confidence = Literal["likely", "sure"]
_T: dict[Confidence, tuple[float, ...]] = {
    "likely": (
        6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753,
        1.746, 1.740, 1.734, 1.729, 1.725,
    ),
    "sure": (
        63.66, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947,
        2.921, 2.898, 2.878, 2.861, 2.845,
    ),
}  # fmt: skip
"""Quantiles of Student's distribution for 1, 2 ... degrees of freedom: one-sided, 95 % and 99.5 %."""
LEAST_SPREAD = 0.003
"""Of samples: a few that agree by chance say nothing."""
MIN_GAIN = 1.02
"""Less is not worth a setting."""
TOLERANCE = 0.98
"""Neither prompts nor answers may be slower than this share of the default, whatever the other gains."""
LEAST_CHECKED, MOST_CHECKED = 8, 40
"""Pairs of the last check."""
CHECKED_SHARE = 0.7
"""Of the gain in the rounds: who wins there is likely to have had luck."""
CHECK_QUANTILE = 3.3
"""About that of the check's confidence."""
TOO_NOISY = 0.15
"""Spread of the default's own speed from which on nothing that is measured is believed."""


class Rates(msgspec.Struct, frozen=True):
    """Tokens per second in one round: means over all depths."""

    prompt: float
    answer: float


class Pair(NamedTuple):
    """The default and another way, one right after the other, in whatever order."""

    default: Rates
    other: Rates


class Estimate(NamedTuple):
    """A logarithm of a ratio of speeds, and how far it may be off."""

    mean: float
    half_width: float

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width


def estimate(samples: Sequence[float], confidence: Confidence) -> Estimate:
    """The mean and its one-sided bound; of fewer than two samples nothing is known."""
    if len(samples) < 2:
        return Estimate(samples[0] if samples else 0.0, math.inf)
    quantiles = _T[confidence]
    quantile = quantiles[min(len(samples) - 1, len(quantiles)) - 1]
    return Estimate(statistics.fmean(samples), quantile * _spread(samples) / math.sqrt(len(samples)))


def _spread(samples: Sequence[float]) -> float:
    return max(statistics.stdev(samples), LEAST_SPREAD)


class Comparison:
    """All pairs of one way of loading against the default."""

    def __init__(self) -> None:
        self.pairs: list[Pair] = []

    def gain(self, confidence: Confidence) -> Estimate:
        """Of prompts and answers together."""
        return estimate(self.samples(), confidence)

    def samples(self) -> list[float]:
        """One of each pair."""
        return [(_prompt(pair) + _answer(pair)) / 2 for pair in self.pairs]

    @property
    def prompt_gain(self) -> float:
        """A logarithm, as `answer_gain`."""
        return statistics.fmean(map(_prompt, self.pairs)) if self.pairs else 0.0

    @property
    def answer_gain(self) -> float:
        return statistics.fmean(map(_answer, self.pairs)) if self.pairs else 0.0

    @property
    def is_one_sided(self) -> bool:
        """Prompts gain by what answers lose, or the other way round."""
        return min(self.prompt_gain, self.answer_gain) < math.log(TOLERANCE)

    @property
    def is_clearly_slower(self) -> bool:
        return self.gain("likely").high < 0.0

    @property
    def is_clearly_not_faster(self) -> bool:
        """There is no gain that would be worth it."""
        return self.gain("likely").high < math.log(MIN_GAIN)

    @property
    def is_clearly_faster(self) -> bool:
        """By enough, and in neither prompts nor answers slower."""
        gain = self.gain("sure")
        return gain.low > 0.0 and gain.mean > math.log(MIN_GAIN) and not self.is_one_sided

    def rates(self) -> Rates | None:
        """Of the other way: typical ones."""
        return typical([pair.other for pair in self.pairs])


def pairs_needed(found: Comparison) -> int:
    """For a check of what the rounds found: so many that a gain which is a little smaller than there still shows."""
    gain = found.gain("likely").mean
    if len(found.pairs) < 2 or gain <= 0:
        return MOST_CHECKED
    wanted = (CHECK_QUANTILE * _spread(found.samples()) / (CHECKED_SHARE * gain)) ** 2
    return max(LEAST_CHECKED, min(MOST_CHECKED, math.ceil(wanted)))


def holds(check: Comparison) -> bool:
    """Whether the winner of the rounds is faster in a check of its own too: one look at new measurements. In the rounds
    each of several candidates is looked at several times, so that one may win by chance.
    """
    return len(check.pairs) >= 2 and check.gain("sure").low > 0.0 and not check.is_one_sided


def typical(rates: Sequence[Rates]) -> Rates | None:
    """The median of each; None of none."""
    if not rates:
        return None
    return Rates(
        statistics.median(each.prompt for each in rates),
        statistics.median(each.answer for each in rates),
    )


def noise(rates: Sequence[Rates]) -> float:
    """How far equal rounds differ, relative to their speed: from one to the next, so that a slow drift, which both
    sides of a pair share, is none. 0 of fewer than three.
    """
    if len(rates) < 3:
        return 0.0
    speeds = [(math.log(each.prompt) + math.log(each.answer)) / 2 for each in rates]
    return math.sqrt(statistics.fmean((b - a) ** 2 for a, b in itertools.pairwise(speeds)) / 2)


def _prompt(pair: Pair) -> float:
    return math.log(pair.other.prompt / pair.default.prompt)


def _answer(pair: Pair) -> float:
    return math.log(pair.other.answer / pair.default.answer)
