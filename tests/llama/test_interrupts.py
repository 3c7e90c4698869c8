"""A decode that is interrupted anywhere loses what it was computing and nothing else, on every kind of memory."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from localllm.engine.backend import Segment
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Request
from localllm.llama import interrupts, library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Attention, Batching, KvMemory
from localllm.llama.model import LlamaModel
from localllm.system import native_libraries
from tests.llama.test_kv_reuse import GREEDY, Recorder, assert_as_fresh, prompt_of
from tests.models import families
from tests.models.maker import write_llama

Row = npt.NDArray[np.float32]
UBATCH = 64
TOLERANCE = 0.02
"""By how much logits of about 10 may differ when their tokens were computed in other ubatches: 0.008 was seen. A wrong
token makes them differ by more than 0.1."""
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
    except native_libraries.NotCompiled as error:
        pytest.skip(str(error))
    write, flash_attn, num_cells = request.param
    path = write(tmp_path_factory.mktemp("model") / "model.gguf")
    model = LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)
    threads = 2 if request.param == CASES[0] else 1
    backend = open_backend(
        loaded_library,
        model,
        KvMemory(512, 4, num_cells=num_cells),
        Batching(512, ubatch_tokens=UBATCH),
        threads=threads,
        attention=Attention(flash_attn),
    )
    yield backend
    backend.free()
    model.close()


def stop_after(backend: LlamaBackend, num_nodes: int) -> None:
    """The next decode that listens ends after this many nodes."""
    interrupt = backend.decoder._interrupt
    interrupt._library.li_stop_after(ctypes.c_void_p(interrupt._state), ctypes.c_int64(num_nodes))


def compute(backend: LlamaBackend, prompts: list[list[int]], stops: Iterator[int]) -> list[Row]:
    """All prompts at once, interrupted after so many nodes each time; the row behind each prompt."""
    for slot in range(backend.cells.num_slots):
        backend.cells.truncate(slot, 0)
    rows: dict[int, Row] = {}
    while len(rows) < len(prompts):
        pending = [
            (slot, backend.cells.length(slot), prompt) for slot, prompt in enumerate(prompts) if slot not in rows
        ]  # fmt: skip
        segments = [Segment(slot, start, prompt[start:], num_outputs=1) for slot, start, prompt in pending]
        if (stop := next(stops, None)) is not None:
            stop_after(backend, stop)
        if backend.decoder.decode(segments, within_s=1e9):
            rows |= {segment.slot: backend.decoder.logits(index)[0].copy() for index, segment in enumerate(segments)}
            continue
        for segment in segments:
            held = backend.cells.length(segment.slot)
            assert segment.start <= held <= segment.start + len(segment.tokens)
            if held == segment.start + len(segment.tokens):
                backend.cells.truncate(segment.slot, held - 1)
    return [rows[slot] for slot in range(len(prompts))]


@pytest.mark.parametrize("lengths", [[400], [200, 130], [70, 90, 33, 150]])
def test_a_prompt_interrupted_at_random_nodes_has_the_logits_of_one_that_was_not(
    backend: LlamaBackend, lengths: list[int]
) -> None:
    prompts = [prompt_of(backend, number, length) for number, length in enumerate(lengths)]
    expected = compute(backend, prompts, iter(()))
    nodes = backend.decoder.num_nodes
    compute(backend, prompts, iter(()))
    nodes = backend.decoder.num_nodes - nodes
    rng = np.random.default_rng(sum(lengths))
    for _ in range(4):
        stops = iter([int(stop) for stop in rng.integers(0, nodes, 5)])
        for row, fresh in zip(compute(backend, prompts, stops), expected, strict=True):
            assert np.abs(row - fresh).max() < TOLERANCE


def test_requests_that_arrive_and_are_cancelled_at_random_change_nobody_elses_answer(backend: LlamaBackend) -> None:
    """Each decode ends after some nodes, or when somebody arrives: at once, or with its ubatch."""
    recorder, rng = Recorder(backend), np.random.default_rng(7)
    prompts = [prompt_of(backend, 40 + number, 80 * (number % 3 + 1)) for number in range(6)]
    recorder.engine._cycle._planner._pace.cost.observe([(0, 0, 64)], 0.1)
    ids = [recorder.ask(prompt) for prompt in prompts[:3]]
    num_steps = 0
    while recorder.engine.scheduler.has_work or num_steps == 0:
        if num_steps < 16:
            stop_after(backend, int(rng.integers(0, 400)))
        if num_steps in (3, 5, 9):
            ids.append(recorder.ask(prompts[len(ids)]))
            gone = Sequence(Request(100 + num_steps, prompt_of(backend, num_steps, 300), sampling=GREEDY, max_tokens=5))
            recorder.engine.submit(gone)
            timer = threading.Timer(0.002 * num_steps, recorder.engine.cancel, [gone.id])
            timer.start()
        recorder.engine.step()
        recorder.engine.check_integrity()
        num_steps += 1
    timer.join()
    recorder.engine.step()
    for id, prompt in zip(ids, prompts, strict=True):
        assert_as_fresh(backend, prompt, recorder.answer(id))


def test_who_asks_from_another_thread_ends_a_decode_and_only_one_that_listens(backend: LlamaBackend) -> None:
    prompt = prompt_of(backend, 1, 500)
    for slot in range(backend.cells.num_slots):
        backend.cells.truncate(slot, 0)
    backend.decoder.clear_interrupts()
    backend.decoder.interrupt(0)
    is_whole = backend.decoder.decode([Segment(0, 0, prompt[:100], num_outputs=0)])
    assert is_whole, "nobody said that it may be interrupted"
    backend.decoder.clear_interrupts()
    assert backend.decoder.decode([Segment(0, 100, prompt[100:200], num_outputs=0)], within_s=1e9)
    backend.decoder.interrupt(60)
    assert not backend.decoder.decode([Segment(0, 200, prompt[200:], num_outputs=0)], within_s=1e9)
    assert backend.cells.length(0) == 200, "who asked before it began is not kept waiting"
    backend.decoder.clear_interrupts()
    assert not backend.decoder.decode([Segment(0, 200, prompt[200:], num_outputs=0)], within_s=0)
    nodes = backend.decoder.num_nodes
    timer = threading.Timer(0.001, backend.decoder.interrupt, [60])
    timer.start()
    is_whole = backend.decoder.decode([Segment(0, 200, prompt[200:], num_outputs=0)], within_s=1e9)
    timer.join()
    assert backend.decoder.num_nodes > nodes, "what watches over a worker sees a decode get on"
    assert is_whole == (backend.cells.length(0) == 500)
    assert (backend.cells.length(0) - 200) % UBATCH == (300 % UBATCH if is_whole else 0)


@pytest.mark.parametrize("write", [families.write_recurrent, families.write_hybrid])
def test_a_recurrent_memory_is_never_interrupted(
    loaded_library: library.Library, tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    """What a ubatch that was not finished left of its state is of no use."""
    model = LlamaModel(loaded_library, write(tmp_path / "m.gguf"), gpu_layers=0, devices=(), must_offload=False)
    backend = open_backend(loaded_library, model, KvMemory(256, 1), Batching(64), threads=1)
    assert not backend.decoder.can_be_interrupted
    backend.free()
    model.close()
