"""What drafting has gained and lost in measured time: drafting that loses time stops, even if it was predicted to pay.

Costs are learned step by step, and from few steps; the time between steps is the truth. Each number of streams has an
account. A drafted step adds what its tokens would have taken without drafts and deducts what it took; plain steps add a
little, so that drafting is eventually tried again. Nothing is drafted on an empty account. Pure: knows nothing of
clocks.
"""

from __future__ import annotations

from typing import NamedTuple

FIRST_BALANCE, MAX_BALANCE = 4.0, 8.0
"""Initial and maximum balance, in durations of a plain step."""
REFILL_SHARE = 0.008
"""Share of each plain step's time that is added."""
MAX_STEP_COST = 4.0
"""A step deducts at most this many plain steps: others may have had the cores."""
GAIN = 0.1
"""Weight of one step's error in the learned duration of a plain step."""


class _Account(NamedTuple):
    plain_s: float
    """Duration of a plain step, including everything around it."""
    balance: float
    """Time that drafting may still lose, in durations of a plain step."""


class Accounts:
    """One account for each number of streams: whether drafting for so many has paid so far."""

    def __init__(self) -> None:
        self._accounts: dict[int, _Account] = {}

    def allows(self, num_streams: int) -> bool:
        """Whether drafting for this many streams is allowed: a plain step was measured, and the balance is positive."""
        account = self._accounts.get(num_streams)
        return account is not None and account.balance > 0

    def plain_s(self, num_streams: int) -> float:
        """Duration of a plain step; only where `allows` is true."""
        return self._accounts[num_streams].plain_s

    def took(self, num_streams: int, num_tokens: int, seconds: float, *, is_drafted: bool) -> None:
        """The time since the previous step was `seconds`, and the step produced `num_tokens` over all streams."""
        account = self._accounts.get(num_streams)
        if account is None:
            if not is_drafted and num_tokens == num_streams:
                self._accounts[num_streams] = _Account(max(seconds, 1e-9), FIRST_BALANCE)
            return
        plain_s, balance = account
        if is_drafted:
            balance += max(num_tokens / num_streams - seconds / plain_s, -MAX_STEP_COST)
        else:
            balance += REFILL_SHARE
            if num_tokens == num_streams:
                plain_s += GAIN * (min(seconds, MAX_STEP_COST * plain_s) - plain_s)
        self._accounts[num_streams] = _Account(plain_s, min(balance, MAX_BALANCE))
