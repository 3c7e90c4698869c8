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


class MediaRows(NamedTuple):
    """A span before it has a place: the rows of one picture, tile or piece of sound."""

    ids: tuple[int, ...]
    """Negative pseudo ids, one per row, made from the content, its place in it, and the encoder."""
    num_positions: int
    """Positions that the span takes; fewer than rows where a model counts in a plane (M-RoPE)."""
    planes: npt.NDArray[np.int32] | None
    """Shape (4, rows): time, y, x and 0 of each row, relative to the span's first position. None: rows stand at
    consecutive positions."""
    is_causal: bool
    """False: all rows see each other, so they must be computed in one ubatch."""
    source: RowSource
    """Once its rows are there, they stay until it is dropped."""


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
        shares_positions = planes is not None and not np.array_equal(planes[0], np.arange(count))
        if self.of.is_causal and not shares_positions:
            return None
        return Extent(self.start, self.end, self.of.num_positions, shares_positions)
