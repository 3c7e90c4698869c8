"""The size of libmtmd's compute buffers for the largest piece of a picture or sound, with flash attention.

Read off its graphs (tools/mtmd/clip.cpp, models/) and its log: `tests/llama/test_encoder_buffers.py`. A graph holds
most either in attention (five tensors of all places) or in the feed-forward part.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from localllm.gguf.rules.clip_keys import ClipKeys
from localllm.gguf.rules.pictures import BATCHED, PictureRows
from localllm.gguf.rules.sounds import SoundRows

F32, F16 = 4, 2
BATCH_ROWS = 1024
"""Equal pieces are encoded together up to this many rows: `batch_max_tokens` of mtmd_context_params."""
RAW_KEPT = ("adapter", "hunyuanvl", "ldp", "ldpv2", "mlp", "qwen3vl_merger", "resampler")
"""Types whose pixels stay in the buffer; all do that add no trained positions to patches."""
GAPS = 0.5, 1.5
"""Vectors for which pixels leave no room if positions are turned: in attention, and in the feed-forward part."""
GAPLESS = ("glm5v",)
"""Types whose positions are turned in place."""
MASKED = ("qwen2.5o", "qwen2.5vl_merger")
MASK_BYTES = 11
"""Of each pair of patches, where most layers see windows: one mask of F32 and several of F16."""
DETAIL_TILES = {"deepseekocr": (40, 9), "deepseekocr2": (48, 6)}
"""Types with an encoder of detail: places of a tile's side, and the most tiles if the file does not say."""
WHOLE_SIDE = 64
"""Places of a side of the whole picture, for these."""
SAMPLES = 640
"""Of one row of Gemma 4 without an encoder."""
ONE_MASK = ("minicpmv4_6",)
"""Types in which one layer sees windows: its mask is there in F32 and in F16."""


def picture_bytes(keys: ClipKeys, kind: str, of: PictureRows) -> int:
    """For `of`, the largest picture."""
    if kind in DETAIL_TILES:
        return _detail_bytes(keys, kind)
    if kind == "gemma3nv":
        return _mobile_bytes(keys)
    patches = of.span_patches
    if kind in BATCHED:
        patches *= max(1, BATCH_ROWS // of.span_rows)
    layer = _layer(keys, "vision")
    pixels = 3 * keys.number("clip.vision.patch_size", most=2**16 - 1) ** 2
    if kind == "gemma4uv":  # has no layers: pixels, and the same after a norm
        pixels *= keys.number("clip.vision.projector.scale_factor", 3, most=2**8) ** 2
        return F32 * patches * 2 * pixels
    if kind == "yasa2":  # a convolution sees a square of places at once, in F16
        kernel, channels = keys.shape("v.stage.0.blk.0.dw.weight"), keys.shape("v.patch_embd.weight")
        return patches * (channels or (0,))[-1] * (F16 * prod(kernel[:2]) + 2 * F32)
    if kind == "granite4_vision":  # results of several layers are needed in the end
        return F32 * patches * (7 * layer.width + layer.hidden + pixels // 3)
    if kind == "cogvlm":
        return F32 * patches * max(8 * layer.width, _gated_end(keys))
    if kind in ONE_MASK:
        return F32 * patches * layer.numbers(beside=3) + (F32 + F16) * patches**2
    if kind in MASKED:
        return F32 * patches * layer.numbers(beside=2) + MASK_BYTES * patches**2
    if "v.position_embd.weight" not in keys.names:
        return int(F32 * patches * layer.numbers_with(pixels, beside=2, gaps=(0, 0) if kind in GAPLESS else GAPS))
    if kind in RAW_KEPT:
        return int(F32 * patches * layer.numbers_with(pixels, beside=3))
    return F32 * patches * layer.numbers(beside=3)


def sound_bytes(keys: ClipKeys, kind: str, of: SoundRows) -> int:
    """For the longest piece. Whisper's places have two frames each; the first convolution sees three frames at once, in
    F16."""
    mels, frames = keys.number("clip.audio.num_mel_bins", most=2**10), 100 * of.piece_s
    if kind == "gemma4ua":  # has no layers: samples, and the same turned
        return 2 * F32 * of.positions * SAMPLES
    if kind == "granite_speech":
        return _granite_speech_bytes(keys, of.positions)
    if kind == "mimo_audio":
        return _mimo_bytes(keys, of.positions, mels)
    layer = F32 * of.positions * _layer(keys, "audio").numbers(beside=3)
    if kind == "gemma4a":
        return max(layer, _two_convolutions_bytes(keys, frames, mels))
    if kernel := keys.shape("a.conv1d.5.weight"):  # of which only the first has a result for every second frame
        kept = 2 * F32 * kernel[-1] * (frames // 2) * (mels // 2)
        return max(layer, kept + 4 * F32 * frames * mels)
    if kernel := keys.shape("a.conv2d.2.weight"):
        return max(layer, _picture_like_bytes(frames, mels, kernel[-1]))
    return max(layer, of.positions * mels * 2 * (F32 + 3 * F16))


def _two_convolutions_bytes(keys: ClipKeys, frames: int, mels: int) -> int:
    """Gemma 4's: the result of the first, 3 x 3 places of it at once, in F16, and the spectrum."""
    channels = (keys.shape("a.conv1d.1.weight") or (0,) * 3)[2]
    seen = F16 * 9 * channels * (frames // 4) * (mels // 4)
    return F32 * channels * (frames // 2) * (mels // 2) + seen + F32 * frames * mels


def _granite_speech_bytes(keys: ClipKeys, places: int) -> int:
    """Places see each other within blocks: their scores thrice, and a vector for each pair of places of a block."""
    layer = _layer(keys, "audio")
    context, heads = keys.number("clip.audio.chunk_size"), keys.number("clip.audio.attention.head_count")
    padded = -(-places // context) * context
    pairs = context**2 * (layer.width // heads)
    numbers = padded * (4 * layer.width + context * (3 * heads + 1)) + pairs
    return F32 * (numbers + places * keys.number("clip.audio.num_mel_bins"))


def _mimo_bytes(keys: ClipKeys, places: int, mels: int) -> int:
    """Masks of all pairs of places, of which half are left for the last layers; one codebook; and the layer, beside
    which the third one's result stays."""
    layer, (width, bins) = _layer(keys, "audio"), (*keys.shape("a.rvq.codebook.weight"), 0, 0)[:2]
    beside = 4 + (keys.number("clip.audio.block_count") > 3)
    numbers = places * (beside * layer.width + layer.hidden + 2 * mels) + width * bins
    return F32 * (numbers + 2 * places**2 + (places // 2) ** 2)


def _picture_like_bytes(frames: int, mels: int, channels: int) -> int:
    """Convolutions that halve both sides of the spectrum: the first's result twice, 3 x 3 places of it at once, in F16,
    and the spectrum twice."""
    seen = F16 * 9 * channels * (frames // 4) * (mels // 4)
    return 2 * F32 * channels * (frames // 2) * (mels // 2) + seen + 2 * F32 * frames * mels


def _detail_bytes(keys: ClipKeys, kind: str) -> int:
    """DeepSeek OCR's encoder of detail, whose scores of all pairs of places are a mask for each head, in F32 and F16.
    The tiles of one picture are together in one batch, or one line."""
    side, most = DETAIL_TILES[kind]
    heads, width = (keys.number(f"clip.vision.sam.{each}", most=2**16) for each in ("head_count", "embedding_length"))
    tiles = keys.number("clip.vision.preproc_max_tiles", most, most=256)

    def one(places: int) -> int:
        return (F32 + F16) * heads * places**2 + 5 * F32 * width * places

    return max(one(WHOLE_SIDE**2), tiles * one(side**2))


def _mobile_bytes(keys: ClipKeys) -> int:
    """MobileNet V5's widest convolution, which halves the side: what it sees, in F16, what goes in, and that padded."""
    side = keys.number("clip.vision.image_size") // 4
    kernel = keys.shape("v.blk.1.0.dw_mid.conv.weight") or (0,)
    seen = F16 * prod(kernel[:2]) * (side // 2) ** 2
    return kernel[-1] * (seen + F32 * ((side + kernel[0] - 2) ** 2 + side**2))


def _gated_end(keys: ClipKeys) -> int:
    """Numbers of the gated part behind the layers: it, its gate and the product, beside what goes in and comes out."""
    into, hidden = (*keys.shape("mm.up.weight"), 0, 0)[:2]
    return 3 * hidden + 2 * into


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
