"""Activated adapters (aLoRA) on the real llama.cpp: log-probabilities are those of the base's prefix, computed without
the adapter, and of the rest behind it, computed with it; cached, copied, restored and fresh, on every memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from localllm.engine.backend import Segment
from localllm.engine.building import build_engine
from localllm.engine.cache.domain import Domain
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.cache.tiers import OpenDisk
from localllm.engine.requests.adapters import NO_ADAPTERS
from localllm.engine.requests.sequence import Sequence as Asked
from localllm.engine.requests.terms import DUE, Due, Ending, ReportOptions, Request, Reuse
from localllm.gguf.adapters import read_adapter
from localllm.kvdisk.cache import DiskCache
from localllm.kvdisk.folder import Folder
from localllm.llama import library
from localllm.llama.backend import LlamaBackend
from localllm.types import AppliedAdapter
from localllm.worker.prompts.adapted import adapted
from tests.kvdisks import PARTS
from tests.llama.test_adapters import GREEDY, Answers, know, write_for
from tests.llama.test_kv_reuse import SLOTS, opened
from tests.llama.test_parking import MEMORIES
from tests.samplers import sampler

INVOCATION = (41, 42)
COUNT = 10
TOLERANCE = 0.01
"""Of log-probabilities: llama.cpp's flash attention rounds otherwise if a prompt is computed in other parts."""
HISTORY = [5, 9, 3, 77, 41, 8, 2, 100, 64, 30, 31, 32] * 6
ASKED = [*HISTORY, *INVOCATION, 50]
JUDGE, STYLE = AppliedAdapter("judge", "", invocation=INVOCATION), AppliedAdapter("style", "")
SETS: tuple[tuple[AppliedAdapter, ...], ...] = ((), (JUDGE,), (STYLE,), (STYLE, JUDGE))


class Answer(NamedTuple):
    """Its tokens and their log-probabilities."""

    tokens: list[int]
    scores: list[float]

    def is_like(self, other: Answer, tolerance: float = TOLERANCE) -> bool:
        return self.tokens == other.tokens and np.allclose(self.scores, other.scores, atol=tolerance)


class Bench(Answers):
    def __init__(self, backend: LlamaBackend, open_disk: OpenDisk | None = None) -> None:
        super().__init__(backend)
        if open_disk is not None:
            self.engine = build_engine(backend, self, sampler=sampler(), tiers=Tiers(2**26, open_disk=open_disk))
        for slot in range(SLOTS):
            self.engine.kv.cut(slot, 0)

    def want(
        self, prompt: Sequence[int], applied: Sequence[AppliedAdapter] = (), count: int = COUNT, due: Due = DUE
    ) -> int:
        id, under = len(self.sequences), adapted(applied, prompt)
        request = Request(
            id,
            prompt,
            sampling=GREEDY,
            max_tokens=count,
            adapters=under.adapters,
            activation=under.activation,
            ending=Ending(ignore_eos=True),
            reported=ReportOptions(logprobs=0),
            reuse=Reuse(domain=Domain.of(cache_salt="", adapters=under.shared)),
            due=due,
        )
        self.sequences.append(Asked(request))
        self.engine.submit(self.sequences[id])
        return id

    def of(self, id: int) -> Answer:
        return Answer(*self.answer(id))

    def cached(self, id: int) -> int:
        return self.finish[id].usage.cached_tokens


def by_hand(backend: LlamaBackend, prompt: Sequence[int], applied: Sequence[AppliedAdapter] = ()) -> Answer:
    """Through the library alone: the prefix under the other adapters, the rest under all."""
    under, decoder = adapted(applied, prompt), backend.decoder
    start = 0 if under.activation is None else under.activation.start
    backend.cells.truncate(0, 0)
    if start:
        decoder.use_adapters(under.shared)
        decoder.decode([Segment(0, 0, prompt[:start], 0)])
    decoder.use_adapters(under.adapters)
    decoder.decode([Segment(0, start, prompt[start:], 1)])
    found, length = Answer([], []), len(prompt)
    for _ in range(COUNT):
        row = decoder.logits(0)[0].astype(np.float64)
        found.tokens.append(int(row.argmax()))
        found.scores.append(float(row.max() - np.logaddexp.reduce(row)))
        decoder.decode([Segment(0, length, found.tokens[-1:], 1)])
        length += 1
    backend.cells.truncate(0, 0)
    return found


@pytest.fixture(scope="module", params=MEMORIES)
def backend(
    request: pytest.FixtureRequest, loaded_library: library.Library, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LlamaBackend]:
    folder, write = tmp_path_factory.mktemp("activated"), MEMORIES[request.param]
    base = write(folder / "model.gguf")
    with opened(loaded_library, base, threads=1) as backend:
        for seed, (each, invocation) in enumerate(((JUDGE, INVOCATION), (STYLE, ())), 1):
            path = write_for(base, folder / f"{each.digest}.gguf", seed=seed, invocation=invocation)
            assert read_adapter(path, base).invocation == invocation
            know(backend, each.digest, path)
        yield backend
        backend.decoder.use_adapters(NO_ADAPTERS)


def everywhere(applied: Sequence[AppliedAdapter]) -> list[AppliedAdapter]:
    return [AppliedAdapter(each.digest, "", each.scale) for each in applied]


def test_the_prefix_is_computed_without_it_and_everything_behind_with_it(backend: LlamaBackend) -> None:
    wanted = {each: by_hand(backend, ASKED, each) for each in SETS}
    wrong = [by_hand(backend, ASKED, everywhere((JUDGE,)))]
    rows = [*wanted.values(), *wrong]
    for index, row in enumerate(rows):
        assert not any(row.is_like(other, 5 * TOLERANCE) for other in rows[index + 1 :]), "nothing is tested"
    bench = Bench(backend)
    for applied, answer in wanted.items():
        fresh, again = bench.want(ASKED, applied), -1
        bench.drain()
        again = bench.want(ASKED, applied)
        bench.drain()
        assert bench.of(fresh).is_like(answer)
        assert bench.of(again).is_like(answer)
        assert bench.cached(again) >= len(HISTORY)


def test_what_the_base_has_cached_serves_it_and_the_other_way_round(backend: LlamaBackend) -> None:
    other = [*HISTORY, 60, 61]
    first, then = by_hand(backend, ASKED, (JUDGE,)), by_hand(backend, other)
    bench = Bench(backend)
    bench.want([*HISTORY, 7])
    bench.drain()
    judged = bench.want(ASKED, (JUDGE,))
    bench.drain()
    assert (bench.cached(judged), bench.of(judged).is_like(first)) == (len(HISTORY), True)
    bench = Bench(backend)
    judged = bench.want(ASKED, (JUDGE,))
    bench.drain()
    plain = bench.want(other)
    bench.drain()
    assert (bench.cached(judged), bench.cached(plain)) == (0, len(HISTORY))
    assert bench.of(plain).is_like(then)


def test_beside_other_sets_each_answers_as_alone(backend: LlamaBackend) -> None:
    prompts = {each: [*ASKED, 70 + number] for number, each in enumerate(SETS)}
    wanted = {each: by_hand(backend, prompts[each], each) for each in SETS}
    bench = Bench(backend)
    for _ in range(2):
        ids = {each: bench.want(prompts[each], each) for each in SETS}
        bench.drain()
        for each, id in ids.items():
            assert bench.of(id).is_like(wanted[each])


def test_the_second_turn_begins_where_its_own_invocation_stands(backend: LlamaBackend) -> None:
    bench = Bench(backend)
    first = bench.want(ASKED, (JUDGE,))
    bench.drain()
    second = [*bench.sequences[first].progress.tokens, 33, *INVOCATION, 51]
    wanted = by_hand(backend, second, (JUDGE,))
    bench = Bench(backend)
    bench.want(ASKED, (JUDGE,))
    bench.drain()
    id = bench.want(second, (JUDGE,))
    bench.drain()
    assert bench.of(id).is_like(wanted)
    assert bench.cached(id) == len(HISTORY), "what was said under the adapter is not the base's"


def test_one_that_gave_up_its_slot_goes_on_as_if_undisturbed(backend: LlamaBackend) -> None:
    wanted = by_hand(backend, ASKED, (JUDGE,))
    bench = Bench(backend)
    ids = [bench.want(ASKED, (JUDGE,), due=Due(is_batch=True)) for _ in range(SLOTS)]
    for _ in range(5):
        bench.engine.step()
    bench.want([70, 71, 72], count=3)
    bench.drain()
    assert bench.engine.scheduler.preemptions.total > 0
    assert all(bench.of(id).is_like(wanted) for id in ids)


def test_a_prefix_that_left_its_slot_comes_back_from_main_memory(backend: LlamaBackend) -> None:
    wanted, plain = by_hand(backend, ASKED, (JUDGE,)), by_hand(backend, [*HISTORY, 60])
    bench = Bench(backend)
    bench.want(ASKED, (JUDGE,))
    bench.drain()
    for number in range(SLOTS):
        bench.want([number + 80] * (len(ASKED) + 20))
    bench.drain()
    assert bench.engine.kv.host.entries
    again, other = bench.want(ASKED, (JUDGE,)), bench.want([*HISTORY, 60])
    bench.drain()
    assert bench.of(again).is_like(wanted)
    assert bench.of(other).is_like(plain)
    assert bench.cached(again) >= len(HISTORY)
    assert bench.cached(other) == len(HISTORY)


def test_after_a_restart_prefix_and_answer_come_from_the_disk(backend: LlamaBackend, tmp_path: Path) -> None:
    def open_disk(on_read: Callable[..., None]) -> DiskCache:
        return DiskCache(Folder(tmp_path / "kv", model="tiny", parts=PARTS, max_bytes=2**26), on_read=on_read)

    second = [*ASKED, 66, 67]
    wanted, plain = by_hand(backend, second, (JUDGE,)), by_hand(backend, [*HISTORY, 60])
    bench = Bench(backend, open_disk)
    bench.want(ASKED, (JUDGE,), 1)
    bench.drain()
    assert bench.engine.writeback is not None
    bench.engine.writeback.store_all()
    for prompt, applied, answer, most in ((second, (JUDGE,), wanted, len(ASKED)), ([*HISTORY, 60], (), plain, None)):
        bench = Bench(backend, open_disk)
        id = bench.want(prompt, applied)
        bench.drain()
        assert bench.of(id).is_like(answer)
        assert len(HISTORY) <= bench.cached(id) <= (most or len(HISTORY))
        assert bench.engine.writeback is not None
        bench.engine.writeback.store_all()
