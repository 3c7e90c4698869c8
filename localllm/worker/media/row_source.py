"""Rows of one chunk for one request: asked for by the engine, filled in by `encoding`. Knows nothing of processes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from localllm.errors import LocalLLMError
from localllm.types import Media
from localllm.worker.media.layout import Layout, MediaKey

if TYPE_CHECKING:
    from localllm.worker.media.encoding import Encoding

Rows = npt.NDArray[np.float32]


class Medium:
    """One picture, frame of a video, or sound of one request."""

    def __init__(
        self,
        media: Media,
        key: MediaKey,
        data: bytes | None,
        layout: Layout,
        is_wanted: Callable[[], bool],
        encoding: Encoding,
        *,
        num_before: int = 0,
    ) -> None:
        """`data`: the file; None if all rows are kept. `num_before`: chunks of the video's earlier frames."""
        self.media = media
        self.key = key
        self.num_before = num_before
        self.data = data
        self.is_wanted = is_wanted
        self.sources = [ChunkRows(self, index, span.num_rows, encoding) for index, span in enumerate(layout.spans)]


class ChunkRows:
    """Implements `engine.media.RowSource`."""

    def __init__(self, medium: Medium, index: int, num_rows: int, encoding: Encoding) -> None:
        self.medium = medium
        self.index = index
        self.num_rows = num_rows
        self.encode_s = 0.0
        """What its encoding took; 0 before, and if the rows were kept."""
        self.was_cached = False
        self._encoding = encoding
        self._lock = threading.Lock()
        self._rows: Rows | None = None
        self._failure: LocalLLMError | None = None
        self._waiting: list[Callable[[], None]] = []
        self.is_asked = False
        """Whether the engine wants it."""

    @property
    def rows(self) -> Rows | None:
        return self._rows

    @property
    def failure(self) -> LocalLLMError | None:
        return self._failure

    @property
    def is_settled(self) -> bool:
        """Whether there are rows or a failure."""
        return self._rows is not None or self._failure is not None

    def want(self, ready: Callable[[], None]) -> None:
        """As the protocol says; never slow."""
        with self._lock:
            is_settled, is_first = self.is_settled, not self.is_asked
            self.is_asked = True
            if not is_settled:
                self._waiting.append(ready)
        if is_settled:
            ready()
        elif is_first:
            self._encoding.want(self)

    def settle(
        self,
        rows: Rows | None,
        failure: LocalLLMError | None = None,
        *,
        encode_s: float = 0.0,
        was_cached: bool = False,
    ) -> None:
        """Called by `encoding`; the first call counts."""
        with self._lock:
            if self.is_settled:
                return
            self.encode_s, self.was_cached = encode_s, was_cached
            self._failure, self._rows = failure, rows
            waiting, self._waiting = self._waiting, []
        for ready in waiting:
            ready()
