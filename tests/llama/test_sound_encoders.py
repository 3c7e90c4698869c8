"""Projectors for sounds: libmtmd loads them, and takes and makes what is planned."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from localllm.gguf.projectors import read_projector
from localllm.llama.library import Library
from localllm.llama.media.projector import Projector, RowsChunk, Samples
from localllm.worker.media.cutting import cut_all
from tests.models.rarer_encoders import write_vocabulary
from tests.models.sound_encoders import SOUNDS, write_sound_encoder

MIB = 2**20
SIZES = {"width": 768, "hidden": 3072, "heads": 12, "out": 256}
OWN_SIZES = {
    "gemma4a": {"width": 256, "hidden": 1024, "heads": 4, "out": 256},
    "granite_speech": {"width": 1024, "hidden": 4096, "heads": 8, "out": 256},
    "lfm2a": {"width": 512, "hidden": 512, "heads": 8, "out": 256},
    "mimo_audio": {"width": 1024, "hidden": 4096, "heads": 16, "out": 256},
    "parakeet": {"width": 256, "hidden": 1024, "heads": 4, "out": 256},
    "ultravox": {"width": 1280, "hidden": 5120, "heads": 20, "out": 256},
}
"""Those of the types' own models, or smaller ones if convolutions before the layers take most."""


@pytest.mark.parametrize(
    "kind", [kind if kind == "qwen3a" else pytest.param(kind, marks=pytest.mark.exhaustive) for kind in SOUNDS]
)
def test_sound_encoders_take_what_is_planned(loaded_library: Library, tmp_path: Path, kind: str) -> None:
    sizes = OWN_SIZES.get(kind, SIZES)
    length_s = 60 if kind == "dots3note_a" else 59  # Whisper's pieces of 30 s are padded by a little
    file = write_sound_encoder(kind, tmp_path / "mmproj.gguf", **sizes)
    info = read_projector(file)
    assert info.audio is not None
    assert info.width == sizes["out"]
    encoder = Projector(loaded_library, write_vocabulary(tmp_path / "text.gguf", sizes["out"]), file, kind="")
    try:
        assert encoder.sample_rate == info.audio.sample_rate_hz
        silence = np.zeros(length_s * encoder.sample_rate, np.float32)
        parts = cut_all(silence, encoder.sample_rate, max_s=info.audio.cut_s) if info.audio.cut_s else [silence]
        chunks = encoder.read([Samples(each.tobytes()) for each in parts])
        pieces = [each.num_rows for each in chunks.layout() if isinstance(each, RowsChunk)]
        encoder.set_threads(1)
        mark = loaded_library.log.mark()
        (rows,) = chunks.encode(0, 1)
        chunks.close()
    finally:
        encoder.close()
    lines = "\n".join(loaded_library.log.lines_since(mark))
    num_bytes = sum(int(float(each) * MIB) for each in re.findall(r"compute buffer size = +([\d.]+) MiB", lines))
    assert info.compute_bytes == pytest.approx(num_bytes, rel=0.1)
    assert rows.shape == (info.audio.span_rows, sizes["out"])
    assert max(pieces) == info.audio.span_rows
    assert sum(pieces) == pytest.approx(length_s * info.audio.rows_per_s, rel=0.05)
