"""Which parts of an address range are free, and which of these already have pages.

    0        a            b         c                 d            size
    | taken  | free, ready| taken   | free, no pages  | free, ready|        runs: [a, b) [c, d) [d, size)

Half-open ranges of whole blocks. Pure bookkeeping: knows nothing of memory, threads or owners.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Run(NamedTuple):
    """A free range, uniformly ready or not."""

    start: int
    end: int
    is_ready: bool
    """Whether it has pages."""

    @property
    def size(self) -> int:
        return self.end - self.start

    def within(self, start: int, end: int) -> int:
        """How many of its bytes lie in that range."""
        return max(0, min(self.end, end) - max(self.start, start))


class Arena:
    """Neighbouring runs are merged where they are alike."""

    def __init__(self, size: int) -> None:
        """All of it free, without pages."""
        self.size = size
        self._runs = [Run(0, size, is_ready=False)] if size else []
        """Ascending."""

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(self._runs)

    @property
    def num_ready(self) -> int:
        """Free bytes that have pages."""
        return sum(run.size for run in self._runs if run.is_ready)

    @property
    def longest(self) -> int:
        """The longest contiguous free range."""
        return max((area[-1].end - area[0].start for area in self._areas()), default=0)

    def find(self, size: int) -> int | None:
        """Where to take `size` bytes: where most of them are ready; among equals from the smallest piece, then the
        lowest."""
        best: tuple[int, int, int] | None = None
        for area in self._areas():
            first, last = area[0].start, area[-1].end - size
            if first > last:
                continue
            starts = {first, last, *(run.start for run in area), *(run.end - size for run in area)}
            for start in starts:
                if first <= start <= last:
                    ready = sum(run.within(start, start + size) for run in area if run.is_ready)
                    best = min(best or (1, 0, 0), (-ready, area[-1].end - area[0].start, start))
        return None if best is None else best[2]

    def first_fresh(self, start: int, end: int) -> tuple[int, int] | None:
        """The first free part of the range that has no pages."""
        for run in self._runs:
            if not run.is_ready and run.within(start, end):
                return max(run.start, start), min(run.end, end)
        return None

    def ready_outside(self, start: int, end: int) -> Run | None:
        """The highest free run with pages outside that range."""
        for run in reversed(self._runs):
            if run.is_ready and run.end > end:
                return Run(max(run.start, end), run.end, is_ready=True)
            if run.is_ready and run.start < start:
                return Run(run.start, min(run.end, start), is_ready=True)
        return None

    def take(self, start: int, end: int) -> None:
        """Mark a free range as taken."""
        assert sum(run.within(start, end) for run in self._runs) == end - start, "it is not free"
        kept = []
        for run in self._runs:
            below, above = run._replace(end=min(run.end, start)), run._replace(start=max(run.start, end))
            kept += [part for part in (below, above) if part.size > 0]
        self._runs = kept

    def give(self, start: int, end: int, *, is_ready: bool) -> None:
        """Mark a taken range as free."""
        assert 0 <= start < end <= self.size
        assert not any(run.within(start, end) for run in self._runs), "it is free already"
        merged: list[Run] = []
        for run in sorted([*self._runs, Run(start, end, is_ready)]):
            if merged and merged[-1].end == run.start and merged[-1].is_ready == run.is_ready:
                merged[-1] = merged[-1]._replace(end=run.end)
            else:
                merged.append(run)
        self._runs = merged

    def mark(self, start: int, end: int, *, is_ready: bool) -> None:
        """Record that a free range has got or lost its pages."""
        self.take(start, end)
        self.give(start, end, is_ready=is_ready)

    def _areas(self) -> Iterator[list[Run]]:
        """Adjacent free runs, ready or not."""
        area: list[Run] = []
        for run in self._runs:
            if area and area[-1].end != run.start:
                yield area
                area = []
            area.append(run)
        if area:
            yield area
