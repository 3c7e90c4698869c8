"""The spans of media rows in one sequence, in order, and where it may be cut.

    tokens   t t t [r r r r] t t [r r] t t t        borders: where a row follows a token or a token a row
                   ^ start ^ end

A decode computes tokens or rows, so its parts end at borders. A cache is cut anywhere but within an `Extent`. Knows
nothing of where rows come from.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from localllm.engine.backend import MediaPart
from localllm.engine.media import Extent, Span


class Spans:
    """Immutable; false where there are none."""

    __slots__ = ("_starts", "all", "extents")

    def __init__(self, spans: Sequence[Span] = ()) -> None:
        """Raises `ValueError` if they overlap or are out of order."""
        self.all = tuple(spans)
        self._starts = [span.start for span in self.all]
        ends = [0, *(span.end for span in self.all)]
        if any(start < end for start, end in zip(self._starts, ends, strict=False)):
            raise ValueError("spans overlap, or are not in the order of the sequence")
        self.extents = tuple(extent for span in self.all if (extent := span.extent) is not None)

    def __bool__(self) -> bool:
        return bool(self.all)

    @property
    def end(self) -> int:
        """Index after the last row."""
        return self.all[-1].end if self.all else 0

    def at(self, index: int) -> Span | None:
        """The span to which the row at this index belongs; None: a token is there."""
        place = bisect_right(self._starts, index) - 1
        return self.all[place] if place >= 0 and index < self.all[place].end else None

    def num_alike(self, index: int, end: int) -> int:
        """How many tokens from there, or how many rows of one span, come before `end`."""
        span = self.at(index)
        if span is not None:
            return min(end, span.end) - index
        place = bisect_right(self._starts, index)
        return min(end, self._starts[place] if place < len(self._starts) else end) - index

    def tokens_before(self, index: int) -> int:
        """How many tokens stand directly before that index."""
        place = bisect_right(self._starts, index) - 1
        return index if place < 0 else max(0, index - self.all[place].end)

    def cuts(self, length: int) -> bool:
        """Whether a span goes on beyond the first `length` tokens."""
        span = self.at(length)
        return span is not None and span.start < length

    def outside(self, length: int) -> int:
        """That length, or the start of the span that it would cut."""
        span = self.at(length)
        return length if span is None else span.start

    def beyond(self, length: int) -> int:
        """That length, or the end of the span that it would cut."""
        span = self.at(length)
        return length if span is None or span.start == length else span.end

    def after(self, length: int) -> Iterable[Span]:
        """Those with rows behind the first `length` tokens."""
        return (span for span in self.all if span.end > length)

    def pauses(self, apart: int) -> list[int]:
        """The ends of spans that the next one does not follow within fewer than `apart` tokens."""
        starts = [*self._starts[1:], self.end + apart]
        return [span.end for span, start in zip(self.all, starts, strict=True) if start - span.end >= apart]

    def part(self, start: int, end: int) -> MediaPart | None:
        """What a decode needs of the rows `[start, end)` of one span; None: tokens are there.

        The span's rows are there.
        """
        span = self.at(start)
        if span is None:
            return None
        assert end <= span.end, "a decode across the border of a span"
        of, rows = span.of, span.of.source.rows
        assert rows is not None, "rows that are not there"
        part = slice(start - span.start, end - span.start)
        planes = None if of.planes is None else of.planes.part(part)
        return MediaPart(rows[of.num_skipped :][part], planes, of.is_causal, span.extent)

    def shifted(self, keep: int, drop: int) -> Spans:
        """Of the sequence without `drop` tokens after the first `keep`, which cut no span."""
        kept = [span for span in self.all if span.end <= keep]
        moved = [span._replace(start=span.start - drop) for span in self.all if span.start >= keep + drop]
        return Spans([*kept, *moved])


NO_SPANS = Spans()


def text_of(tokens: Sequence[int]) -> list[int]:
    """The tokens without pseudo ids."""
    return [token for token in tokens if token >= 0]


def outside(length: int, extents: Iterable[Extent]) -> int:
    """That length, or the start of the extent that it would cut."""
    return next((extent.start for extent in extents if extent.start < length < extent.end), length)


def begun(extents: Iterable[Extent], length: int) -> tuple[Extent, ...]:
    """Those that begin among the first `length` tokens."""
    return tuple(extent for extent in extents if extent.start < length)
