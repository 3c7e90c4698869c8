"""Which candidate is measured next, which are dropped, and which one wins. Pure: fed with pairs of speeds.

    rounds        every candidate gets a few pairs against the default, then the remaining ones get more
    dropped       whatever is clearly slower, or clearly not faster; each round the worse half of a setting's candidates
    together      the fastest candidate of each setting that is faster, combined into one more candidate

Candidates of different settings do not compete: several may be faster. Knows no clock, no model and no process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from localllm.tuning.candidates import Candidate, combined
from localllm.tuning.comparing import MIN_GAIN, Comparison, Pair

PAIRS = 2
"""Pairs of a contender in one round: default, candidate, candidate, default."""
LEAST_PAIRS = 4
"""Pairs before a contender may count as faster."""
MANY_PAIRS, MOST_PAIRS = 12, 60
"""After the first number of pairs, only contenders whose gain seems to matter continue; after the second, none."""
HOPELESS = 0.8
"""A contender that reaches less than this share of the default's speed in every pair of its first round is dropped. Not
after one pair: another program may slow down any single one."""

Verdict = Literal["faster", "slower", "no faster", "one-sided", "behind", "not clear", "open", "not measured", "failed"]
"""`open`: more rounds would be informative."""


@dataclass
class Contender:
    """A candidate with all that was measured of it."""

    candidate: Candidate
    comparison: Comparison = field(default_factory=Comparison)
    is_behind: bool = False
    """Another contender for the same setting was faster in a round."""
    failure: str = ""
    """Why it cannot be measured."""

    @property
    def num_pairs(self) -> int:
        return len(self.comparison.pairs)

    @property
    def mean(self) -> float:
        """Its gain, as a logarithm."""
        return self.comparison.gain("likely").mean

    @property
    def is_live(self) -> bool:
        """Whether further measurements may be informative."""
        if self.failure or self.is_behind or self.num_pairs >= MOST_PAIRS:
            return False
        if self.num_pairs < PAIRS:
            return True
        if self.is_hopeless:
            return False
        if self.num_pairs >= MANY_PAIRS and self.mean < math.log(MIN_GAIN):
            return False
        return not self.comparison.is_clearly_not_faster and not self.is_faster

    @property
    def is_hopeless(self) -> bool:
        return self.num_pairs == PAIRS and max(self.comparison.samples()) < math.log(HOPELESS)

    @property
    def is_faster(self) -> bool:
        return not self.failure and self.num_pairs >= LEAST_PAIRS and self.comparison.is_clearly_faster

    @property
    def verdict(self) -> Verdict:
        """The result in a word."""
        comparison = self.comparison
        if self.failure:
            return "failed"
        if not comparison.pairs:
            return "not measured"
        if self.is_faster:
            return "faster"
        if comparison.is_clearly_slower or self.is_hopeless:
            return "slower"
        if self.is_behind:
            return "behind"
        if comparison.is_clearly_not_faster:
            return "no faster"
        if self.is_live:
            return "open"
        return "one-sided" if comparison.is_one_sided and self.mean > 0 else "not clear"


class Search:
    """`next` says what to measure and `observe` takes a pair, until `next` returns None; then ask for the `winner`."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self.contenders = [Contender(candidate) for candidate in candidates]
        self._together: Contender | None = None

    def next(self) -> Contender | None:
        """Measure up to `PAIRS` pairs of it: the contender with the fewest pairs, the most promising one first."""
        live = [contender for contender in self.contenders if contender.is_live]
        if live:
            return min(live, key=lambda contender: contender.num_pairs)
        if self._together is None:
            winners = self._winners()
            if len(winners) > 1:
                self._together = Contender(combined([contender.candidate for contender in winners]))
                self.contenders.append(self._together)
                return self._together
        return None

    def observe(self, contender: Contender, pair: Pair) -> None:
        """Record one pair."""
        contender.comparison.pairs.append(pair)
        self._halve(contender.candidate.setting)

    def winner(self) -> Contender | None:
        """The fastest as far as known; None: nothing is faster than the default."""
        faster = self._winners()
        if self._together is not None and self._together.is_faster:
            faster.append(self._together)
        return max(faster, key=lambda contender: contender.mean, default=None)

    def _winners(self) -> list[Contender]:
        """For each setting the fastest contender that beats the default and may be used."""
        best: dict[str, Contender] = {}
        for contender in self.contenders:
            candidate = contender.candidate
            if contender is self._together or candidate.kv_type is not None or not contender.is_faster:
                continue
            there = best.get(candidate.setting)
            if there is None or contender.mean > there.mean:
                best[candidate.setting] = contender
        return list(best.values())

    def _halve(self, setting: str) -> None:
        """Drop the worse half of a setting's contenders once all of them have finished a round."""
        remaining = [
            contender
            for contender in self.contenders
            if contender.candidate.setting == setting and (contender.is_live or contender.is_faster)
        ]
        if len(remaining) < 2 or any(contender.num_pairs < PAIRS for contender in remaining):
            return
        if len({contender.num_pairs for contender in remaining if contender.is_live}) > 1:
            return
        if any(contender.num_pairs % PAIRS for contender in remaining):
            return
        remaining.sort(key=lambda contender: contender.mean, reverse=True)
        for contender in remaining[(len(remaining) + 1) // 2 :]:
            contender.is_behind = True
