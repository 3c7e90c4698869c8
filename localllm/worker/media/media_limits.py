"""How much of a picture, video or sound is read, and how many rows of it a model computes. Knows nothing of files."""

from __future__ import annotations

from typing import NamedTuple

from localllm.errors import InvalidParameter
from localllm.types import Media, MediaKind
from localllm.worker.media.layout import Layout
from localllm.worker.media.process_limits import DEFAULT_LIMITS, DecodingLimits

MAX_SPAN_BYTES = 200 * 10**6
"""Rows of one chunk, which travel in one frame."""
NAMES: dict[MediaKind, str] = {"image": "picture", "video": "video", "audio": "sound", "document": "document"}


class MediaLimits(NamedTuple):
    """Of one medium."""

    max_pixels: int
    max_s: float
    """Of a sound or video."""
    video_fps: float
    max_frames: int
    """Of a video."""
    ubatch_rows: int
    """Rows that the text model can compute in one ubatch."""
    width: int
    """Numbers in a row."""
    idle_s: float
    """A decoding process without work ends after so long."""
    decoding: DecodingLimits = DEFAULT_LIMITS
    num_decoders: int = 2
    """A large or hostile file delays no small one for longer than its own decoding."""
    files_bytes: int = 256 * 10**6
    """In memory: files, and decoded media that wait for their encoding, half each."""
    max_together_pixels: int = 32 * 10**6
    """Of a video's frames."""


def check_rows(layout: Layout, media: Media, limits: MediaLimits) -> None:
    """Raises `InvalidParameter` for more than the model can compute."""
    name = NAMES[media.kind]
    for span in layout.spans:
        if not span.is_causal and span.num_rows > limits.ubatch_rows:
            raise InvalidParameter(
                f"the {name} takes {span.num_rows} rows that must be computed together, and the model computes "
                f"{limits.ubatch_rows}; make it smaller, or load the model with a larger ubatch or a smaller "
                "image_max_tokens",
                param=media.param,
            )
        if span.num_rows * limits.width * 4 > MAX_SPAN_BYTES:
            raise InvalidParameter(
                f"the {name} takes {span.num_rows} rows; make it smaller, or set image_max_tokens",
                param=media.param,
            )
