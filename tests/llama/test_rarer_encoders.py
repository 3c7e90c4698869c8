"""Projectors of types of which few models exist: libmtmd loads them, and takes and makes what is planned."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from localllm.gguf.projectors import read_projector
from localllm.llama.library import Library
from localllm.llama.media.projector import Pixels, Projector, RowsChunk
from tests.models.rarer_encoders import RARER, STREAMS, write_rarer, write_vocabulary

MIB = 2**20
MOST = 256
"""The most rows of a picture, for types that read any size."""


class Largest(NamedTuple):
    """A picture with the most rows, and its largest call."""

    size: tuple[int, int]
    num_pieces: int = 1
    """Pieces that are encoded together."""


LARGEST = {
    "deepseekocr": Largest((5760, 640)),
    "deepseekocr2": Largest((1500, 1000), 6),
}
SHAPES = {
    "deepseekocr": {"width": 1024, "hidden": 4096, "heads": 16, "out": 256},
    "deepseekocr2": {"width": 896, "hidden": 3584, "heads": 14, "out": 256},
    "gemma3nv": {"out": 2048},
    "granite4_vision": {"width": 256, "hidden": 1024, "heads": 4, "out": 128},
    "yasa2": {"width": 96, "out": 256},
}
"""Sizes of real models, by which the parts compare that do not grow with the width."""
SIGLIP = {"width": 768, "hidden": 3072, "heads": 12, "out": 256}


@pytest.mark.parametrize(
    "kind", [kind if kind == "ldpv2" else pytest.param(kind, marks=pytest.mark.exhaustive) for kind in RARER]
)
def test_rarer_encoders_take_what_is_planned(loaded_library: Library, tmp_path: Path, kind: str) -> None:
    shape = SHAPES.get(kind, SIGLIP)
    file = write_rarer(kind, tmp_path / "mmproj.gguf", **shape)
    info = read_projector(file, MOST)
    assert info.vision is not None
    width = STREAMS * shape["out"] if kind == "granite4_vision" else shape["out"]
    assert info.width in (0, width)
    largest = LARGEST.get(kind, Largest((1500, 1500)))
    encoder = Projector(loaded_library, write_vocabulary(tmp_path / "text.gguf", width), file, kind=kind, max_rows=MOST)
    try:
        chunks = encoder.read(Pixels(*largest.size, bytes(3 * largest.size[0] * largest.size[1])))
        made = [each for each in chunks.layout() if isinstance(each, RowsChunk)]
        encoder.set_threads(2)
        mark = loaded_library.log.mark()
        first = 0 if largest.num_pieces > 1 else max(range(len(made)), key=lambda index: made[index].num_rows)
        rows = list(chunks.encode(first, largest.num_pieces))
        chunks.close()
    finally:
        encoder.close()
    lines = "\n".join(loaded_library.log.lines_since(mark))
    num_bytes = sum(int(float(each) * MIB) for each in re.findall(r"compute buffer size = +([\d.]+) MiB", lines))
    assert info.compute_bytes == pytest.approx(num_bytes, rel=0.1)
    assert [each.shape for each in rows] == [(each.num_rows, width) for each in made[first : first + len(rows)]]
    assert all(each.is_causal == info.vision.is_causal for each in made)
    assert 0.95 * info.vision.span_rows < max(each.num_rows for each in made) <= info.vision.span_rows
    num_rows = sum(each.num_rows for each in made)
    assert num_rows <= info.vision.max_rows
    assert kind == "step3vl" or 0.95 * info.vision.max_rows < num_rows, "step3vl's 36 tiles take long"
