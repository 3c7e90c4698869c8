"""A projector (mmproj) as its header describes it: the encoders that turn pictures and sounds into rows of vectors.

A file has one encoder for pictures, one for sounds, or both. Plain frozen data; counts of rows are upper bounds.
"""

from __future__ import annotations

import importlib.util

import msgspec

from localllm.types.conversation import MediaKind


class VisionEncoder(msgspec.Struct, frozen=True, kw_only=True):
    """What turns pictures into rows."""

    type: str
    """llama.cpp's name of the projector's kind, e.g. `gemma3`, `qwen2vl_merger`."""
    image_size: int
    """Side of a tile or of the trained picture, in pixels."""
    patch_size: int
    max_rows: int
    """The most rows that one picture takes in the context, all its tiles together, without tokens around them."""
    span_rows: int
    """The most rows of one piece of a picture: of a tile, or of the whole picture where it is not cut into tiles."""
    span_patches: int
    """Patches that the encoder computes together for such a piece."""
    is_causal: bool = True
    """False: the rows of a piece see each other, so the model must compute them in one ubatch."""


class AudioEncoder(msgspec.Struct, frozen=True, kw_only=True):
    """What turns sounds into rows."""

    type: str
    sample_rate_hz: int
    rows_per_s: float
    """Rows for each second of sound; pieces that are padded take more."""
    span_rows: int
    """The most rows of one piece of a sound."""
    cut_s: int = 0
    """A longer sound is cut by us, into pieces of at most this length; 0: llama.cpp cuts it."""


class ProjectorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A projector's file. Sizes are bytes."""

    name: str | None
    file_type: str | None
    """As `ModelInfo.file_type`, e.g. `F16`."""
    size_bytes: int
    """Tensor data."""
    num_parameters: int
    width: int
    """Numbers in one row: the embedding length of the text model, times one more than its deepstack layers. 0: unknown.
    """
    vision: VisionEncoder | None = None
    audio: AudioEncoder | None = None
    compute_bytes: int = 0
    """The encoders' compute buffers for the largest picture and sound, with flash attention."""

    @property
    def reads(self) -> tuple[MediaKind, ...]:
        """What it turns into rows: of videos, some frames, if what decodes them is installed."""
        seen: tuple[MediaKind, ...] = ("image", "video") if importlib.util.find_spec("av") else ("image",)
        return (*(seen if self.vision else ()), *(("audio",) if self.audio else ()))

    @property
    def ubatch_rows(self) -> int:
        """Rows that the text model must compute in one ubatch; 0: their number is free."""
        return 0 if self.vision is None or self.vision.is_causal else self.vision.span_rows
