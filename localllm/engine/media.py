"""Spans of a sequence that are pictures or sounds: rows of vectors from an encoder, where text has tokens.

In a sequence each row has a negative pseudo id, made from its content, so that prefixes are found, held, saved and
restored as those of text are. A span stands beside the ids and says what they do not: the rows themselves, the
positions they take, and whether they see each other. Knows nothing of files, encoders or of where rows come from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from localllm.errors import LocalLLMError


class RowSource(Protocol):
    """Rows that are computed elsewhere, when they are wanted: a cached prefix needs none of them."""

    def want(self, ready: Callable[[], None]) -> None:
        """Begin to compute the rows. `ready` is called once, on any thread, when there are rows or a failure; at once
        if there are already."""
        ...

    @property
    def rows(self) -> npt.NDArray[np.float32] | None:
        """Shape (rows of the span, width of the model's inputs); None: not yet."""
        ...

    @property
    def encode_s(self) -> float:
        """Time that it took to compute them, once they are there."""
        ...

    @property
    def was_cached(self) -> bool:
        """Whether they were there before, once they are there."""
        ...

    @property
    def failure(self) -> LocalLLMError | None:
        """Why there will be none."""
        ...


class Extent(NamedTuple):
    """Where a span stands of which a cache holds all or nothing, since its rows see each other or share positions."""

    start: int
    """Index of its first row."""
    end: int
    """Index after its last row."""
    num_positions: int
    shares_positions: bool
    """Whether several rows stand at one position, so that positions do not tell how many are there."""


class Planes(NamedTuple):
    """Where rows stand if a position is four numbers: time, y, x and one more (M-RoPE)."""

    numbers: npt.NDArray[np.int32]
    """Shape (4, rows), for a span whose first position is 0."""
    moves: npt.NDArray[np.bool_]
    """Of the same shape: what the span's first position is added to."""

    def at(self, position: int) -> npt.NDArray[np.int32]:
        """For a span whose first position is that one; shape (4, rows)."""
        return self.numbers + position * self.moves.astype(np.int32)

    def part(self, rows: slice) -> Planes:
        """Of these rows alone; the span is the same."""
        return Planes(self.numbers[:, rows], self.moves[:, rows])


class MediaRows(NamedTuple):
    """A span before it has a place: the rows of one picture, tile or piece of sound."""

    ids: tuple[int, ...]
    """Negative pseudo ids, one per row, made from the content, its place in it, and the encoder."""
    num_positions: int
    """Positions that the span takes; fewer than rows where a model counts in a plane (M-RoPE)."""
    planes: Planes | None
    """None: rows stand at consecutive positions."""
    is_causal: bool
    """False: all rows see each other, so they must be computed in one ubatch."""
    source: RowSource
    """Once its rows are there, they stay until it is dropped."""
    num_leading: int = 0
    """The first rows are padding: at index i, `i % (num_leading + 1)` of them are left out, so that the others begin at
    a multiple."""
    num_skipped: int = 0
    """How many of the source's rows are left out."""
    is_numbered: bool = False
    """Whether a number of the last plane that does not move is that of the picture in its sequence."""

    def ids_at(self, index: int) -> tuple[int, ...]:
        """The ids of a span that begins there."""
        return self.ids[index % (self.num_leading + 1) :]

    def placed(self, index: int, number: int) -> MediaRows:
        """The rows of a span that begins there, behind so many numbered ones.

        The tokens before a span decide both, so a cached prefix never holds the same ids with other rows or positions.
        """
        ids, planes = self.ids_at(index), self.planes
        num_skipped = len(self.ids) - len(ids)
        assert planes is None or not num_skipped, "padding in planes"
        if planes is not None and self.is_numbered and number:
            numbers = planes.numbers.copy()
            numbers[3] += number * ~planes.moves[3]
            planes = planes._replace(numbers=numbers)
        return self._replace(
            ids=ids, num_positions=self.num_positions - num_skipped, planes=planes, num_skipped=num_skipped
        )


class Span(NamedTuple):
    """Rows at their place in a sequence."""

    start: int
    """Index of the first row among the sequence's tokens; not its position where earlier spans took fewer positions
    than rows."""
    of: MediaRows

    @property
    def end(self) -> int:
        """Index after its last row."""
        return self.start + len(self.of.ids)

    @property
    def extent(self) -> Extent | None:
        """None where a cache can hold any number of its first rows: at consecutive positions, each sees those before
        it, as tokens do."""
        planes, count = self.of.planes, len(self.of.ids)
        shares_positions = planes is not None and not np.array_equal(planes.numbers[0], np.arange(count))
        if self.of.is_causal and not shares_positions:
            return None
        return Extent(self.start, self.end, self.of.num_positions, shares_positions)
