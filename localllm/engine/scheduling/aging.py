"""Gives long-waiting sequences their turn, regardless of the rank of later arrivals.

Rank decides (class, priority, deadline, tokens had), but every fourth turn goes to the one that has waited longest, if
that is longer than `AGED_S`. So a request that is aged and has n older ones before it is taken within 4 (n + 1) turns,
even with priority 1000 against an endless stream of -1000; and the highest-ranked keep three of four turns even when
everyone has waited for minutes, which a rule "aged first" would take from them. Pure: the time is passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

AGED_S = 30.0
"""Waiting time after which a request takes part in the turns of the oldest; before that, only rank decides."""
EVERY = 4
"""One in this many turns is the oldest's."""

T = TypeVar("T")


class Turns:
    """Decides whose turn it is to enter a slot: by rank, or the oldest request."""

    def __init__(self) -> None:
        self._num_ranked = 0
        """Number of turns by rank since the oldest request had its turn."""

    @property
    def is_due(self) -> bool:
        """Whether the next turn is the oldest's, if any request is aged."""
        return self._num_ranked >= EVERY - 1

    def taken(self, *, as_oldest: bool) -> None:
        self._num_ranked = 0 if as_oldest else self._num_ranked + 1

    def order(self, ranked: Iterable[T], oldest_first: Callable[[], Iterable[T]]) -> Iterator[tuple[T, bool]]:
        """Each once, in the order in which to try them, and whether as the oldest.

        Respects what is `taken` in between. `oldest_first` gives the aged ones; it is called only if needed.
        """
        tried: set[int] = set()
        by_rank, by_age = iter(ranked), None
        while True:
            one = None
            if self.is_due:
                by_age = iter(oldest_first()) if by_age is None else by_age
                one = next((other for other in by_age if id(other) not in tried), None)
            as_oldest = one is not None
            if one is None:
                one = next((other for other in by_rank if id(other) not in tried), None)
            if one is None:
                return
            tried.add(id(one))
            yield one, as_oldest
