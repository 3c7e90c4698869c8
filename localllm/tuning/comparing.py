"""How much faster one way of loading a model is than another, and how certain that is. Pure arithmetic.

Both are measured alternately (`measuring.paired`). A sample is the logarithm of the ratio of a pair's speeds, in which
prompts and answers have equal weight, as in `llama.probes.flash_attention`. Knows nothing of what is measured.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from localllm.measuring.paired import Confidence, Gain, gain_of, sample_spread

MIN_GAIN = 1.02
"""Smaller gains are not worth a setting."""
TOLERANCE = 0.98
"""Neither prompts nor answers may fall below this share of the default's speed, whatever the other gains."""
LEAST_CHECKED, MOST_CHECKED = 8, 40
"""Pairs in the final check."""
CHECKED_SHARE = 0.7
"""Share of the gain in the rounds that the check expects: a winner of rounds has probably been lucky."""
CHECK_QUANTILE = 3.3
"""Approximately the quantile of the check's confidence."""
TOO_NOISY = 0.15
"""Spread of the default's own speed above which no measurement is trusted."""


class Rates(msgspec.Struct, frozen=True):
    """Tokens per second in one round: means over all depths."""

    prompt: float
    answer: float


class Pair(NamedTuple):
    """The default and a candidate, measured back to back in either order."""

    default: Rates
    other: Rates


class Comparison:
    """All pairs of one candidate against the default."""

    def __init__(self) -> None:
        self.pairs: list[Pair] = []

    def gain(self, confidence: Confidence) -> Gain:
        """Gain of prompts and answers together."""
        return gain_of(self.samples(), confidence)

    def samples(self) -> list[float]:
        """One for each pair."""
        return [(_prompt(pair) + _answer(pair)) / 2 for pair in self.pairs]

    @property
    def prompt_gain(self) -> float:
        """A logarithm, like `answer_gain`."""
        return statistics.fmean(map(_prompt, self.pairs)) if self.pairs else 0.0

    @property
    def answer_gain(self) -> float:
        return statistics.fmean(map(_answer, self.pairs)) if self.pairs else 0.0

    @property
    def is_one_sided(self) -> bool:
        """Whether prompts gain what answers lose, or the other way round."""
        return min(self.prompt_gain, self.answer_gain) < math.log(TOLERANCE)

    @property
    def is_clearly_slower(self) -> bool:
        return self.gain("likely").is_below(1.0)

    @property
    def is_clearly_not_faster(self) -> bool:
        """Whether any worthwhile gain can be ruled out."""
        return self.gain("likely").is_below(MIN_GAIN)

    @property
    def is_clearly_faster(self) -> bool:
        """Whether the gain is large enough, and neither prompts nor answers are slower."""
        gain = self.gain("sure")
        return gain.is_above(1.0) and gain.mean > math.log(MIN_GAIN) and not self.is_one_sided

    def rates(self) -> Rates | None:
        """Typical rates of the candidate."""
        return typical([pair.other for pair in self.pairs])


def pairs_needed(found: Comparison) -> int:
    """Pairs for the check of a winner: enough to show a gain somewhat smaller than that of the rounds."""
    gain = found.gain("likely").mean
    if len(found.pairs) < 2 or gain <= 0:
        return MOST_CHECKED
    wanted = (CHECK_QUANTILE * sample_spread(found.samples()) / (CHECKED_SHARE * gain)) ** 2
    return max(LEAST_CHECKED, min(MOST_CHECKED, math.ceil(wanted)))


def holds(check: Comparison) -> bool:
    """Whether the winner of the rounds is also faster in its check, which looks once at new measurements. In the rounds
    several candidates are each looked at several times, so one may win by chance."""
    return len(check.pairs) >= 2 and check.gain("sure").is_above(1.0) and not check.is_one_sided


def typical(rates: Sequence[Rates]) -> Rates | None:
    """The medians of prompts and of answers; None without rates."""
    if not rates:
        return None
    return Rates(
        statistics.median(each.prompt for each in rates),
        statistics.median(each.answer for each in rates),
    )


def noise(rates: Sequence[Rates]) -> float:
    """Relative spread between successive equal rounds. Differences of neighbours, so that a slow drift, which both
    sides of a pair share, does not count. 0 for fewer than three rounds."""
    if len(rates) < 3:
        return 0.0
    speeds = [(math.log(each.prompt) + math.log(each.answer)) / 2 for each in rates]
    return math.sqrt(statistics.fmean((b - a) ** 2 for a, b in itertools.pairwise(speeds)) / 2)


def _prompt(pair: Pair) -> float:
    return math.log(pair.other.prompt / pair.default.prompt)


def _answer(pair: Pair) -> float:
    return math.log(pair.other.answer / pair.default.answer)
