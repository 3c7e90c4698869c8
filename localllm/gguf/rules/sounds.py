"""How many rows a sound becomes, by the projector's type: tools/mtmd/clip.cpp (`load_hparams`, `clip_n_output_tokens`)
and mtmd-audio.cpp. Knows nothing of memory.
"""

from __future__ import annotations

from typing import NamedTuple

from localllm.gguf.rules.clip_keys import ClipKeys

PIECE_S = 30
PIECES_S = {"dots3note_a": 60, "qwen3a": 8}
"""A longer sound is cut into pieces of this length; those of some types."""
WHISPER = ("glma", "meralion", "musicflamingo", "qwen2.5o", "qwen2a", "ultravox", "voxtral")
"""Types with Whisper's encoder, which fills every piece up to 30 seconds with silence."""
STACKED, HALVED = ("meralion", "ultravox", "voxtral"), ("musicflamingo", "qwen2.5o", "qwen2a", "voxtral")
"""Those that join frames, and those that average pairs."""
CUT = ("gemma4a", "gemma4ua", "granite_speech", "lfm2a", "mimo_audio", "parakeet")
"""Types of which libmtmd takes a sound whole, however long, so that its memory would grow with the square of that: we
cut it. gemma4a would be cut at 30 seconds sharp, and refuses a last piece of a few milliseconds."""
RATES = {"mimo_audio": 24_000}
"""Samples per second, where they are not 16,000."""
FRAMES_PER_ROW = {
    "dots3note_a": 8,
    "gemma4a": 4,
    "gemma4ua": 4,
    "lfm2a": 8,
    "parakeet": 8,
}
"""Frames of 10 ms in one row."""
CENTRED = ("lfm2a", "parakeet")
"""Types with a frame around the first and one around the last sample."""
TYPES = frozenset((*WHISPER, *FRAMES_PER_ROW, "granite_speech", "mimo_audio", "qwen3a"))
"""All that are known."""


class SoundRows(NamedTuple):
    """What sounds become."""

    rate_hz: int
    piece_rows: int
    """The most rows of one piece."""
    positions: int
    """Places of that piece in the encoder."""
    piece_s: int = PIECE_S
    """Length of the longest piece."""


def sound_rows(keys: ClipKeys, kind: str) -> SoundRows:
    """What the longest piece becomes. Raises `InvalidModelFile` for a type or numbers that libmtmd cannot use."""
    if kind not in TYPES:
        keys.fail(f"its projector is of the unknown type {kind[:60]!r}")
    piece_s, rate = PIECES_S.get(kind, PIECE_S), RATES.get(kind, 16_000)
    frames = piece_s * 100
    if kind in WHISPER:
        return SoundRows(rate, _whisper(keys, kind, frames), frames // 2)
    if kind == "qwen3a":
        return SoundRows(rate, 13 * piece_s, 13 * piece_s, piece_s)
    if kind == "granite_speech":
        window = keys.number("clip.audio.projector.window_size", most=2**13)
        rows = window // keys.number("clip.audio.projector.downsample_rate", most=2**13)
        return SoundRows(rate, -(-frames // 2 // window) * rows, frames // 2)
    if kind == "mimo_audio":
        rows = -(-frames // 4 // keys.number("clip.audio.local_group_size", most=2**13))
        return SoundRows(rate, rows, frames // 2 + 1)
    rows = -(-(frames + (kind in CENTRED)) // FRAMES_PER_ROW[kind])
    return SoundRows(rate, rows, rows, piece_s)


def _whisper(keys: ClipKeys, kind: str, frames: int) -> int:
    needs_factor = kind in (*STACKED, "glma")
    factor = keys.number("clip.audio.projector.stack_factor", None if needs_factor else 1, most=2**13)
    if kind == "glma":
        return frames // 2 // factor + 2
    rows = -(-frames // factor) // 2 if kind in STACKED else frames // 2
    return rows // 2 if kind in HALVED else rows
