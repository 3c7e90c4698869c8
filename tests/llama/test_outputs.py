"""Rows of logits are bounded: llama.cpp makes room for no more, is asked for no more, and the plan counts them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pytest

from localllm.engine.backend import BackendError, Segment
from localllm.gguf import read_model_info
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Attention, Batching, KvMemory
from localllm.llama.model import LlamaModel
from localllm.planning.plan import compute_bytes, outputs_of, plan
from localllm.types import FlashAttn
from localllm.types.load_options import LoadOptions
from tests.llama.planned import allocated_mib
from tests.models.maker import write_llama

MIB = 2**20
OPTIONS = LoadOptions(ctx=512, slots=4, ubatch=512, flash_attn="on")


@contextmanager
def opened(
    loaded_library: library.Library,
    path: Path,
    max_outputs: int | None,
    *,
    num_cells: int | None = None,
    flash_attn: FlashAttn = "auto",
) -> Iterator[LlamaBackend]:
    model = LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)
    backend = open_backend(
        loaded_library,
        model,
        KvMemory(512, 4, num_cells=num_cells),
        Batching(512, max_outputs=max_outputs),
        threads=2,
        attention=Attention(flash_attn),
    )
    yield backend
    backend.free()
    model.close()


@pytest.mark.parametrize("num_cells", [None, 1024])
def test_more_rows_than_there_is_room_for_fail_their_batch_and_nothing_else(
    loaded_library: library.Library, tiny_model: Path, num_cells: int | None
) -> None:
    with opened(loaded_library, tiny_model, max_outputs=9, num_cells=num_cells) as backend:
        assert backend.decoder.max_outputs == 9
        others = [Segment(slot, 0, [5 + slot], num_outputs=1) for slot in (1, 2)]
        with pytest.raises(BackendError, match="10 rows of logits; at most 9 fit"):
            backend.decoder.decode([Segment(0, 0, [7] * 8, num_outputs=8), *others])
        assert [backend.cells.length(slot) for slot in range(4)] == [0] * 4
        backend.decoder.decode([Segment(0, 0, [7] * 7, num_outputs=7), *others])
        last = backend.decoder.logits(0)[-1].copy()
        assert np.isfinite(backend.decoder.logits(2)[-1]).all()
        backend.cells.truncate(0, 0)
        backend.decoder.decode([Segment(0, 0, [7] * 7, num_outputs=1)])
        assert np.abs(backend.decoder.logits(0)[-1] - last).max() < 1e-3


def test_every_slot_has_its_row(loaded_library: library.Library, tiny_model: Path) -> None:
    with opened(loaded_library, tiny_model, max_outputs=1) as backend:
        assert backend.decoder.max_outputs == 4
        backend.decoder.decode([Segment(slot, 0, [9] * 100, num_outputs=1) for slot in range(4)])
        assert np.isfinite(backend.decoder.logits(3)[-1]).all()


MIXED_MIB = 1.5
"""From 0.6 on two vectors of 256 numbers for each of 512 tokens; in models of real width they are within a tenth."""


def test_what_is_planned_for_logits_is_what_llama_cpp_makes_room_for(
    loaded_library: library.Library, tmp_path: Path
) -> None:
    path = write_llama(tmp_path / "words.gguf", vocab=20_000)
    info = read_model_info(path)
    placement = plan(info, OPTIONS, [])
    assert placement.max_outputs == outputs_of(info, OPTIONS) == 8 * 4 + 64
    made: list[float] = []
    for max_outputs in (placement.max_outputs, None):
        mark = loaded_library.log.mark()
        with opened(loaded_library, path, max_outputs=max_outputs, flash_attn="on") as backend:
            assert backend.decoder.max_outputs == (max_outputs or 512)
            lines = loaded_library.log.lines_since(mark)
        made.append(allocated_mib(lines, "compute", "output"))
    assert compute_bytes(info, OPTIONS, flash=True) / MIB == pytest.approx(made[0], rel=0.1, abs=MIXED_MIB)
    assert made[1] > 3 * made[0]


@pytest.mark.parametrize(("words", "rows"), [(0, 96), (320, 96), (60_000, 96), (152_000, 87), (256_000, 64)])
def test_rows_of_large_vocabularies_are_fewer(words: int, rows: int, tiny_model: Path) -> None:

    info = msgspec.structs.replace(read_model_info(tiny_model), vocabulary_size=words)
    assert outputs_of(info, OPTIONS) == rows
    assert outputs_of(info, LoadOptions(slots=4, ubatch=32)) == min(rows, 32)
