"""Turns a projector's checked header into a `ProjectorInfo`: what it reads, how many rows that takes, what it needs.

What libmtmd would refuse, or end its process over, is an error here. Knows nothing of devices and text models.
"""

from __future__ import annotations

import re
from pathlib import Path

from localllm.gguf.cursor import Source
from localllm.gguf.header import Header, read_header
from localllm.gguf.kinds import is_projector, text_of
from localllm.gguf.rules.clip_keys import ClipKeys
from localllm.gguf.rules.encoder_buffers import picture_bytes, sound_bytes
from localllm.gguf.rules.encoder_parts import check_picture_parts, check_sound_parts
from localllm.gguf.rules.pictures import NON_CAUSAL, picture_rows
from localllm.gguf.rules.sounds import CUT, sound_rows
from localllm.types import AudioEncoder, ProjectorInfo, VisionEncoder
from localllm.types.upstream import FILE_TYPES, GUESSED_FILE_TYPE

MAX_LAYERS = 1024
_DEEPSTACK = re.compile(r"v\.deepstack\.\d+\.fc1\.weight")
_LAST = (
    ("mm.a.input_projection.weight", 1),
    ("mm.a.mlp.3.weight", 1),
    ("mm.a.mlp.2.weight", 1),
    ("mm.a.fc.weight", 1),
    ("a.proj_linear.weight", 1),
    ("mm.model.mlp.3.weight", 1),
    ("mm.model.peg.0.bias", 0),
    ("mm.down.weight", 1),
    ("mm.merger.fc2.weight", 1),
    ("mm.model.fc.weight", 1),
    ("mm.input_projection.weight", 0),
    ("resampler.proj.weight", 0),
    ("adapter.linear.dense_4h_to_h.weight", 1),
    ("mm.2.weight", 1),
    ("mm.1.weight", 1),
)
"""A projector's last matrix, and which of its dimensions is the width of rows (`clip_n_mmproj_embd`); the first that
the file has."""


def read_projector(path: Path, most_rows: int | None = None, source: Source | None = None) -> ProjectorInfo:
    """Reads the header of one file; `source` as for `read_header`. Raises `ModelNotFound`, `LoadFailed`,
    `InvalidModelFile`."""
    return projector_info(read_header(path, source), most_rows)


def projector_info(header: Header, most_rows: int | None = None) -> ProjectorInfo:
    """Facts from the header. `most_rows`: the user's limit for one picture. Raises `InvalidModelFile`."""
    keys = ClipKeys(header)
    if not is_projector(header):
        keys.fail("it is not a projector (mmproj)")
    vision, audio, compute = None, None, 0
    if keys.flag("clip.has_vision_encoder"):
        vision, compute = _vision(keys, most_rows)
    if keys.flag("clip.has_audio_encoder") and (vision is None or vision.type != "gemma3nv"):
        audio, of_audio = _audio(keys)
        compute += of_audio
    if vision is None and audio is None:
        keys.fail("it has no encoder of pictures or sounds")
    return ProjectorInfo(
        name=text_of(header, "general.name"),
        file_type=_file_type(header),
        size_bytes=sum(tensor.n_bytes for tensor in header.tensors),
        num_parameters=sum(tensor.num_elements for tensor in header.tensors),
        width=_width(keys, vision),
        vision=vision,
        audio=audio,
        compute_bytes=compute,
    )


def _vision(keys: ClipKeys, most_rows: int | None) -> tuple[VisionEncoder, int]:
    kind = _kind(keys, "vision")
    rows = picture_rows(keys, kind, most_rows)
    _check_layers(keys, "vision")
    check_picture_parts(keys, kind)
    for key in ("clip.vision.image_mean", "clip.vision.image_std"):
        entry = keys.header.metadata.get(key)
        if entry is None or not isinstance(entry.value, tuple) or len(entry.value) < 3:
            keys.fail(f"{key} is not an array of three numbers", key)
    encoder = VisionEncoder(
        type=kind,
        image_size=keys.number("clip.vision.image_size", least=0),
        patch_size=keys.number("clip.vision.patch_size"),
        max_rows=rows.rows,
        span_rows=rows.span_rows,
        span_patches=rows.span_patches,
        is_causal=kind not in NON_CAUSAL,
    )
    return encoder, picture_bytes(keys, kind, rows)


def _audio(keys: ClipKeys) -> tuple[AudioEncoder, int]:
    kind = _kind(keys, "audio")
    found = sound_rows(keys, kind)
    _check_layers(keys, "audio")
    check_sound_parts(keys, kind)
    encoder = AudioEncoder(
        type=kind,
        sample_rate_hz=found.rate_hz,
        rows_per_s=found.piece_rows / found.piece_s,
        span_rows=found.piece_rows,
        cut_s=found.piece_s if kind in CUT else 0,
    )
    return encoder, sound_bytes(keys, kind, found)


def _kind(keys: ClipKeys, part: str) -> str:
    kind = keys.text("clip.projector_type") or keys.text(f"clip.{part}.projector_type")
    if not kind:
        keys.fail(f"it has no clip.{part}.projector_type")
    return kind


def _check_layers(keys: ClipKeys, part: str) -> None:
    keys.number(f"clip.{part}.block_count", least=0, most=MAX_LAYERS)
    keys.number(f"clip.{part}.attention.head_count", least=0, most=2**16)
    keys.number(f"clip.{part}.projection_dim", least=0)
    if f"clip.{part}.attention.layer_norm_epsilon" not in keys.header.metadata:
        keys.fail(f"it has no clip.{part}.attention.layer_norm_epsilon")


def _width(keys: ClipKeys, vision: VisionEncoder | None) -> int:
    """0: unknown, for types whose last matrix has another name."""
    kind = "" if vision is None else vision.type
    if kind == "granite4_vision":  # a row has a part for each of several layers of the text model
        return keys.number("clip.vision.projection_dim") * len(keys.numbers("clip.vision.feature_layer"))
    for name, dimension in _LAST:
        if (vision is None) != name.startswith(("a.", "mm.a.")) or not (shape := keys.shape(name)):
            continue
        if name == "mm.input_projection.weight" and kind in ("gemma4v", "gemma4uv"):
            dimension = 1
        if len(shape) <= dimension:
            keys.fail(f"tensor {name!r} has the impossible shape {list(shape)}")
        deepstack = sum(1 for each in keys.names if _DEEPSTACK.fullmatch(each)) if kind == "qwen3vl_merger" else 0
        return shape[dimension] * (1 + deepstack)
    return 0


def _file_type(header: Header) -> str | None:
    entry = header.metadata.get("general.file_type")
    number = None if entry is None else entry.value
    return FILE_TYPES.get(number & ~GUESSED_FILE_TYPE) if isinstance(number, int) else None
