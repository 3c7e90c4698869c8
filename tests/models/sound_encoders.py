"""Projectors for sounds of several types, with layers of zeros: names and shapes as tools/mtmd asks for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.models.conformer_encoders import CONFORMERS
from tests.models.rarer_encoders import Keys, Made, Shapes, Size, layers, norm, pair, write_zeros

MELS = 128
STACK = 8
CHANNELS = 480


def _whisper(size: Size) -> Shapes:
    found = {name: shape for name, shape in layers(size, part="a").items() if not name.endswith("attn_k.bias")}
    found |= {"a.conv1d.1.weight": (size.width, MELS, 3), "a.conv1d.2.weight": (size.width, size.width, 3)}
    found |= {f"a.conv1d.{number}.bias": (size.width, 1) for number in (1, 2)}
    return found | {"a.position_embd.weight": (1500, size.width)} | norm("a.post_ln", size.width)


def _conv_stem(size: Size) -> Shapes:
    found: Shapes = {"a.conv_out.weight": (size.width, CHANNELS * MELS // 8)}
    for number in (1, 2, 3):
        found |= pair(f"a.conv2d.{number}", CHANNELS, 1 if number == 1 else CHANNELS, 3, 3)
    return found


def _dots3note(size: Size) -> Made:
    found = _conv_stem(size) | layers(size, part="a", rms=True) | norm("mm.a.norm_pre", size.width)
    return Made({}, found | pair("mm.a.mlp.1", size.width, size.width) | pair("mm.a.mlp.3", size.out, size.width))


def _glma(size: Size) -> Made:
    wide = 2 * size.width
    found = _whisper(size) | norm("mm.a.norm_pre", size.width) | {"v.boi": (size.out,), "v.eoi": (size.out,)}
    found |= pair("mm.a.mlp.1", wide, 4 * size.width) | pair("mm.a.mlp.2", size.out, wide)
    return Made({"projector.stack_factor": 4}, found)


def _meralion(size: Size) -> Made:
    wide, found = 5 * size.width, _whisper(size) | norm("mm.a.norm_pre", size.width * 15)
    found |= pair("mm.a.mlp.0", wide, 15 * size.width) | pair("mm.a.mlp.3", size.out, wide)
    found |= pair("mm.a.mlp.1", wide, wide) | pair("mm.a.mlp.2", wide, wide)
    return Made({"projector.stack_factor": 15}, found)


def _music_flamingo(size: Size) -> Made:
    return Made({}, _whisper(size) | pair("mm.a.mlp.1", size.out, size.width) | pair("mm.a.mlp.2", size.out, size.out))


def _qwen2a(size: Size) -> Made:
    return Made({}, _whisper(size) | pair("mm.a.fc", size.out, size.width))


def _qwen3a(size: Size) -> Made:
    found = layers(size, part="a") | {"a.position_embd.weight": (1500, size.width)} | norm("a.post_ln", size.width)
    found |= _conv_stem(size)
    return Made({}, found | pair("mm.a.mlp.1", size.width, size.width) | pair("mm.a.mlp.2", size.out, size.width))


def _ultravox(size: Size) -> Made:
    wide, stacked = 2 * size.width, STACK * size.width
    return Made(
        {"projector.stack_factor": STACK},
        _whisper(size)
        | {
            "mm.a.norm_pre.weight": (stacked,),
            "mm.a.mlp.1.weight": (2 * wide, stacked),
            "mm.a.norm_mid.weight": (wide,),
            "mm.a.mlp.2.weight": (size.out, wide),
        },
    )


SOUNDS: dict[str, Callable[[Size], Made]] = {
    **CONFORMERS,
    "dots3note_a": _dots3note,
    "glma": _glma,
    "meralion": _meralion,
    "musicflamingo": _music_flamingo,
    "qwen2.5o": _qwen2a,
    "qwen2a": _qwen2a,
    "qwen3a": _qwen3a,
    "ultravox": _ultravox,
}


def write_sound_encoder(kind: str, path: Path, **sizes: int) -> Path:
    """A file of this type."""
    size = Size(**sizes)
    made, keys = SOUNDS[kind](size), Keys({"num_mel_bins": MELS})
    return write_zeros(path, kind, "audio", size, made._replace(keys=keys | made.keys))
