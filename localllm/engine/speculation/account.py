"""What drafting has gained and lost in measured time: drafting that loses time stops, even if it was predicted to pay.

Costs are learned step by step, and from few steps; the time between steps is the truth. Each number of streams has an
account. A drafted step adds what its tokens would have taken without drafts and deducts what it took; plain steps add a
little, so that drafting is eventually tried again. Nothing is drafted on an empty account. Pure: knows nothing of
clocks.
"""

from __future__ import annotations

from typing import NamedTuple

BEGINNING, MOST = 4.0, 8.0
"""Initial and highest balance, in durations of a plain step."""
REFILL = 0.008
"""Share of each plain step's time that is added."""
WORST = 4.0
"""A step deducts at most this many plain steps: others may have had the cores."""
GAIN = 0.1
"""Weight of one step's error in the learned duration of a plain step."""


class _Account(NamedTuple):
    plain_s: float
    """Duration of a plain step, including everything around it."""
    balance: float
    """In plain steps."""


class Accounts:
    """Accounts by number of streams."""

    def __init__(self) -> None:
        self._accounts: dict[int, _Account] = {}

    def allows(self, num_streams: int) -> bool:
        """Whether this many streams may be drafted for: a plain step's duration is known, and the balance is
        positive."""
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
                self._accounts[num_streams] = _Account(max(seconds, 1e-9), BEGINNING)
            return
        plain_s, balance = account
        if is_drafted:
            balance += max(num_tokens / num_streams - seconds / plain_s, -WORST)
        else:
            balance += REFILL
            if num_tokens == num_streams:
                plain_s += GAIN * (min(seconds, WORST * plain_s) - plain_s)
        self._accounts[num_streams] = _Account(plain_s, min(balance, MOST))
