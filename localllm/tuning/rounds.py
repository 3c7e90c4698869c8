"""Carries a search out: pairs by turns until it is decided or its time is over, then a check of the winner.

The clock and the bench are handed in, so that a simulated machine can be tuned. Knows no model and no process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from localllm.errors import LocalLLMError
from localllm.tuning.candidates import DEFAULT, Candidate
from localllm.tuning.comparing import Comparison, Pair, Rates
from localllm.tuning.search import PAIRS, Entry, Search

LEADING_SHARE, SEARCHING_SHARE = 0.7, 0.85
"""Of the time goes into rounds, with a winner to check and without."""


class Bench(Protocol):
    """What measures."""

    async def rates(self, candidate: Candidate, number: int, *, guesses: bool) -> Rates:
        """The speed of one run with the `number`-th prompts. Raises `LocalLLMError` where it cannot be loaded so."""


class CandidateFailed(Exception):
    """It cannot be loaded that way here, or died."""


class Rounds:
    """Used once."""

    def __init__(
        self, bench: Bench, clock: Callable[[], float], on_pair: Callable[[Candidate, Comparison], None]
    ) -> None:
        """`on_pair` is told how far a candidate is."""
        self._bench = bench
        self._clock = clock
        self._on_pair = on_pair
        self._number = 0
        self.defaults: list[Rates] = []
        """Of the default, without guessed tokens, in the order in which they were measured."""

    async def search(self, search: Search, began_s: float, total_s: float) -> bool:
        """Whether it came to its end before its time was over: that leaves enough for a check of who leads, and where
        nobody does for one of who may yet. Raises what the default fails with.
        """
        longest_s = 0.0
        while (entry := search.next()) is not None:
            share = LEADING_SHARE if search.winner() is not None else SEARCHING_SHARE
            now_s = self._clock()
            if now_s + longest_s > began_s + share * total_s:
                return False
            await self._visit(search, entry)
            longest_s = max(longest_s, self._clock() - now_s)
        return True

    async def check(self, candidate: Candidate, num_pairs: int, until_s: float) -> Comparison:
        """The candidate against the default again, so many times if there is time.

        Raises `CandidateFailed`, or what the default fails with.
        """
        comparison, longest_s = Comparison(), 0.0
        while len(comparison.pairs) < num_pairs:
            began_s = self._clock()
            if began_s + longest_s > until_s:
                break
            comparison.pairs.append(await self._pair(candidate))
            self._on_pair(candidate, comparison)
            longest_s = max(longest_s, self._clock() - began_s)
        return comparison

    async def _visit(self, search: Search, entry: Entry) -> None:
        for _ in range(PAIRS):
            try:
                pair = await self._pair(entry.candidate)
            except CandidateFailed as error:
                entry.failure = str(error)
                return
            search.observe(entry, pair)
            self._on_pair(entry.candidate, entry.comparison)

    async def _pair(self, candidate: Candidate) -> Pair:
        """Default and candidate, then candidate and default: what drifts cancels out, and fewer loads are needed."""
        self._number += 1
        if self._number % 2:
            default = await self._default(guesses=candidate.guesses)
            return Pair(default, await self._other(candidate))
        other = await self._other(candidate)
        return Pair(await self._default(guesses=candidate.guesses), other)

    async def _default(self, *, guesses: bool) -> Rates:
        rates = await self._bench.rates(DEFAULT, self._number, guesses=guesses)
        if not guesses:
            self.defaults.append(rates)
        return rates

    async def _other(self, candidate: Candidate) -> Rates:
        try:
            return await self._bench.rates(candidate, self._number, guesses=candidate.guesses)
        except LocalLLMError as error:
            raise CandidateFailed(error.message) from error
