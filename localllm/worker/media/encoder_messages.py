"""Frames between a worker and its encoder process; `worker.framing` puts them on a pipe. Plain data."""

from __future__ import annotations

import msgspec

from localllm.errors import ErrorInfo
from localllm.llama.library import CpuChoice


class _Frame(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Positional on the wire: both sides always have the same version."""


class Open(_Frame, frozen=True, tag=True, array_like=True):
    """The first frame: what to load. `Opened` or `Refused` follows, with id 0."""

    choice: CpuChoice
    plugin_dir: str
    """Empty: none."""
    needs: tuple[str, ...]
    """As for `library.load`."""
    model: str
    projector: str
    kind: str
    """Type of the projector that reads pictures."""
    device: str
    min_rows: int | None
    max_rows: int | None
    cut_s: float
    """As `AudioEncoder.cut_s`."""


class Source(msgspec.Struct, frozen=True, array_like=True):
    """A decoded picture, or a sound (no width) as float32 samples."""

    width: int
    height: int
    data: bytes


class Describe(_Frame, frozen=True, tag=True, array_like=True):
    """Which chunks this becomes. A picture needs no data, its size decides; a sound is kept for `Encode`."""

    id: int
    key: str
    source: Source


class Encode(_Frame, frozen=True, tag=True, array_like=True):
    """Compute chunk `first` of those with rows, and up to `count - 1` behind it if the type encodes several at once."""

    id: int
    key: str
    """Of the source: the process keeps the last ones."""
    source: Source | None
    """None: it should have it; otherwise it answers `Forgotten`."""
    first: int
    count: int
    threads: int


class Chunk(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """Tokens, or rows."""

    tokens: tuple[int, ...] = ()
    num_rows: int = 0
    num_positions: int = 0
    planes: bytes = b""
    """int32 in native byte order, shape (4, rows); empty: rows stand at consecutive positions."""
    is_causal: bool = True
    moves: bytes = b""
    """A byte for each number of `planes`; they are `engine.media.Planes`."""
    num_leading: int = 0
    is_numbered: bool = False
    """As in `engine.media.MediaRows`."""


class Opened(_Frame, frozen=True, tag=True, array_like=True):
    """The projector is loaded."""

    id: int
    sample_rate_hz: int
    """0: it reads no sounds."""


class Described(_Frame, frozen=True, tag=True, array_like=True):
    id: int
    chunks: tuple[Chunk, ...]


class Encoded(_Frame, frozen=True, tag=True, array_like=True):
    """Rows of one chunk or of several that follow each other, each as float32 in native byte order."""

    id: int
    rows: tuple[bytes, ...]
    seconds: float


class Forgotten(_Frame, frozen=True, tag=True, array_like=True):
    """The source has to be sent again."""

    id: int


class Refused(_Frame, frozen=True, tag=True, array_like=True):
    """The library refuses the file or the source."""

    id: int
    error: ErrorInfo


Down = Open | Describe | Encode
Up = Opened | Described | Encoded | Forgotten | Refused
