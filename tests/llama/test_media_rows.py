"""Media rows on the real llama.cpp: what stands behind a picture has the same logits wherever its prefix comes from.

Rows are random numbers: no encoder is needed. Logits are compared, since words hide it when rows do not see each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Many
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from gguf import GGUFReader

from localllm.engine.backend import BackendError, Segment
from localllm.engine.building import build_engine
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.engine import StepOutput
from localllm.engine.media import MediaRows, Span
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Ending, Request, Reuse
from localllm.engine.sampling.sampler import NumpySampler, SampledToken, SamplerParams
from localllm.engine.sampling.selection import Row
from localllm.engine.spans import Spans
from localllm.kvdisk.cache import DiskCache
from localllm.kvdisk.folder import Folder
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Batching, KvMemory
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.types import Finish, ResolvedSampling
from tests.draining import drain
from tests.fakes import GivenRows, in_planes
from tests.kvdisks import PARTS
from tests.llama.test_interrupts import stop_after
from tests.models import families
from tests.models.headed import write_headed
from tests.models.maker import write_llama

SLOTS, CTX, UBATCH = 4, 512, 64
TOLERANCE = 0.01
"""By how much logits of about 4 may differ when the same was computed in other batches (F32 weights, F16 cells)."""


class Case(NamedTuple):
    """A model, and how pictures stand in it."""

    write: Callable[[Path], Path]
    is_causal: bool = True
    has_planes: bool = False
    can_rewind: bool = False
    num_cells: int | None = None


CASES = {
    "attention": Case(write_llama, can_rewind=True),
    "attention, whole, unified": Case(write_llama, is_causal=False, can_rewind=True, num_cells=CTX * SLOTS),
    "sliding window, whole": Case(families.write_sliding_window, is_causal=False),
    "recurrent": Case(families.write_recurrent),
    "hybrid": Case(families.write_hybrid),
    "planes": Case(families.write_planes, has_planes=True, can_rewind=True),
    "planes, unified": Case(families.write_planes, has_planes=True, can_rewind=True, num_cells=CTX * SLOTS),
    "hybrid with planes": Case(families.write_gated_delta, has_planes=True),
}


address = id


class Prompt(NamedTuple):
    ids: list[int]
    spans: list[Span]

    def __add__(self, other: object) -> Prompt:
        if isinstance(other, list):
            return Prompt(self.ids + other, self.spans)
        assert isinstance(other, MediaRows)
        return Prompt([*self.ids, *other.ids], [*self.spans, Span(len(self.ids), other)])


def text(seed: int, length: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(10, 250, length)]


def picture(case: Case, seed: int, height: int, width: int) -> MediaRows:
    rng, count = np.random.default_rng(seed), height * width
    ids = tuple(int(id) for id in -1 - rng.integers(0, 2**31 - 1, count))
    rows, planes = rng.standard_normal((count, families.N_EMBD)).astype(np.float32), None
    if case.has_planes:
        down, right = np.divmod(np.arange(count, dtype=np.int32), width)
        planes = in_planes(0 * down, down, right)
    return MediaRows(ids, max(height, width) if case.has_planes else count, planes, case.is_causal, GivenRows(rows))


class Asker(NumpySampler):
    """An engine, and the logits from which each answer's first token was drawn."""

    def __init__(self, backend: LlamaBackend, **tiers: Any) -> None:
        self.engine = build_engine(backend, self.report, sampler=self, tiers=Tiers(2**26, **tiers))
        self.finish: dict[int, Finish] = {}
        self._sequences: list[Sequence] = []
        self._rows: dict[int, Row] = {}

    def report(self, output: StepOutput) -> None:
        assert not output.failures
        self.finish.update({id: delta.finish for id, delta in output.deltas if delta.finish is not None})

    def sample(self, rows: Many[Row], params: Many[SamplerParams], *, threads: int | None = None) -> list[SampledToken]:
        for row, each in zip(rows, params, strict=True):
            self._rows.setdefault(address(each), row.copy())
        return super().sample(rows, params, threads=threads)

    def ask(self, prompt: Prompt, max_tokens: int = 1, *, cached: bool = True) -> int:
        id = len(self._sequences)
        self._sequences.append(
            Sequence(
                Request(
                    id,
                    prompt.ids,
                    spans=prompt.spans,
                    sampling=ResolvedSampling(temperature=0),
                    max_tokens=max_tokens,
                    ending=Ending(ignore_eos=True),
                    reuse=Reuse(cached),
                )
            )
        )
        self.engine.submit(self._sequences[id])
        return id

    def drain(self) -> None:
        drain(self.engine)

    def logits(self, id: int) -> Row:
        return self._rows[address(self._sequences[id].drawing.parameters._row)]

    def in_pieces(self, most: int) -> None:
        """From now on a step takes so many rows of a picture, as if more took too long."""

        def of_span(sequence: Sequence, *_: Any) -> int:
            return min(most, sequence.progress.num_next)

        self.engine.scheduler.media._shares.of_span = of_span  # type: ignore[method-assign, assignment]

    def answered(self, prompt: Prompt, **options: Any) -> tuple[Row, int]:
        """The logits behind a prompt, and how many of its tokens were cached."""
        id = self.ask(prompt, **options)
        self.drain()
        return self.logits(id), self.finish[id].usage.cached_tokens


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture
def backend(case: Case, loaded_library: Library, tmp_path: Path) -> Iterator[LlamaBackend]:
    model = LlamaModel(
        loaded_library, case.write(tmp_path / "model.gguf"), gpu_layers=0, devices=(), must_offload=False
    )
    memory = KvMemory(CTX, SLOTS, num_cells=case.num_cells)
    backend = open_backend(loaded_library, model, memory, Batching(128, UBATCH), threads=1)
    yield backend
    backend.free()
    model.close()


def assert_close(found: Row, expected: Row) -> None:
    assert np.abs(found - expected).max() < TOLERANCE


def test_what_stands_behind_a_picture_is_the_same_wherever_its_prefix_comes_from(
    case: Case, backend: LlamaBackend, tmp_path: Path
) -> None:
    first, second, other = picture(case, 1, 6, 8), picture(case, 2, 5, 4), picture(case, 3, 5, 4)
    start, between = Prompt(text(1, 40), []), text(2, 40)
    seen = start + first
    both = seen + between + second
    turn = both + text(3, 8)
    prompts = {
        "turn": turn,
        "next turn": turn + text(4, 25),
        "behind the first": seen + text(5, 25),
        "behind both": both + text(6, 20),
        "another picture": seen + between + other + text(3, 8),
        "new": start + picture(case, 4, 3, 7) + text(7, 50),
    }
    fresh = Asker(backend)
    expected = {name: fresh.answered(prompt, cached=False)[0] for name, prompt in prompts.items()}
    assert np.abs(expected["turn"] - expected["another picture"]).max() > 0.1, "nobody sees the picture"

    def open_disk(on_read: Callable[..., None]) -> DiskCache:
        return DiskCache(Folder(tmp_path / "kv", model="tiny", parts=PARTS, max_bytes=2**26), on_read=on_read)

    def check(name: str, least: int, most: int = CTX) -> None:
        found, cached = asker.answered(prompts[name])
        assert_close(found, expected[name])
        assert least <= cached <= most

    asker = Asker(backend, open_disk=open_disk)
    check("turn", 0, 0)
    check("next turn", len(turn.ids) - 1)
    check("behind the first", len(seen.ids), len(seen.ids))
    check("another picture", len(seen.ids), len(seen.ids) + 40)
    running = asker.ask(prompts["next turn"], 30)
    for _ in range(8):
        asker.engine.step()
    check("behind both", len(both.ids), len(both.ids))
    assert_close(asker.logits(running), expected["next turn"])
    forked = [asker.ask(prompts["new"], 4) for _ in range(3)]
    asker.drain()
    for id in forked:
        assert_close(asker.logits(id), expected["new"])
    for seed in range(SLOTS):  # all slots are needed for something else
        asker.ask(Prompt(text(20 + seed, 200), []), 8)
    asker.drain()
    assert not any(held.extents for held in asker.engine.kv.residency.held)
    check("next turn", len(turn.ids))
    assert asker.engine.writeback is not None
    asker.engine.writeback.store_all()
    asker = Asker(backend, open_disk=open_disk)
    check("next turn", len(turn.ids))
    assert asker.engine.writeback is not None
    asker.engine.writeback.store_all()
    if case.is_causal:
        asker = Asker(backend)
        asker.in_pieces(7)
        check("turn", 0, 0)
        gone = asker.ask(prompts["new"])
        for _ in range(2):
            asker.engine.step()
        asker.engine.cancel(gone)
        asker.drain()
        rows = 0 if case.has_planes else 14
        check("new", 40 + rows if case.can_rewind else 0, 40 + rows)


@pytest.mark.parametrize("case", [CASES["attention"], CASES["sliding window, whole"], CASES["planes"]])
def test_an_interrupted_picture_is_computed_as_one_that_was_not(case: Case, backend: LlamaBackend) -> None:
    """At random nodes of its graph; a picture in planes is not interrupted, the text beside it is."""
    if not backend.decoder.can_be_interrupted:
        pytest.skip("without a compiler nothing is interrupted")
    prompt, rng = Prompt(text(1, 100), []), np.random.default_rng(1)
    for seed in range(3):
        prompt = prompt + picture(case, seed, 7, 9) + text(2 + seed, 30)
    expected, _ = Asker(backend).answered(prompt, cached=False)
    asker = Asker(backend)
    asker.engine._cycle._planner._pace.cost.observe([(0, 0, 64)], 0.1)
    id, num_lost = asker.ask(prompt), 0
    while asker.engine.scheduler.has_work or id not in asker.finish:
        stop_after(backend, int(rng.integers(1, 90)))
        before = sum(asker.engine.kv.residency.held[slot].length for slot in range(SLOTS))
        asker.engine.step()
        asker.engine.check_integrity()
        num_lost += before == sum(asker.engine.kv.residency.held[slot].length for slot in range(SLOTS)) > 0
    assert num_lost > 1
    assert_close(asker.logits(id), expected)


@pytest.mark.parametrize("case", [case for name, case in CASES.items() if "whole" not in name], indirect=False)
def test_rows_that_are_the_vectors_of_tokens_have_the_logits_of_these(
    case: Case, backend: LlamaBackend, tmp_path: Path
) -> None:
    """In pieces, as beside streams, and interleaved with text."""
    (tensor,) = [one for one in GGUFReader(tmp_path / "model.gguf").tensors if one.name == "token_embd.weight"]
    tokens, asker = text(1, 200), Asker(backend)
    prompt = Prompt(tokens[:30], [])
    for begin, end in ((30, 100), (120, 135)):
        count = end - begin
        planes = in_planes(*[range(count)] * 3) if case.has_planes else None
        rows = np.array(tensor.data[tokens[begin:end]], np.float32)
        prompt += MediaRows(tuple(range(-1, -count - 1, -1)), count, planes, True, GivenRows(rows))
        prompt += tokens[end : end + 20]
    expected, _ = asker.answered(Prompt(tokens[:155], []), cached=False)
    asker.ask(Prompt(text(2, 10), []), 100)
    for _ in range(3):
        asker.engine.step()
    found, _ = asker.answered(prompt, cached=False)
    assert_close(found, expected)


def test_rows_that_would_end_the_process_end_their_request(loaded_library: Library, tiny_model: Path) -> None:
    """More rows than a ubatch that see each other, and rows of another width."""
    model = LlamaModel(loaded_library, tiny_model, gpu_layers=0, devices=(), must_offload=False)
    backend = open_backend(loaded_library, model, KvMemory(CTX, SLOTS), Batching(128, UBATCH), threads=1)
    failures: dict[int, str] = {}
    engine = build_engine(backend, lambda output: failures.update({id: str(why) for id, why in output.failures}))
    whole = Case(write_llama, is_causal=False)
    wide = picture(whole, 1, 4, 4)
    cast(GivenRows, wide.source).rows = np.zeros((16, 2), np.float32)
    for id, rows in enumerate((picture(whole, 1, 9, 9), wide)):
        prompt = Prompt([7], []) + rows + [8]
        engine.submit(Sequence(Request(id, prompt.ids, spans=prompt.spans, sampling=ResolvedSampling(), max_tokens=1)))
    engine.step()
    while engine.scheduler.has_work:
        engine.step()
    assert "at most 64" in failures[0]
    assert "64 numbers" in failures[1]
    backend.free()
    model.close()


def test_models_whose_graph_ends_the_process_for_rows_refuse_them(loaded_library: Library, tmp_path: Path) -> None:
    path = write_headed(tmp_path / "model.gguf", "glm4moe", n_nextn=1)
    model = LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)
    assert not model.takes_rows
    backend = open_backend(loaded_library, model, KvMemory(CTX, SLOTS), Batching(128, UBATCH), threads=1)
    rows = picture(Case(write_llama), 1, 2, 2)
    with pytest.raises(BackendError, match="takes no media rows"):
        backend.decoder.decode([Segment(0, 0, rows.ids, 1, media=Spans([Span(0, rows)]).part(0, 4))])
    backend.free()
    model.close()
