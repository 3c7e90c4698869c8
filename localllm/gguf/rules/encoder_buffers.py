"""The size of libmtmd's compute buffers for the largest piece of a picture or sound, with flash attention.

Read off its graphs (tools/mtmd/clip.cpp, models/) and its log: `tests/llama/test_encoder_buffers.py`. A graph holds
most either in attention (five tensors of all places) or in the feed-forward part.
"""

from __future__ import annotations

from localllm.gguf.rules.clip_keys import ClipKeys
from localllm.gguf.rules.pictures import BATCHED, PictureRows

F32, F16 = 4, 2
BATCH_ROWS = 1024
"""Equal pieces are encoded together up to this many rows: `batch_max_tokens` of mtmd_context_params."""
RAW_KEPT = ("mlp", "qwen2.5o", "qwen2.5vl_merger", "qwen2vl_merger", "qwen3vl_merger")
"""Types whose pixels stay in the buffer."""
MASKED = ("qwen2.5o", "qwen2.5vl_merger")
MASK_BYTES = 11
"""Of each pair of patches, where most layers see windows: one mask of F32 and several of F16."""


def picture_bytes(keys: ClipKeys, kind: str, of: PictureRows) -> int:
    """For `of`, the largest picture."""
    patches = of.span_patches
    if kind in BATCHED:
        patches *= max(1, BATCH_ROWS // of.span_rows)
    pixels = 3 * keys.number("clip.vision.patch_size", most=2**16 - 1) ** 2 if kind in RAW_KEPT else 0
    beside = 2 if kind == "qwen2vl_merger" else 3
    masks = MASK_BYTES * patches**2 if kind in MASKED else 0
    return F32 * patches * _layer_numbers(keys, "vision", beside, pixels) + masks


def sound_bytes(keys: ClipKeys, positions: int) -> int:
    """`positions`: places of the largest piece in the encoder. Whisper's have two frames each; the first convolution
    sees three frames at once, in F16."""
    frames = keys.number("clip.audio.num_mel_bins", most=2**10) * 2 * (F32 + 3 * F16)
    return positions * max(F32 * _layer_numbers(keys, "audio", 3, 0), frames)


def _layer_numbers(keys: ClipKeys, part: str, beside: int, pixels: int) -> int:
    """The most numbers for each place. `beside`: vectors that the feed-forward part keeps; `pixels`: those that stay,
    unless a vector fits into their place."""
    width = keys.number(f"clip.{part}.embedding_length", most=2**20)
    hidden = keys.number(f"clip.{part}.feed_forward_length", least=0, most=2**20)
    gated = any(name.startswith(f"{part[0]}.blk.0.ffn_gate.") for name in keys.names)
    forward = beside * width + hidden * (1 + gated)
    if pixels < width:
        return max(5 * width, forward) + pixels
    return max(4 * width + pixels, forward)
