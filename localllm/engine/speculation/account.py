"""What drafting has won and lost, in time that was measured: who loses stops, whatever was expected.

Costs are learned step by step, and from few of them; the time between steps is the truth. Each number of streams has an
account. A drafted step adds what its tokens would have taken without, and takes off what it took; plain steps add a
little, so that drafting is tried again some day. Nothing is drafted on an empty one. Pure: knows nothing of clocks.
"""

from __future__ import annotations

from typing import NamedTuple

BEGINNING, MOST = 4.0, 8.0
"""Plain steps' time on an account at first, and at most."""
REFILL = 0.008
"""Of each plain step's time."""
WORST = 4.0
"""A step takes off so many plain steps' time at most: others may have had the cores."""
GAIN = 0.1
"""How much of the error one step changes of what a plain one takes."""


class _Account(NamedTuple):
    plain_s: float
    """A plain step, with all that is around it."""
    balance: float
    """In plain steps."""


class Accounts:
    """By number of streams."""

    def __init__(self) -> None:
        self._accounts: dict[int, _Account] = {}

    def allows(self, num_streams: int) -> bool:
        """Whether so many may be drafted for: what a plain step takes is known, and something is left."""
        account = self._accounts.get(num_streams)
        return account is not None and account.balance > 0

    def plain_s(self, num_streams: int) -> float:
        """What a plain step takes that `allows`."""
        return self._accounts[num_streams].plain_s

    def took(self, num_streams: int, num_tokens: int, seconds: float, *, is_drafted: bool) -> None:
        """From one step to the next, so many tokens of all streams together came of it."""
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
