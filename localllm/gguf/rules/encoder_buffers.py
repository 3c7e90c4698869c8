"""The size of libmtmd's compute buffers for the largest piece of a picture or sound, with flash attention.

Read off its graphs (tools/mtmd/clip.cpp, models/) and its log: `tests/llama/test_encoder_buffers.py`. A graph holds
most either in attention (five tensors of all places) or in the feed-forward part.
"""

from __future__ import annotations

from typing import NamedTuple

from localllm.gguf.rules.clip_keys import ClipKeys
from localllm.gguf.rules.pictures import BATCHED, PictureRows

F32, F16 = 4, 2
BATCH_ROWS = 1024
"""Equal pieces are encoded together up to this many rows: `batch_max_tokens` of mtmd_context_params."""
RAW_KEPT = ("hunyuanvl", "mlp", "qwen3vl_merger")
"""Types whose pixels stay in the buffer; all do that add no trained positions to patches."""
GAPS = 0.5, 1.5
"""Vectors for which pixels leave no room if positions are turned: in attention, and in the feed-forward part."""
MASKED = ("qwen2.5o", "qwen2.5vl_merger")
MASK_BYTES = 11
"""Of each pair of patches, where most layers see windows: one mask of F32 and several of F16."""


def picture_bytes(keys: ClipKeys, kind: str, of: PictureRows) -> int:
    """For `of`, the largest picture."""
    patches = of.span_patches
    if kind in BATCHED:
        patches *= max(1, BATCH_ROWS // of.span_rows)
    layer = _layer(keys, "vision")
    pixels = 3 * keys.number("clip.vision.patch_size", most=2**16 - 1) ** 2
    if kind in MASKED:
        return F32 * patches * layer.numbers(beside=2) + MASK_BYTES * patches**2
    if "v.position_embd.weight" not in keys.names:
        return int(F32 * patches * layer.numbers_with(pixels, beside=2, gaps=GAPS))
    if kind in RAW_KEPT:
        return int(F32 * patches * layer.numbers_with(pixels, beside=3))
    return F32 * patches * layer.numbers(beside=3)


def sound_bytes(keys: ClipKeys, positions: int) -> int:
    """`positions`: places of the largest piece in the encoder. Whisper's have two frames each; the first convolution
    sees three frames at once, in F16."""
    frames = keys.number("clip.audio.num_mel_bins", most=2**10) * 2 * (F32 + 3 * F16)
    return positions * max(F32 * _layer(keys, "audio").numbers(beside=3), frames)


class _Layer(NamedTuple):
    """Numbers for each place."""

    width: int
    hidden: int
    """Of the feed-forward part; where a gate multiplies it, with that and the product."""

    def numbers(self, beside: int) -> int:
        """The most at a time. `beside`: vectors that the feed-forward part keeps."""
        return max(5 * self.width, beside * self.width + self.hidden)

    def numbers_with(self, pixels: int, beside: int, gaps: tuple[float, float] = (0, 0)) -> float:
        """The same if these stay, whose place is used again if a vector fits into it; `gaps`: if none does."""
        if pixels >= self.width:
            return max(4 * self.width + pixels, beside * self.width + self.hidden)
        attention, forward = gaps
        return pixels + max((5 + attention) * self.width, (beside + forward) * self.width + self.hidden)


def _layer(keys: ClipKeys, part: str) -> _Layer:
    hidden = keys.number(f"clip.{part}.feed_forward_length", least=0, most=2**20)
    gated = any(name.startswith(f"{part[0]}.blk.0.ffn_gate.") for name in keys.names)
    return _Layer(keys.number(f"clip.{part}.embedding_length", most=2**20), hidden * (3 if gated else 1))
