"""Projectors over which libmtmd would end its process are refused by their header."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localllm.errors import InvalidModelFile
from localllm.gguf.projectors import read_projector
from tests.models import raw
from tests.models.rarer_encoders import RARER, write_rarer
from tests.models.rekeyed import Rekeyed
from tests.models.sound_encoders import SOUNDS, write_sound_encoder

SIZES = {
    "lfm2a": {"width": 512, "heads": 8},
    "ultravox": {"width": 1280, "heads": 20, "hidden": 64},
    "granite_speech": {"width": 128},
}
"""The small default does not suit all."""
WRONG_KEYS: dict[str, dict[str, Any]] = {
    "granite4_vision": {
        "clip.vision.image_grid_pinpoints": None,
        "clip.vision.feature_layer": None,
        "clip.vision.projection_dim": 65,
        "clip.vision.projector.window_side": 7,
        "clip.vision.block_count": 1,
    },
    "granite_speech": {
        "clip.audio.chunk_size": 0,
        "clip.audio.max_pos_emb": 100,
        "clip.audio.projector.downsample_rate": 16,
        "clip.audio.projector.window_size": 20,
        "clip.audio.projector.head_count": 3,
    },
    "lfm2a": {"clip.audio.embedding_length": 256},
    "mimo_audio": {"clip.audio.block_count": 2, "clip.audio.window_size": 0, "clip.audio.local_group_size": 0},
    "mimovl": {"clip.vision.block_count": 2, "clip.vision.image_min_pixels": 0},
    "parakeet": {
        "clip.audio.subsampling_factor": 4,
        "clip.audio.conv_kernel_size": 8,
        "clip.audio.num_mel_bins": 80,
    },
}
LACKED = {
    "cogvlm": ("v.class_embd", "v.position_embd.weight", "v.patch_embd.weight"),
    "gemma4a": ("mm.a.input_projection.weight",),
    "lfm2a": ("a.position_embd.weight",),
    "parakeet": ("a.mel_filters", "a.window", "mm.a.norm_pre.weight"),
    "qwen2a": ("a.position_embd.weight", "a.blk.0.attn_q.bias"),
    "qwen3a": ("a.position_embd.weight",),
}
"""Tensors that are read unasked."""


def written(kind: str, path: Path) -> Path:
    write = write_sound_encoder if kind in SOUNDS else write_rarer
    return write(kind, path, **SIZES.get(kind, {}))


@pytest.mark.parametrize("kind", sorted({*SOUNDS, *RARER}))
def test_what_libmtmd_can_compute_is_accepted(kind: str, tmp_path: Path) -> None:
    info = read_projector(written(kind, tmp_path / "mmproj.gguf"))
    assert info.compute_bytes > 0
    assert info.width > 0 or kind in ("adapter", "resampler")


@pytest.mark.parametrize("kind", WRONG_KEYS)
def test_a_wrong_number_is_refused_in_words(kind: str, tmp_path: Path) -> None:
    path = written(kind, tmp_path / "mmproj.gguf")
    whole = Rekeyed(path.read_bytes())
    for name, value in WRONG_KEYS[kind].items():
        path.write_bytes(whole.having(name, None if value is None else raw.key(name, raw.U32, value)))
        with pytest.raises(InvalidModelFile) as refused:
            read_projector(path)
        assert len(refused.value.message) < 300, name


def test_frames_that_libmtmd_would_join_wrongly_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidModelFile, match="makes 188 rows, and ends its process unless there are 187"):
        read_projector(write_sound_encoder("ultravox", tmp_path / "mmproj.gguf", width=128))


@pytest.mark.parametrize("kind", LACKED)
def test_a_missing_tensor_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    path = written(kind, tmp_path / "mmproj.gguf")
    data = path.read_bytes()
    for tensor in LACKED[kind]:
        path.write_bytes(data.replace(tensor.encode(), b"x" + tensor.encode()[1:]))
        with pytest.raises(InvalidModelFile, match=tensor.replace(".", r"\.")):
            read_projector(path)
