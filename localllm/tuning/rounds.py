"""Carries out a search: alternating pairs until it is decided or time is up, then a check of the winner.

Clock and bench are passed in, so that a simulated machine can be tuned. Knows no model and no process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from localllm.errors import LocalLLMError
from localllm.tuning.candidates import DEFAULT, Candidate
from localllm.tuning.comparing import Comparison, Pair, Rates
from localllm.tuning.search import PAIRS, Contender, Search

LEADING_SHARE, SEARCHING_SHARE = 0.7, 0.85
"""Shares of the time for rounds: if there is a leader to check, and if there is none."""


class Bench(Protocol):
    """Takes measurements."""

    async def rates(self, candidate: Candidate, number: int, *, guesses: bool) -> Rates:
        """The speed of one run with the `number`-th prompts. Raises `LocalLLMError` if it cannot be loaded that
        way."""


class CandidateFailed(Exception):
    """It cannot be loaded that way here, or crashed."""


class Rounds:
    """Used once."""

    def __init__(
        self, bench: Bench, clock: Callable[[], float], on_pair: Callable[[Candidate, Comparison], None]
    ) -> None:
        """`on_pair` is called with a candidate's progress."""
        self._bench = bench
        self._clock = clock
        self._on_pair = on_pair
        self._number = 0
        self.defaults: list[Rates] = []
        """Rates of the default without guessed tokens, in the order of measurement."""

    async def search(self, search: Search, began_s: float, total_s: float) -> bool:
        """Whether it finished before its time was up. Enough time is left to check the leader, or, without one, the
        most promising candidate. Raises what the default fails with."""
        longest_s = 0.0
        while (contender := search.next()) is not None:
            share = LEADING_SHARE if search.winner() is not None else SEARCHING_SHARE
            now_s = self._clock()
            if now_s + longest_s > began_s + share * total_s:
                return False
            await self._visit(search, contender)
            longest_s = max(longest_s, self._clock() - now_s)
        return True

    async def check(self, candidate: Candidate, num_pairs: int, until_s: float) -> Comparison:
        """Measure the candidate against the default again, `num_pairs` times if time allows.

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

    async def _visit(self, search: Search, contender: Contender) -> None:
        for _ in range(PAIRS):
            try:
                pair = await self._pair(contender.candidate)
            except CandidateFailed as error:
                contender.failure = str(error)
                return
            search.observe(contender, pair)
            self._on_pair(contender.candidate, contender.comparison)

    async def _pair(self, candidate: Candidate) -> Pair:
        """Default and candidate, then candidate and default: cancels out drift, and needs fewer loads."""
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
