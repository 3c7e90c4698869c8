"""What a projector is planned to need is what libmtmd allocates for the largest picture or sound."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from localllm.gguf.projectors import read_projector
from localllm.llama.library import Library
from localllm.llama.media.projector import Pixels, Projector, RowsChunk, Samples
from localllm.types import ProjectorInfo
from tests.models.encoders import EncoderKind, write_encoder
from tests.models.media import MediaModel, MediaModelKind

MIB = 2**20
SIZES: dict[EncoderKind, tuple[int, int]] = {"deepseek4v": (1920, 288)}
"""Of the largest picture; of most types it may be a square."""
MOST = 256
"""The most rows of a picture, for a type that has no limit of its own: more would take long."""


def allocated(
    library: Library, model: Path, projector: Path, info: ProjectorInfo, size: tuple[int, int]
) -> tuple[int, int]:
    """Bytes of the compute buffer, and rows, of a large picture or a long sound."""
    encoder = Projector(library, model, projector, kind="", max_rows=MOST)
    try:
        sound = Samples(np.zeros(31 * 16_000, np.float32).tobytes())
        chunks = encoder.read([sound] if info.vision is None else Pixels(*size, bytes(3 * size[0] * size[1])))
        rows = sum(each.num_rows for each in chunks.layout() if isinstance(each, RowsChunk))
        encoder.set_threads(2)
        mark = library.log.mark()
        chunks.encode(0, 1)
        chunks.close()
    finally:
        encoder.close()
    lines = "\n".join(library.log.lines_since(mark))
    assert "flash attention is enabled" in lines
    sizes = re.findall(r"compute buffer size = +([\d.]+) MiB", lines)
    return sum(int(float(size) * MIB) for size in sizes), rows


@pytest.mark.parametrize(
    "kind", ["idefics3", *(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in get_args(EncoderKind))]
)
def test_encoders_of_real_widths_take_what_is_planned(
    loaded_library: Library, tmp_path: Path, kind: EncoderKind, media_model: Callable[[MediaModelKind], MediaModel]
) -> None:
    tiny = media_model(kind)
    wide = write_encoder(kind, tmp_path / f"mmproj-{kind}.gguf")
    wider = write_encoder(kind, tmp_path / f"mmproj-{kind}-wider.gguf", width=1152, hidden=4304, heads=16)
    for projector in (tiny.projector, wide, wider):
        info = read_projector(projector, MOST)
        num_bytes, rows = allocated(loaded_library, tiny.model, projector, info, SIZES.get(kind, (640, 640)))
        assert info.compute_bytes == pytest.approx(num_bytes, rel=0.1, abs=0.2 * MIB)
        if info.vision is not None:
            assert 0.95 * info.vision.max_rows < rows <= info.vision.max_rows
        else:
            assert info.audio is not None
            assert rows == 2 * info.audio.span_rows, "31 seconds are two pieces, and the second is filled up"
