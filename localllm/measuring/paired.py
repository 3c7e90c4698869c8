"""How much faster one way of computing is than another, and how certain that is. Pure arithmetic.

Both are timed by turns, so that a slowdown of the machine affects both. Other work only ever makes a pass slower, and
disturbs some passes, not all: of equal passes the faster ones count (`usual_s`), and how far the typical one lies above
the fastest is the error (`disturbance`). Gains are logarithms of ratios, so that twice as fast and half as fast cancel.

    self-test        (the fastest pass)           one thread each; a fixed factor decides
    speed probe      usual_s, disturbance         a noisy measurement is repeated later (`repeated`)
    flash attention  usual_s, disturbance, Gain   likewise
    thread trials    usual_s                      six steps a side; steps after the trial must confirm a gain
    tune             Gain from samples            whole runs, dozens of pairs: Student's t

Knows nothing of what is measured, and no bounds: those are with what decides.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

USUAL_SHARE, DISTURBED_FACTOR = 0.25, 1.2
"""The usual pass is the one slower than this share of them; if it took longer than the fastest by the second factor, it
was disturbed, and the fastest counts."""
LEAST_SPREAD = 0.003
"""Lower bound for the samples' spread: a few that agree by chance prove nothing."""

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
"""Quantiles of Student's t distribution for 1, 2 ... degrees of freedom: one-sided, 95 % and 99.5 %."""


class Gain(NamedTuple):
    """Logarithm of a ratio of speeds, with its error."""

    mean: float
    half_width: float

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width

    def is_above(self, factor: float) -> bool:
        """Whether it is certainly faster than `factor` times the other."""
        return self.low > math.log(factor)

    def is_below(self, factor: float) -> bool:
        """Whether it certainly does not reach `factor` times the other's speed."""
        return self.high < math.log(factor)


def gain_of(samples: Sequence[float], confidence: Confidence) -> Gain:
    """From the logarithms of the pairs' ratios: their mean and its one-sided bound; one sample says nothing."""
    if len(samples) < 2:
        return Gain(samples[0] if samples else 0.0, math.inf)
    quantiles = _T[confidence]
    quantile = quantiles[min(len(samples) - 1, len(quantiles)) - 1]
    return Gain(statistics.fmean(samples), quantile * sample_spread(samples) / math.sqrt(len(samples)))


def sample_spread(samples: Sequence[float]) -> float:
    """Standard deviation, for at least two samples.

    In floats: `statistics.stdev` adds fractions, which took most of the time of a tuning's decisions.
    """
    mean = statistics.fmean(samples)
    variance = math.fsum((sample - mean) ** 2 for sample in samples) / (len(samples) - 1)
    return max(math.sqrt(variance), LEAST_SPREAD)


def usual_s(seconds: Sequence[float]) -> float:
    """Duration of a pass that nothing disturbed, from those of equal ones."""
    ordered = sorted(seconds)
    usual = ordered[int(len(ordered) * USUAL_SHARE)]
    return usual if usual < DISTURBED_FACTOR * ordered[0] else ordered[0]


def disturbance(seconds: Sequence[float]) -> float:
    """How much longer the typical pass took than the fastest, relative."""
    ordered = sorted(seconds)
    return ordered[len(ordered) // 2] / ordered[0] - 1
