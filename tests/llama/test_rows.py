"""Several rows of a segment on the real llama.cpp: they are those of single-token decodes, however a batch is cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from gguf.constants import GGMLQuantizationType

from localllm.engine.backend import Segment
from localllm.engine.building import build_engine
from localllm.engine.engine import StepOutput
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Ending, Request
from localllm.engine.scheduling.pace import StepLimits
from localllm.engine.scheduling.rows import count_passes
from localllm.engine.speculation.proposals import Proposal
from localllm.engine.speculation.proposers import Proposers
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Batching, KvMemory
from localllm.llama.model import LlamaModel
from localllm.types import ResolvedSampling
from tests.models import families
from tests.models.headed import write_headed
from tests.models.maker import write_llama
from tests.samplers import sampler

pytestmark = pytest.mark.pairwise

CTX, SLOTS, BATCH = 256, 4, 96
TOLERANCE = 2e-2
"""By how much logits of about 4 may differ when their tokens were computed in other batches: keys and values are F16,
so that what differs in the last bit of F32 may be the next number there. Rows of other tokens are about 4 away."""
LONGEST = 43
WRITERS: dict[str, Callable[[Path], Path]] = {
    "attention": write_llama,
    "window": families.write_sliding_window,
    "recurrent": families.write_recurrent,
    "hybrid": families.write_hybrid,
    "gated": families.write_gated_delta,
    "short": families.write_short_conv,
    "kda": lambda path: write_headed(path, "bailingmoe3"),
    "mamba 2": lambda path: write_headed(path, "nemotron_h_moe", seed=1),
}
SNAPSHOTS = 5
"""Of recurrent states: memories that take them can be cut."""


class Layout(NamedTuple):
    memory: str
    is_unified: bool
    ubatch_tokens: int | None


LAYOUTS = [
    Layout(memory, is_unified, ubatch)
    for memory in WRITERS
    for is_unified in (False, True)
    for ubatch in (None, 7)
    if memory == "attention" or not is_unified  # other memories have no unified layout here
]


@contextmanager
def opened(loaded_library: library.Library, folder: Path, layout: Layout) -> Iterator[LlamaBackend]:
    path = folder / f"{layout.memory}.gguf"
    if not path.exists():
        WRITERS[layout.memory](path)
    model = LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)
    try:
        backend = open_backend(
            loaded_library,
            model,
            KvMemory(CTX, SLOTS, num_cells=CTX * SLOTS if layout.is_unified else None, snapshots=SNAPSHOTS),
            Batching(BATCH, ubatch_tokens=layout.ubatch_tokens),
            threads=1,
        )
        yield backend
        backend.free()
    finally:
        model.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows")


@pytest.fixture(scope="module", params=LAYOUTS, ids=lambda each: "-".join(map(str, each)))
def backend(request: pytest.FixtureRequest, loaded_library: library.Library, folder: Path) -> Iterator[LlamaBackend]:
    with opened(loaded_library, folder, request.param) as backend:
        yield backend


def one_by_one(backend: LlamaBackend, tokens: list[int]) -> list[npt.NDArray[np.float32]]:
    """The row behind each token, each token in a decode of its own."""
    rows = []
    for start, token in enumerate(tokens):
        backend.decoder.decode([Segment(0, start, [token], 1)])
        rows.append(backend.decoder.logits(0)[0].copy())
    backend.cells.truncate(0, 0)
    return rows


def text_of(slot: int, count: int) -> list[int]:
    return [(7 * slot + 3 * place * place + place) % 90 + 5 for place in range(count)]


@pytest.fixture(scope="module")
def alone(backend: LlamaBackend) -> list[list[npt.NDArray[np.float32]]]:
    """For each slot, the row behind each token of its text."""
    return [one_by_one(backend, text_of(slot, LONGEST)) for slot in range(SLOTS)]


@pytest.mark.parametrize(
    "wanted",
    [
        {0: (9, 9), 1: (9, 4), 2: (9, 1), 3: (9, 0)},
        {0: (1, 1), 1: (40, 3), 2: (2, 2), 3: (30, 30)},
        {0: (4, 4), 2: (1, 1), 3: (5, 2)},
        {1: (40, 17)},
    ],
)
def test_rows_are_those_of_single_tokens(
    backend: LlamaBackend, alone: list[list[npt.NDArray[np.float32]]], wanted: dict[int, tuple[int, int]]
) -> None:
    """Of several slots with unequal lengths, and then of a few tokens behind them."""
    for slot in range(SLOTS):
        backend.cells.truncate(slot, 0)
    texts = {slot: text_of(slot, count + 3) for slot, (count, _) in wanted.items()}
    backend.decoder.decode(
        [Segment(slot, 0, texts[slot][:count], outputs) for slot, (count, outputs) in wanted.items()]
    )
    for index, (slot, (count, outputs)) in enumerate(wanted.items()):
        rows = backend.decoder.logits(index)
        assert len(rows) == outputs
        for row, single in zip(rows, alone[slot][count - outputs : count], strict=True):
            np.testing.assert_allclose(row, single, rtol=0, atol=TOLERANCE)
    backend.decoder.decode([Segment(slot, count, texts[slot][count:], 2) for slot, (count, _) in wanted.items()])
    for index, (slot, (count, _)) in enumerate(wanted.items()):
        for row, single in zip(backend.decoder.logits(index), alone[slot][count + 1 : count + 3], strict=True):
            np.testing.assert_allclose(row, single, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("ubatch_tokens", [None, 6])
def test_rows_thrown_away_leave_no_trace(
    loaded_library: library.Library, folder: Path, ubatch_tokens: int | None
) -> None:
    with opened(loaded_library, folder, Layout("attention", False, ubatch_tokens)) as backend:
        texts = [text_of(slot, 14) for slot in range(SLOTS)]
        expected = [one_by_one(backend, text) for text in texts]
        backend.decoder.decode([Segment(slot, 0, text[:10], 0) for slot, text in enumerate(texts)])
        rows = {0: (1, 3), 1: (2, 2), 3: (4, 0)}  # slot 2 is a gap, which is filled with as many rows
        backend.decoder.decode([Segment(slot, 10, texts[slot][10 : 10 + n], n, pad) for slot, (n, pad) in rows.items()])
        for index, (slot, (count, _)) in enumerate(rows.items()):
            assert backend.cells.length(slot) == 10 + count
            for row, single in zip(backend.decoder.logits(index), expected[slot][10:], strict=False):
                np.testing.assert_allclose(row, single, rtol=0, atol=TOLERANCE)
        assert backend.cells.length(2) == 10
        ends = [10 + rows.get(slot, (0, 0))[0] for slot in range(SLOTS - 1)]
        backend.decoder.decode([Segment(slot, end, texts[slot][end : end + 1], 1) for slot, end in enumerate(ends)])
        for slot, end in enumerate(ends):
            np.testing.assert_allclose(backend.decoder.logits(slot)[0], expected[slot][end], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(("held", "is_filled"), [(4, True), (200, False)])
def test_a_gap_is_filled_unless_that_looks_at_more_than_a_pass_is_worth(
    loaded_library: library.Library, tmp_path: Path, *, held: int, is_filled: bool
) -> None:
    path = write_llama(
        tmp_path / "wide.gguf", n_layer=8, n_kv=4, dtype=GGMLQuantizationType.Q4_0
    )  # much cache behind few weights
    model = LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)
    backend = open_backend(loaded_library, model, KvMemory(CTX, 3), Batching(CTX), threads=1)
    backend.decoder.decode([Segment(1, 0, text_of(1, held), 0)])
    backend.decoder.decode([Segment(slot, 0, text_of(slot, 1), 1) for slot in (0, 2)])
    assert backend.decoder._batch.struct.n_tokens == (3 if is_filled else 2)
    backend.free()
    model.close()


class Guesser:
    """Knows the answers, but for every fifth token."""

    def __init__(self, answers: dict[int, list[int]]) -> None:
        self._answers = answers

    def propose(self, sequence: Sequence) -> Proposal | None:
        known, place = self._answers[sequence.id], sequence.progress.num_tokens
        guesses = [token if (place + number) % 5 else token - 1 for number, token in enumerate(known[place:])]
        return Proposal((), tuple(guesses[: 2 + sequence.id * 2]))


@pytest.mark.parametrize(
    "sampling",
    [
        ResolvedSampling(temperature=0),
        ResolvedSampling(seed=5, temperature=1.2, top_k=0, min_p=0.0),
        ResolvedSampling(seed=6, repeat_penalty=1.2, frequency_penalty=0.3, mirostat=0),
    ],
)
def test_answers_with_guesses_are_those_without(backend: LlamaBackend, sampling: ResolvedSampling) -> None:
    """On every memory; those that take nothing back get none. What the slots hold goes on as if none had been there."""

    def ask(proposer: Guesser | None) -> tuple[dict[int, list[int]], int]:
        for slot in range(SLOTS):
            backend.cells.truncate(slot, 0)
        failures: list[object] = []

        def emit(output: StepOutput) -> None:
            failures.extend(output.failures)

        engine = build_engine(backend, emit, sampler=sampler(), proposers=Proposers(proposer), limits=StepLimits(60))
        engine.scheduler.drafter.cost = count_passes
        sequences = [
            Sequence(Request(id, text_of(id, 9 + id), sampling=sampling, max_tokens=30, ending=Ending(ignore_eos=True)))
            for id in range(3)
        ]
        for turn in range(2):
            for sequence in sequences:
                engine.submit(sequence)
            engine.step()
            while engine.scheduler.has_work:
                engine.step()
                engine.check_integrity()
            if turn == 0:  # the second turn goes on from what the first has left in the cache
                sequences = [
                    Sequence(
                        Request(
                            one.id,
                            [*one.progress.tokens, 9],
                            sampling=sampling,
                            max_tokens=30,
                            ending=Ending(ignore_eos=True),
                        )
                    )
                    for one in sequences
                ]
        assert not failures
        return {one.id: one.progress.tokens for one in sequences}, engine.num_steps

    plain, num_steps = ask(None)
    guessed, num_steps_guessed = ask(Guesser(plain))
    assert guessed == plain
    assert num_steps_guessed < 0.8 * num_steps if backend.cells.max_rollback else num_steps_guessed == num_steps
