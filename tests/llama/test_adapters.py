"""Adapters on the real llama.cpp: logits, not texts, since a prefix of another set may look right all the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from localllm.engine.backend import BackendError, Segment
from localllm.engine.building import build_engine
from localllm.engine.cache.domain import Domain
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.engine import StepOutput
from localllm.engine.requests.adapters import NO_ADAPTERS, AdapterSet, ScaledAdapter
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Ending, ReportOptions, Request, Reuse
from localllm.errors import LocalLLMError
from localllm.gguf.adapters import adapter_info, read_adapter
from localllm.gguf.header import read_header
from localllm.gguf.kinds import text_of
from localllm.llama import library
from localllm.llama.backend import LlamaBackend
from localllm.types import Finish, ResolvedSampling
from localllm.types.states import AdapterStatus
from tests.draining import drain
from tests.llama.test_kv_reuse import opened
from tests.models import families
from tests.models.activated import add_invocation
from tests.models.builder import Builder
from tests.models.families import write_lora
from tests.samplers import sampler

GREEDY = ResolvedSampling(temperature=0)
ONE, TWO = (ScaledAdapter("one", 1.0),), (ScaledAdapter("two", 1.0),)
SETS: dict[str, AdapterSet] = {"none": NO_ADAPTERS, "one": ONE, "two": TWO, "both": (*ONE, *TWO)}
TOLERANCE = 1e-3
"""Of log-probabilities computed in other batches; those of other sets differ by far more."""
PROMPT = [5, 9, 3, 77, 41, 8, 2, 100, 64, 30, 31, 32]


@pytest.fixture(scope="module")
def backend(
    loaded_library: library.Library, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LlamaBackend]:
    folder = tmp_path_factory.mktemp("adapters")
    with opened(loaded_library, tiny_model) as backend:
        for seed, name in enumerate(("one", "two"), 1):
            know(backend, name, write_lora(folder / f"{name}.gguf", seed=seed))
        yield backend
        backend.decoder.use_adapters(NO_ADAPTERS)


def know(backend: LlamaBackend, name: str, path: Path) -> None:
    backend.adapters.know(name, path, adapter_info(read_header(path)).size_bytes)


def loaded(backend: LlamaBackend) -> AdapterStatus:
    status = backend.decoder.adapter_status
    assert status is not None
    return status


@contextmanager
def limited(backend: LlamaBackend, most: int) -> Iterator[None]:
    """At most so many bytes of adapters stay."""
    backend.adapters._max_bytes, before = most, backend.adapters._max_bytes
    try:
        yield
    finally:
        backend.adapters._max_bytes = before


def logits(backend: LlamaBackend, adapters: AdapterSet) -> npt.NDArray[np.float32]:
    backend.cells.truncate(0, 0)
    backend.decoder.use_adapters(adapters)
    backend.decoder.decode([Segment(0, 0, PROMPT, num_outputs=1)])
    row = backend.decoder.logits(0)[0].copy()
    backend.cells.truncate(0, 0)
    return row


def test_each_set_has_logits_of_its_own_and_none_are_those_without_adapters(backend: LlamaBackend) -> None:
    rows = {name: logits(backend, adapters) for name, adapters in SETS.items()}
    for name, row in rows.items():
        assert np.array_equal(row, logits(backend, SETS[name]))
        others = [other for each, other in rows.items() if each != name]
        assert min(float(np.abs(row - other).max()) for other in others) > 0.1
    assert float(np.abs(logits(backend, (ScaledAdapter("one", 0.5),)) - rows["one"]).max()) > 0.05


def test_adapters_are_loaded_when_needed_and_the_least_recently_used_are_freed(backend: LlamaBackend) -> None:
    before, status = logits(backend, ONE), loaded(backend)
    size = status.loaded_bytes // status.loaded
    with limited(backend, size):
        backend.decoder.use_adapters(TWO)
        assert (loaded(backend).loaded, loaded(backend).loaded_bytes) == (1, size)
        assert np.array_equal(logits(backend, ONE), before)
    with limited(backend, 2 * size):
        backend.decoder.use_adapters(SETS["both"])
        assert loaded(backend).loaded == 2
    assert loaded(backend).evictions >= status.evictions + 2


def test_twenty_of_many_adapters_used_by_lot_take_no_more_memory_than_their_limit(
    backend: LlamaBackend, tmp_path: Path
) -> None:
    whole = bytearray(write_lora(tmp_path / "0.gguf").read_bytes())
    size, lot = adapter_info(read_header(tmp_path / "0.gguf")).size_bytes, random.Random(50)
    for number in range(500):
        whole[-4:] = np.float32(number / 100).tobytes()
        (tmp_path / f"{number}.gguf").write_bytes(whole)
        backend.adapters.know(str(number), tmp_path / f"{number}.gguf", size)
    used, rows = lot.sample(range(500), 20), dict[int, npt.NDArray[np.float32]]()
    with limited(backend, 5 * size):
        for number in lot.sample(2 * used, 40):
            row = logits(backend, (ScaledAdapter(str(number), 1.0),))
            assert loaded(backend).loaded_bytes <= 5 * size
            assert np.array_equal(row, rows.setdefault(number, row))
        backend.decoder.use_adapters(NO_ADAPTERS)
    assert len(rows) == 20
    assert len({row.tobytes() for row in rows.values()}) == 20


def test_an_adapter_that_is_not_there_leaves_the_set_in_force_as_it_was(backend: LlamaBackend, tmp_path: Path) -> None:
    before = logits(backend, ONE)
    backend.adapters.know("gone", tmp_path / "gone.gguf", 1)
    backend.adapters.know("broken", tmp_path / "broken.gguf", 1)
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    for name, reason in (("gone", "is gone"), ("broken", "could not be loaded"), ("unknown", "was announced")):
        with pytest.raises(BackendError, match=reason):
            backend.decoder.use_adapters((ScaledAdapter(name, 1.0),))
    assert np.array_equal(logits(backend, ONE), before)


@pytest.mark.parametrize("count", [100, pytest.param(5_000, marks=pytest.mark.exhaustive)])
def test_a_damaged_adapter_is_refused_or_computed_and_ends_nothing(
    count: int, backend: LlamaBackend, tiny_model: Path, tmp_path: Path
) -> None:
    whole, lot, found = write_lora(tmp_path / "whole.gguf").read_bytes(), random.Random(7), set[bool]()
    end = read_header(tmp_path / "whole.gguf").data_start
    before, path = logits(backend, NO_ADAPTERS), tmp_path / "damaged.gguf"
    for number in range(count):
        damaged = bytearray(whole)
        for _ in range(lot.choice((1, 1, 1, 2, 4))):
            at = lot.randrange(end)
            damaged[at] = lot.choice((lot.randrange(256), 0, 255, damaged[at] ^ 1))
        path.write_bytes(damaged)
        try:
            info = read_adapter(path, tiny_model)
        except LocalLLMError:
            found.add(False)
            continue
        backend.adapters.know(f"damaged {number}", path, info.size_bytes)
        found.add(bool(np.isfinite(logits(backend, (ScaledAdapter(f"damaged {number}", 1.0),))).any()))
    assert found == {True, False}
    assert np.array_equal(logits(backend, NO_ADAPTERS), before)


class Answers:
    """Answers with log-probabilities from an engine."""

    def __init__(self, backend: LlamaBackend) -> None:
        self.engine = build_engine(backend, self, sampler=sampler(), tiers=Tiers(2**26))
        self.sequences: list[Sequence] = []
        self.finish: dict[int, Finish] = {}
        self.scores: dict[int, list[float]] = {}

    def __call__(self, output: StepOutput) -> None:
        assert not output.failures
        for id, delta in output.deltas:
            self.scores.setdefault(id, []).extend(each.logprob for each in delta.logprobs)
            if delta.finish is not None:
                self.finish[id] = delta.finish

    def ask(self, adapters: AdapterSet, *, reused: bool = True, max_tokens: int = 24) -> int:
        id = len(self.sequences)
        request = Request(
            id,
            PROMPT,
            sampling=GREEDY,
            max_tokens=max_tokens,
            adapters=adapters,
            ending=Ending(ignore_eos=True),
            reported=ReportOptions(logprobs=0),
            reuse=Reuse(reused, Domain.of(cache_salt="", adapters=adapters)),
        )
        self.sequences.append(Sequence(request))
        self.engine.submit(self.sequences[id])
        return id

    def drain(self) -> None:
        drain(self.engine)

    def answer(self, id: int) -> tuple[list[int], list[float]]:
        progress = self.sequences[id].progress
        return progress.tokens[progress.num_prompt :], self.scores[id]


def test_sets_at_once_answer_as_alone_cached_and_fresh(backend: LlamaBackend) -> None:
    check_sets_at_once(backend)


CHANGED = ("attn_q", "attn_output", "ssm_in", "ssm_out", "ffn_down", "ffn_down_exps")
"""Matrices that some architecture has."""


def write_for(base: Path, path: Path, *, seed: int, rank: int = 4, invocation: tuple[int, ...] = ()) -> Path:
    """A random adapter for any model."""
    header = read_header(base)
    with Builder(path, text_of(header, "general.architecture") or "", seed=seed) as adapter:
        adapter.writer.add_type("adapter")
        adapter.key("adapter.type", "lora")
        adapter.key("adapter.lora.alpha", float(rank))
        if invocation:
            add_invocation(adapter.writer, invocation)
        for tensor in header.tensors:
            if len(tensor.dims) > 1 and tensor.name.split(".")[-2] in CHANGED:
                rows, columns, *more = tensor.dims
                adapter.matrix(f"{tensor.name}.lora_a", rows, rank, *more)
                adapter.matrix(f"{tensor.name}.lora_b", rank, columns, *more)
    return path


@pytest.mark.parametrize(
    "write",
    [families.write_sliding_window, families.write_recurrent, families.write_hybrid, families.write_mixture],
    ids=lambda write: write.__name__.removeprefix("write_"),
)
def test_sets_at_once_answer_as_alone_on_every_memory(
    write: Callable[[Path], Path], loaded_library: library.Library, tmp_path: Path
) -> None:
    base = write(tmp_path / "model.gguf")
    with opened(loaded_library, base) as backend:
        for seed, name in enumerate(("one", "two"), 1):
            path = write_for(base, tmp_path / f"{name}.gguf", seed=seed)
            assert read_adapter(path, base).num_matrices > 0
            know(backend, name, path)
        check_sets_at_once(backend)


def check_sets_at_once(backend: LlamaBackend) -> None:
    alone = {}
    for name, adapters in SETS.items():
        bench = Answers(backend)
        bench.engine.kv.cut(0, 0)
        id = bench.ask(adapters, reused=False)
        bench.drain()
        alone[name] = bench.answer(id)
        for slot in range(4):
            bench.engine.kv.cut(slot, 0)
    assert len({tuple(tokens) for tokens, _ in alone.values()}) > 1
    bench = Answers(backend)
    for round in range(2):
        ids = {name: bench.ask(adapters) for name, adapters in SETS.items()}
        bench.drain()
        for name, id in ids.items():
            (tokens, scores), (said, said_scores) = alone[name], bench.answer(id)
            assert said == tokens, name
            assert np.allclose(scores, said_scores, atol=TOLERANCE), name
            is_cached = bench.finish[id].usage.cached_tokens > 0
            assert is_cached == (round > 0) or (round and backend.cells.memory_kind == "recurrent"), name
    backend.decoder.use_adapters(NO_ADAPTERS)
