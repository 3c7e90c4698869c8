"""Which candidate is measured next, which ones are given up, and which one wins. Pure: fed with pairs of speeds.

    rounds        every candidate gets a few pairs against the default, then those that are left get more
    given up      what is clearly slower, or clearly no faster; of a setting's candidates the worse half each round
    together      the fastest of each setting that is faster, if there are several, as a candidate of their own

Candidates of different settings do not compete: both may be faster. Knows no clock, no model and no process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from localllm.tuning.candidates import Candidate, combined
from localllm.tuning.comparing import MIN_GAIN, Comparison, Pair

PAIRS = 2
"""Of a candidate in one round: default, candidate, candidate, default."""
LEAST_PAIRS = 4
"""Before a candidate is believed to be faster."""
MANY_PAIRS, MOST_PAIRS = 12, 60
"""After so many only those go on that seem to gain enough to matter; after so many nobody."""
HOPELESS = 0.8
"""A candidate that has so little of the default's speed in each pair of its first round gets no second one. One pair
would not do: other programs may hold up any.
"""

Verdict = Literal["faster", "slower", "no faster", "one-sided", "behind", "not clear", "open", "not measured", "failed"]
"""`open`: more rounds would tell more."""


@dataclass
class Entry:
    """A candidate with all that was measured of it."""

    candidate: Candidate
    comparison: Comparison = field(default_factory=Comparison)
    is_behind: bool = False
    """Another one for the same setting was faster in a round."""
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
        """Whether more measurements may tell more."""
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
        """In a word."""
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
    """`next` says what to measure, `observe` takes a pair, until `next` has nothing more to ask; then `winner`."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self.entries = [Entry(candidate) for candidate in candidates]
        self._together: Entry | None = None

    def next(self) -> Entry | None:
        """For a visit of up to `PAIRS` pairs: whoever has fewest, the most promising first."""
        live = [entry for entry in self.entries if entry.is_live]
        if live:
            return min(live, key=lambda entry: entry.num_pairs)
        if self._together is None:
            winners = self._winners()
            if len(winners) > 1:
                self._together = Entry(combined([entry.candidate for entry in winners]))
                self.entries.append(self._together)
                return self._together
        return None

    def observe(self, entry: Entry, pair: Pair) -> None:
        """One pair of it."""
        entry.comparison.pairs.append(pair)
        self._halve(entry.candidate.setting)

    def winner(self) -> Entry | None:
        """The fastest as far as is known; None: nothing is faster than the default."""
        faster = self._winners()
        if self._together is not None and self._together.is_faster:
            faster.append(self._together)
        return max(faster, key=lambda entry: entry.mean, default=None)

    def _winners(self) -> list[Entry]:
        """Of each setting the fastest that is faster than the default, and may be used."""
        best: dict[str, Entry] = {}
        for entry in self.entries:
            candidate = entry.candidate
            if entry is self._together or candidate.kv_type is not None or not entry.is_faster:
                continue
            there = best.get(candidate.setting)
            if there is None or entry.mean > there.mean:
                best[candidate.setting] = entry
        return list(best.values())

    def _halve(self, setting: str) -> None:
        """After a round of all that are left for this setting the worse half is given up."""
        left = [
            entry for entry in self.entries if entry.candidate.setting == setting and (entry.is_live or entry.is_faster)
        ]
        if len(left) < 2 or any(entry.num_pairs < PAIRS for entry in left):
            return
        if len({entry.num_pairs for entry in left if entry.is_live}) > 1:
            return
        if any(entry.num_pairs % PAIRS for entry in left):
            return
        left.sort(key=lambda entry: entry.mean, reverse=True)
        for entry in left[(len(left) + 1) // 2 :]:
            entry.is_behind = True
