"""What a picture or sound becomes in a prompt, before anything is encoded; and the pseudo ids of its rows.

An id is made from the content and everything its row depends on, so that equal rows have equal ids in any chat, also
after a restart, and different ones almost never do: two chunks of n rows agree with probability 2^-31n.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import msgspec
import numpy as np

from localllm.engine.media import MediaRows, Planes, RowSource
from localllm.types import ImageDetail, Media
from localllm.worker.media.encoder_messages import Chunk
from localllm.worker.prompts.prompt_parts import MediaPieces


class Layout(msgspec.Struct, frozen=True):
    """In the order of a prompt."""

    chunks: tuple[Chunk, ...]

    @property
    def spans(self) -> list[Chunk]:
        """The chunks with rows."""
        return [chunk for chunk in self.chunks if chunk.num_rows]


class Frame(msgspec.Struct, frozen=True):
    """A frame of a video, which is a picture of its own."""

    time_ms: int
    width: int
    height: int

    @property
    def stamp(self) -> str:
        """What the model reads before it."""
        seconds, rest = divmod(self.time_ms, 1000)
        hours, minutes = seconds // 3600, seconds // 60 % 60
        clock = f"{hours}:{minutes:02}" if hours else f"{minutes}"
        return f"[{clock}:{seconds % 60:02}{f'.{rest // 100}' if rest >= 100 else ''}]"


class MediaKey(NamedTuple):
    """What rows are made from, beside the projector."""

    digest: str
    detail: ImageDetail

    @classmethod
    def of(cls, media: Media) -> MediaKey:
        """`high` is what `auto` does: the most that the projector reads."""
        return cls(media.content, "low" if media.detail == "low" and media.kind == "image" else "auto")

    @classmethod
    def of_frame(cls, digest: str, frame: Frame) -> MediaKey:
        """The same in whatever selection of the video's frames it is."""
        return cls(f"{digest}@{frame.time_ms}-{frame.width}x{frame.height}", "auto")

    def __str__(self) -> str:
        return f"{self.digest}-{self.detail}"


def pieces(layout: Layout, context: str, key: MediaKey, sources: list[RowSource]) -> MediaPieces:
    """`context`: everything else that rows depend on, as a hash. `sources`: one for each chunk with rows."""
    made: list[tuple[int, ...] | MediaRows] = []
    remaining = iter(enumerate(sources))
    for chunk in layout.chunks:
        if not chunk.num_rows:
            made.append(chunk.tokens)
            continue
        index, source = next(remaining)
        made.append(
            MediaRows(
                row_ids(context, key, index, chunk.num_rows),
                chunk.num_positions,
                _planes(chunk),
                chunk.is_causal,
                source,
                chunk.num_leading,
                is_numbered=chunk.is_numbered,
            )
        )
    return tuple(made)


def row_ids(context: str, key: MediaKey, chunk: int, num_rows: int) -> tuple[int, ...]:
    """Negative and of 32 bits."""
    digest = hashlib.shake_128(f"{context}\0{key}\0{chunk}\0{num_rows}".encode()).digest(4 * num_rows)
    numbers = np.frombuffer(digest, "<u4").astype(np.int64) & 0x7FFFFFFF
    return tuple((-1 - numbers).tolist())


def _planes(chunk: Chunk) -> Planes | None:
    if not chunk.planes:
        return None
    shape = (4, chunk.num_rows)
    return Planes(np.frombuffer(chunk.planes, np.int32).reshape(shape), np.frombuffer(chunk.moves, bool).reshape(shape))
