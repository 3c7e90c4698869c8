"""States in buffers that are used again, through the engine: an answer or a file is never made of another's bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localllm.engine.building import build_engine
from localllm.engine.cache.hostcache import HostCache, HostEntry
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Request
from localllm.llama.states import save_buffers
from localllm.llama.states.save_buffers import BufferPool
from localllm.types import ResolvedSampling
from tests.draining import drain
from tests.fakes import FakeBackend, alone
from tests.kvdisks import TIMEOUT_S, opened, tokens_of
from tests.unit.engine.test_engine import Collector, text_of

GREEDY = ResolvedSampling(temperature=0)
BLOCK = 64 * 1024


class Buffered(FakeBackend):
    """Its states, a byte a token, lie in a pool, which gives them to the next as soon as nobody holds them."""

    pool: BufferPool

    def save(self, slot: int) -> memoryview:  # type: ignore[override]
        content = super().save(slot)
        state = self.pool.take(len(content))
        state[:] = content
        return state


@pytest.fixture
def small_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a few bytes go into the pool, too."""
    monkeypatch.setattr(save_buffers, "LEAST_BYTES", 1)


def backend_with(pool: BufferPool) -> Buffered:
    backend = Buffered(num_slots=2, slot_capacity=512, batch_capacity=256)
    backend.pool = pool
    return backend


def prompt_of(number: int, length: int) -> list[int]:
    return [(number * 7 + place * (number + 1)) % 96 + 1 for place in range(length)]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    chats=st.lists(st.tuples(st.integers(0, 6), st.integers(65, 160)), min_size=5, max_size=16),
    kv_ram_bytes=st.sampled_from([1, 300, 900, 5000]),
    pool_blocks=st.integers(1, 6),
)
def test_answers_are_right_whatever_is_saved_evicted_and_restored(
    small_states: None, chats: list[tuple[int, int]], kv_ram_bytes: int, pool_blocks: int
) -> None:
    pool = BufferPool(pool_blocks * BLOCK)
    backend, collector = backend_with(pool), Collector()
    engine = build_engine(backend, collector, tiers=Tiers(kv_ram_bytes))
    for id, (number, length) in enumerate(chats):
        prompt = prompt_of(number, length)
        engine.submit(Sequence(Request(id, prompt, sampling=GREEDY, max_tokens=3)))
        drain(engine)
        assert collector.text[id] == text_of(alone(prompt, 3))
    held = [len(entry.state) for entry in engine.kv.host.entries]
    assert sum(held) <= kv_ram_bytes
    assert sum(held) <= pool.held_bytes <= BLOCK * len(held), "a state that nobody holds has its memory still"
    pool.close()


def test_what_the_disk_writes_is_what_was_saved_however_soon_it_is_evicted(small_states: None, tmp_path: Path) -> None:
    """The fake's state of a slot is its tokens: each file says itself whether it is right."""
    pool = BufferPool(4 * BLOCK)
    with opened(tmp_path) as cache:
        engine = build_engine(
            backend_with(pool), Collector(), tiers=Tiers(300, open_disk=lambda _: cache)
        )  # of which two states are more
        for number in range(60):
            engine.submit(Sequence(Request(number, prompt_of(number, 65 + number * 2), sampling=GREEDY, max_tokens=2)))
            drain(engine)
        assert cache.flush(TIMEOUT_S)
    with opened(tmp_path) as again:
        assert len(again.entries) > 50
        for entry in again.entries:
            saved = again.load(entry)
            assert saved is not None
            assert bytes(saved.state) == bytes(entry.tokens.tolist())
    assert pool.held_bytes <= 2 * BLOCK, "written and evicted: nobody's"
    pool.close()


class TestMakingRoom:
    def full(self) -> HostCache:
        host = HostCache(100)
        for number in range(4):
            host.add(HostEntry(tokens_of(number, *range(10)), bytes(25)))
        return host

    def test_what_has_to_go_goes_before_its_memory_is_needed(self) -> None:
        host = self.full()
        host.make_room(30)
        assert host.num_bytes == 50
        host.add(HostEntry(tokens_of(9, 9), bytes(30)))
        assert [entry.tokens[0] for entry in host.entries] == [2, 3, 9]

    def test_for_a_state_that_never_fits_nothing_goes(self) -> None:
        host = self.full()
        host.make_room(101)
        assert host.num_bytes == 100

    def test_checkpoints_elsewhere_take_room_too(self) -> None:
        host = self.full()
        host.make_room(10, [np.zeros(40, np.uint8).data])
        assert host.num_bytes == 50
