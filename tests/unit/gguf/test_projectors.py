"""What a projector's header says, and that no header of one does harm."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFWriter

from localllm.errors import InvalidModelFile
from localllm.gguf.info import read_model_info
from localllm.gguf.projectors import read_projector
from localllm.gguf.rules import pictures, sounds
from localllm.gguf.rules.encoder_parts import CLASS, PATCHES, POSITIONS, WITH_CLASS, WITH_POSITIONS
from localllm.planning.projector_plan import misfit
from localllm.types import ProjectorInfo
from tests.models.maker import write_llama
from tests.models.media import KINDS, MediaModelKind, write_media_model
from tests.models.rarer_encoders import write_rarer
from tests.models.rekeyed import Rekeyed
from tests.unit.gguf.test_odd_metadata import FEW, VALUES

GEMMA = {"image_size": 896, "patch_size": 14}
CASES: list[tuple[str, dict[str, Any], int | None, tuple[int, int, int]]] = [
    ("mlp", {"image_size": 336, "patch_size": 14}, None, (576, 576, 576)),
    (
        "mlp",
        {"image_size": 336, "patch_size": 14, "image_grid_pinpoints": [336, 672, 672, 672]},
        None,
        (2880, 576, 576),
    ),
    ("gemma3", GEMMA, None, (256, 256, 4096)),
    ("gemma4v", {"image_size": 0, "patch_size": 16}, None, (1120, 1120, 10080)),
    ("gemma4v", {"image_size": 0, "patch_size": 16}, 280, (280, 280, 2520)),
    ("qwen2vl_merger", {"image_size": 560, "patch_size": 14}, None, (4096, 4096, 16384)),
    (
        "phi4",
        {"image_size": 512, "patch_size": 16, "image_min_pixels": 256, "image_max_pixels": 256 * 256},
        9,
        (256, 256, 256),
    ),
    ("pixtral", {"image_size": 1540, "patch_size": 14, "spatial_merge_size": 2}, None, (1058, 1058, 4096)),
    ("deepseek4v", {"image_size": 0, "patch_size": 14, "projector.scale_factor": 3}, None, (384, 384, 3456)),
    ("hunyuanvl", {"image_size": 2048, "patch_size": 16}, 256, (274, 274, 1024)),
    ("hunyuanvl", {"image_size": 2048, "patch_size": 16, "image_max_pixels": 512**2}, 9, (274, 274, 1024)),
    (
        "idefics3",
        {"image_size": 512, "patch_size": 16, "projector.scale_factor": 4, "preproc_image_size": 2048},
        None,
        (1088, 64, 1024),
    ),
    ("internvl", {"image_size": 448, "patch_size": 14, "projector.scale_factor": 2}, None, (3328, 256, 1024)),
    ("resampler", {"image_size": 448, "patch_size": 14}, None, (960, 96, 1024)),
]
"""Type, keys of `clip.vision`, limit of the user, and (rows of a picture, rows of a piece, its patches); those of
idefics3 and qwen2vl_merger were measured, the others are the models' own documentation."""


def projector_of(path: Path, kind: str, keys: dict[str, Any]) -> Path:
    """A header with the tensors that must be there."""
    writer = GGUFWriter(path, "clip")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", kind)
    for name in ("embedding_length", "feed_forward_length", "block_count", "attention.head_count", "projection_dim"):
        writer.add_uint32(f"clip.vision.{name}", 64)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-6)
    writer.add_array("clip.vision.image_mean", [0.5] * 3)
    writer.add_array("clip.vision.image_std", [0.5] * 3)
    for name, value in keys.items():
        (writer.add_array if isinstance(value, list) else writer.add_uint32)(f"clip.vision.{name}", value)
    needed = {PATCHES, *([CLASS] if kind in WITH_CLASS else []), *([POSITIONS] if kind in WITH_POSITIONS else [])}
    for name in sorted(needed):
        writer.add_tensor(name, np.zeros(1, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_the_rows_of_the_largest_picture_are_counted_as_libmtmd_makes_them(tmp_path: Path) -> None:
    for index, (kind, keys, most, expected) in enumerate(CASES):
        info = read_projector(projector_of(tmp_path / f"{index}.gguf", kind, keys), most)
        assert info.vision is not None
        assert (info.vision.max_rows, info.vision.span_rows, info.vision.span_patches) == expected, kind
        assert info.vision.is_causal == (not kind.startswith(("gemma", "deepseek4"))), kind


FACTS: dict[MediaModelKind, tuple[tuple[str, ...], int]] = {
    "mlp": (("image", "video"), 0),
    "gemma3": (("image", "video"), 16),
    "idefics3": (("image", "video"), 0),
    "qwen2vl": (("image", "video"), 0),
    "voxtral": (("audio",), 0),
    "omni": (("image", "video", "audio"), 0),
    "deepseek4v": (("image", "video"), 384),
    "hunyuanvl": (("image", "video"), 0),
}
"""What it reads, and how many rows it needs in one ubatch."""


@pytest.mark.parametrize("values", [FEW, pytest.param(tuple(VALUES), marks=pytest.mark.exhaustive)])
def test_whatever_a_key_holds_the_header_is_refused_in_words_or_says_what_it_reads(
    values: Collection[str], tmp_path: Path
) -> None:
    for kind in KINDS:
        path = write_media_model(kind, tmp_path).projector
        info = read_projector(path)
        assert (info.reads, info.ubatch_rows, info.width) == (*FACTS[kind], 64)
        whole = Rekeyed(path.read_bytes())
        for key in [key for key in whole.naive.written if key.startswith("clip.")]:
            for what in values:
                path.write_bytes(whole.having(key, VALUES[what](key)))
                check(path, f"{kind}: {key} {what}")


def check(path: Path, what: str) -> None:
    try:
        info = read_projector(path)
    except InvalidModelFile as error:
        if not error.details["reason"] or len(error.message) > 400:
            pytest.fail(f"{what}: {error.message}")
        return
    except Exception as error:  # noqa: BLE001  which is what this test looks for
        pytest.fail(f"{what}: {error!r}")
    assert isinstance(info, ProjectorInfo)
    assert info.reads
    assert 0 <= info.compute_bytes < 2**60
    if info.vision is not None:
        assert 0 < info.vision.span_rows <= info.vision.max_rows < 2**40
        assert info.vision.type in pictures.TYPES
    if info.audio is not None:
        assert 0 < info.audio.span_rows < 2**20
        assert info.audio.type in sounds.TYPES


def test_a_text_model_that_gets_parts_of_a_row_in_several_layers_reads_rows_of_that_width(tmp_path: Path) -> None:
    mapping = {"granite.deepstack_mapping": [-1, 1]}
    text = read_model_info(write_llama(tmp_path / "text.gguf", architecture="granite", extra=mapping))
    projector = read_projector(write_rarer("granite4_vision", tmp_path / "mmproj.gguf", out=64))
    assert (projector.width, text.input_length) == (128, 128)
    assert misfit(text, projector) == ""
