"""Which bytes of a file have arrived, as half-open ranges, and their form in HTTP headers. Pure.

|####....######....|   of size 18: [0, 4) and [8, 14) have arrived, [4, 8) and [14, 18) are missing, the front is 4
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MIN_CHUNK_BYTES = 1024 * 1024
MAX_CHUNK_BYTES = 8 * 1024 * 1024
"""Requested at a time while the rate is unknown. Larger chunks save round trips; smaller ones let the hash follow
more closely."""
MAX_FAST_CHUNK_BYTES = 32 * 1024 * 1024
"""Requested at a time over a fast connection, where a round trip costs more bytes."""
CHUNK_S = 2.0
"""Target duration of a chunk, within those bounds: each chunk costs a round trip."""

_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)", re.ASCII | re.IGNORECASE)
_UNSATISFIED = re.compile(r"bytes \*/(\d{1,19})", re.ASCII | re.IGNORECASE)

Range = tuple[int, int]
"""[start, end)"""


class Ranges:
    """A set of integers, as sorted ranges that neither overlap nor touch."""

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in ranges:
            self.add(start, end)

    def add(self, start: int, end: int) -> None:
        """Adds a range, merging those it overlaps or touches. An empty range changes nothing."""
        if not 0 <= start <= end:
            raise ValueError(f"[{start}, {end}) is not a range")
        if start == end:
            return
        first = bisect_left(self._ends, start)
        after = bisect_right(self._starts, end)
        if first < after:
            start, end = min(start, self._starts[first]), max(end, self._ends[after - 1])
        self._starts[first:after] = [start]
        self._ends[first:after] = [end]

    def __iter__(self) -> Iterator[Range]:
        return iter(list(zip(self._starts, self._ends, strict=True)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"Ranges({list(self)})"

    @property
    def num_bytes(self) -> int:
        return sum(self._ends) - sum(self._starts)

    @property
    def front(self) -> int:
        """The first byte that is missing."""
        return self._ends[0] if self._starts and self._starts[0] == 0 else 0

    def missing(self, size: int) -> list[Range]:
        """The gaps in [0, size), in order."""
        edges = [0, *(edge for pair in self for edge in pair if edge < size), size]
        if len(edges) % 2:  # the last range reaches beyond the size
            edges.pop()
        return [(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True) if start < end]

    def within(self, size: int) -> Ranges:
        """The part within [0, size)."""
        return Ranges((start, min(end, size)) for start, end in self if start < size)


def chunk_bytes(bytes_per_s: float) -> int:
    """Bytes to request at a time over a connection with this rate."""
    return min(MAX_FAST_CHUNK_BYTES, max(MAX_CHUNK_BYTES, int(bytes_per_s * CHUNK_S)))


def next_chunk(held: Ranges, size: int, connections: int, most: int = MAX_CHUNK_BYTES) -> Range | None:
    """The next missing piece to request, or None; `held` is what has arrived or is on its way.

    A single connection requests the whole gap. With several, each requests at most `most` bytes, and less towards the
    end, so that they finish together and the hash is not far behind.
    """
    missing = held.missing(size)
    if not missing:
        return None
    start, end = missing[0]
    if connections == 1:
        return start, end
    num_missing = sum(end - start for start, end in missing)
    return start, min(end, start + max(MIN_CHUNK_BYTES, min(most, num_missing // (2 * connections))))


@dataclass(frozen=True)
class ContentRange:
    """`Content-Range: bytes START-LAST/TOTAL`, half-open here."""

    start: int
    end: int
    total: int | None
    """None if the server does not know it (`*`)."""


def parse_content_range(value: str | None) -> ContentRange | None:
    """Parses the header; None for anything but a valid byte range."""
    match = _CONTENT_RANGE.fullmatch(value.strip()) if value is not None else None
    if match is None:
        return None
    start, end = int(match[1]), int(match[2]) + 1
    total = None if match[3] == "*" else int(match[3])
    return ContentRange(start, end, total) if start < end and (total is None or end <= total) else None


def parse_unsatisfied(value: str | None) -> int | None:
    """The size in a 416's `Content-Range: bytes */SIZE`."""
    match = _UNSATISFIED.fullmatch(value.strip()) if value is not None else None
    return None if match is None else int(match[1])
