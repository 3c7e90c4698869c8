"""A decode that is interrupted anywhere loses what it was computing and nothing else, on every kind of memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from localllm.engine.backend import Segment
from localllm.engine.sequence import Sequence
from localllm.llama import interrupts, library
from localllm.llama.context import LlamaBackend
from localllm.llama.model import LlamaModel
from tests.llama.test_kv_reuse import GREEDY, Recorder, assert_as_fresh, prompt_of
from tests.models import families
from tests.models.maker import write_llama

UBATCH = 64
TOLERANCE = 1e-3
"""By how much logits of about 10 may differ when their tokens were computed in other ubatches; a cell that is missing
makes them differ by more than 0.1."""
CASES: list[tuple[Callable[[Path], Path], str, int | None]] = [
    (write_llama, "on", None),
    (write_llama, "off", None),
    (write_llama, "on", 2048),
    (families.write_mixture, "on", None),
    (families.write_sliding_window, "on", None),
    (families.write_sliding_window, "off", None),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0].__name__[6:]}-{case[1]}-{case[2]}")
def backend(
    request: pytest.FixtureRequest, loaded_library: library.Library, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LlamaBackend]:
    try:
        interrupts.load()
    except interrupts.NotCompiled as error:
        pytest.skip(str(error))
    write, flash_attn, num_cells = request.param
    path = write(tmp_path_factory.mktemp("model") / "model.gguf")
    model = LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)
    backend = LlamaBackend(
        loaded_library, model, ctx=512, slots=4, threads=2, batch_tokens=512, ubatch_tokens=UBATCH,
        num_cells=num_cells, flash_attn=flash_attn,
    )  # fmt: skip
    yield backend
    backend.free()
    model.close()


def compute(backend: LlamaBackend, prompts: list[list[int]], stops: Iterator[int]) -> list[np.ndarray]:
    """All prompts at once, interrupted after so many nodes each time; the row behind each prompt."""
    for slot in range(backend.num_slots):
        backend.truncate(slot, 0)
    rows: dict[int, np.ndarray] = {}
    while len(rows) < len(prompts):
        pending = [
            (slot, backend.length(slot), prompt) for slot, prompt in enumerate(prompts) if slot not in rows
        ]  # fmt: skip
        segments = [Segment(slot, start, prompt[start:], wants_token=True) for slot, start, prompt in pending]
        if (stop := next(stops, None)) is not None:
            backend._interrupt.stop_after(stop)
        if backend.decode(segments, within_s=1e9):
            rows |= {segment.slot: backend.logits(index).copy() for index, segment in enumerate(segments)}
            continue
        for segment in segments:
            held = backend.length(segment.slot)
            assert segment.start <= held <= segment.start + len(segment.tokens)
            if held == segment.start + len(segment.tokens):
                backend.truncate(segment.slot, held - 1)
    return [rows[slot] for slot in range(len(prompts))]


@pytest.mark.parametrize("lengths", [[400], [200, 130], [70, 90, 33, 150]])
def test_a_prompt_interrupted_at_random_nodes_has_the_logits_of_one_that_was_not(
    backend: LlamaBackend, lengths: list[int]
) -> None:
    prompts = [prompt_of(backend, number, length) for number, length in enumerate(lengths)]
    expected = compute(backend, prompts, iter(()))
    nodes = backend.num_nodes
    compute(backend, prompts, iter(()))
    nodes = backend.num_nodes - nodes
    rng = np.random.default_rng(sum(lengths))
    for _ in range(6):
        stops = iter([int(stop) for stop in rng.integers(0, nodes, 5)])
        for row, fresh in zip(compute(backend, prompts, stops), expected, strict=True):
            assert np.abs(row - fresh).max() < TOLERANCE
