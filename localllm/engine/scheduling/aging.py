"""How those who have waited for long get their turn, whatever the rank of those who come after them.

Rank decides (priority, deadline, tokens had), but every fourth time whoever has waited longest is next, once that is
longer than `AGED_S`. So whoever is aged and has n older ones before it is taken within 4 (n + 1) times, a priority of
1000 against an endless stream of -1000 too; and those who rank first keep three of four places even where everybody
waits for minutes, which a rule "the aged come first" would take from them. Pure: the time is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

AGED_S = 30.0
"""Who has waited for so long takes part in the turns of the oldest. Until then rank alone decides."""
EVERY = 4
"""One of so many times it is the turn of the oldest."""

T = TypeVar("T")


class Turns:
    """Counts who was taken."""

    def __init__(self) -> None:
        self._num_ranked = 0
        """Taken by rank since the oldest had its turn."""

    @property
    def is_due(self) -> bool:
        """Whether it is the turn of the oldest, if anybody is aged."""
        return self._num_ranked >= EVERY - 1

    def taken(self, *, as_oldest: bool) -> None:
        self._num_ranked = 0 if as_oldest else self._num_ranked + 1

    def order(self, ranked: Iterable[T], oldest_first: Callable[[], Iterable[T]]) -> Iterator[tuple[T, bool]]:
        """Everybody once, in the order in which they are to be tried, and whether as the oldest.

        Follows what is `taken` in between. `oldest_first` gives those who are aged; it is called if that matters.
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
