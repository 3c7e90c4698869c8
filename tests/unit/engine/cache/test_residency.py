"""KV reuse on a fake backend: the longest prefix is found, bursts compute theirs once, nothing stale is used."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from localllm.engine.building import build_engine
from localllm.engine.cache.hostcache import HostEntry
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.cache.residency import Residency
from localllm.engine.cache.tiers import OpenDisk
from localllm.engine.engine import Engine
from localllm.engine.media import Span
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Request, Reuse
from localllm.engine.scheduling.ways import cheapest
from localllm.errors import InvalidParameter, SlotBusy
from localllm.kvdisk.prefix import common_prefix
from localllm.types import ResolvedSampling
from tests.draining import drain
from tests.fakes import FakeBackend, FakeDiskCache, alone, illustrated, unpacked
from tests.unit.engine.test_engine import Collector, text_of

GREEDY = ResolvedSampling(temperature=0)


def ask(engine: Engine, id: int, prompt: list[int], max_tokens: int = 4) -> None:
    engine.submit(Sequence(Request(id, prompt, sampling=GREEDY, max_tokens=max_tokens)))


def computed(backend: FakeBackend) -> int:
    """Tokens that the backend has computed so far."""
    return sum(len(segment.tokens) for batch in backend.batches for segment in batch)


def test_the_next_turn_of_a_chat_computes_only_what_is_new() -> None:
    backend, collector = FakeBackend(num_slots=2, slot_capacity=256), Collector()
    engine = build_engine(backend, collector)
    ask(engine, 1, [5] * 40)
    drain(engine)
    before = computed(backend)
    turn = [5] * 40 + alone([5] * 40, 4) + [9, 9]
    ask(engine, 2, turn)
    drain(engine)
    assert collector.finish[2].usage.cached_tokens == 43, "the last generated token was never computed"
    assert computed(backend) - before == len(turn) - 43 + 3
    assert collector.text[2] == text_of(alone(turn, 4))


def test_a_prompt_that_was_just_answered_computes_its_last_token_again() -> None:
    engine = build_engine(FakeBackend(), collector := Collector())
    for id in (1, 2):
        ask(engine, id, [3] * 20)
        drain(engine)
    assert collector.finish[2].usage.cached_tokens == 19
    assert collector.text[1] == collector.text[2]


def test_a_prefix_is_copied_from_a_running_slot() -> None:
    backend, collector = FakeBackend(num_slots=2, slot_capacity=256, batch_capacity=256), Collector()
    engine = build_engine(backend, collector)
    ask(engine, 1, [5] * 100, max_tokens=50)
    engine.step()
    ask(engine, 2, [5] * 90 + [6] * 5)
    drain(engine)
    assert backend.copies == [(0, 1, 90)]
    assert collector.finish[2].usage.cached_tokens == 90
    assert collector.text[1] == text_of(alone([5] * 100, 50))
    assert collector.text[2] == text_of(alone([5] * 90 + [6] * 5, 4))


def test_a_burst_computes_its_shared_prefix_once_and_lets_others_pass() -> None:
    backend, collector = FakeBackend(num_slots=4, slot_capacity=512, batch_capacity=32), Collector()
    engine = build_engine(backend, collector)
    for id in range(12):
        ask(engine, id, [8] * 300 + [id + 1])
    ask(engine, 99, [4, 4])
    engine.step()
    assert [sequence.id for sequence in engine.scheduler.running] == [0, 99], "the others wait for request 0's prefix"
    drain(engine)
    assert computed(backend) < 300 + 12 * (1 + 4 + 8) + 10
    for id in range(12):
        assert collector.text[id] == text_of(alone([8] * 300 + [id + 1], 4))
        assert collector.finish[id].usage.cached_tokens >= (0 if id == 0 else 300)


def test_who_waits_for_a_prefix_goes_on_alone_when_its_leader_is_cancelled() -> None:
    backend, collector = FakeBackend(slot_capacity=512, batch_capacity=32), Collector()
    engine = build_engine(backend, collector)
    for id in (1, 2):
        ask(engine, id, [8] * 300 + [id])
    engine.step()
    engine.step()
    engine.cancel(1)
    drain(engine)
    assert collector.finish[1].reason == "cancelled"
    assert collector.text[2] == text_of(alone([8] * 300 + [2], 4))
    assert collector.finish[2].usage.cached_tokens == 64, "what the cancelled one had computed is not lost"


def test_a_chat_that_went_idle_is_not_overwritten_while_another_slot_is_empty() -> None:
    engine = build_engine(FakeBackend(num_slots=3, slot_capacity=256), collector := Collector())
    ask(engine, 1, [1] * 60)
    drain(engine)
    ask(engine, 2, [1, 1, 1] + [2] * 30)
    drain(engine)
    ask(engine, 3, [1] * 60 + alone([1] * 60, 3) + [7])
    drain(engine)
    assert collector.finish[3].usage.cached_tokens == 63


def test_of_two_idle_chats_the_one_that_was_used_longest_ago_goes() -> None:
    engine = build_engine(FakeBackend(num_slots=2, slot_capacity=256), collector := Collector())
    for id, token in ((1, 1), (2, 2), (3, 1), (4, 3)):
        ask(engine, id, [token] * 60)
        drain(engine)
    ask(engine, 5, [1] * 60)
    drain(engine)
    assert collector.finish[5].usage.cached_tokens == 59


@pytest.mark.parametrize("memory", [{"can_rewind": False}, {"window": 8}], ids=["recurrent", "window"])
def test_a_memory_that_cannot_rewind_goes_back_to_checkpoints(memory: dict[str, Any]) -> None:
    backend, collector = FakeBackend(num_slots=2, slot_capacity=256, **memory), Collector()
    engine = build_engine(backend, collector, tiers=Tiers(10_000))
    ask(engine, 1, [5] * 40, max_tokens=12)
    drain(engine)
    whole = [5] * 40 + alone([5] * 40, 11)
    asked = {2: [*whole, 7, 7], 3: [5] * 40, 4: [5] * 39 + [6] * 30, 5: [5] * 20 + [6] * 30}
    for id, prompt in asked.items():
        ask(engine, id, prompt)
        drain(engine)
    assert [collector.finish[id].usage.cached_tokens for id in asked] == [51, 39, 39, 0]
    for id, prompt in asked.items():
        assert collector.text[id] == text_of(alone(prompt, 4))


def test_without_main_memory_nothing_is_gone_back_to_and_nothing_is_wrong() -> None:
    backend, collector = FakeBackend(num_slots=2, slot_capacity=256, can_rewind=False), Collector()
    engine = build_engine(backend, collector)
    ask(engine, 1, [5] * 40)
    drain(engine)
    whole = [5] * 40 + alone([5] * 40, 3)
    asked = {2: [5] * 40, 3: [*whole, 7, 7], 4: [5] * 20 + [6] * 30}
    for id, prompt in asked.items():
        ask(engine, id, prompt)
    drain(engine)
    assert [collector.finish[id].usage.cached_tokens for id in asked] == [0, 43, 0]
    for id, prompt in asked.items():
        assert collector.text[id] == text_of(alone(prompt, 4))


@pytest.mark.parametrize("memory", [{"can_rewind": False}, {"window": 8}], ids=["recurrent", "window"])
def test_a_burst_computes_its_beginning_once_on_a_memory_that_cannot_rewind_too(memory: dict[str, Any]) -> None:
    backend, collector = FakeBackend(num_slots=4, slot_capacity=512, batch_capacity=32, **memory), Collector()
    engine = build_engine(backend, collector, tiers=Tiers(100_000))
    for id in range(12):
        ask(engine, id, [8] * 300 + [id + 1, 9])
    drain(engine)
    assert computed(backend) < 300 + 12 * (2 + 4) + 20
    for id in range(12):
        assert collector.text[id] == text_of(alone([8] * 300 + [id + 1, 9], 4))
        assert collector.finish[id].usage.cached_tokens >= (0 if id == 0 else 300)


def test_an_edited_message_goes_back_to_the_turn_before() -> None:
    backend, collector = FakeBackend(num_slots=1, slot_capacity=512, can_rewind=False), Collector()
    engine = build_engine(backend, collector, tiers=Tiers(10_000))
    turns = [5] * 100 + [6] * 50
    engine.submit(
        Sequence(Request(1, [*turns, 1, 2, 3], sampling=GREEDY, max_tokens=9, reuse=Reuse(pauses=(100, 150))))
    )
    drain(engine)
    for id, prompt, cached in ((2, [*turns, 9, 9], 150), (3, [5] * 100 + [7] * 50, 100)):
        engine.submit(Sequence(Request(id, prompt, sampling=GREEDY, max_tokens=9, reuse=Reuse(pauses=(100,)))))
        drain(engine)
        assert collector.finish[id].usage.cached_tokens == cached
        assert collector.text[id] == text_of(alone(prompt, 9))


def test_busy_slots_of_a_memory_that_wants_them_side_by_side_close_ranks() -> None:
    backend, collector = FakeBackend(num_slots=4, slot_capacity=256, can_rewind=False), Collector()
    engine = build_engine(backend, collector, tiers=Tiers(10_000))
    for id, count in ((1, 40), (2, 2), (3, 2), (4, 40)):
        ask(engine, id, [id] * 20, max_tokens=count)
    drain(engine)
    together = [[segment.slot for segment in batch] for batch in backend.batches]
    assert together.count([0, 1]) > 20
    assert together.count([0, 3]) <= 1
    for id, count in ((1, 40), (4, 40)):
        assert collector.text[id] == text_of(alone([id] * 20, count))
    ask(engine, 5, [2] * 20 + alone([2] * 20, 2) + [3])
    drain(engine)
    assert collector.finish[5].usage.cached_tokens == 0, "too short to be worth saving"


def slots_after_every_other_ended(capacity: int, max_tokens: int, prompt: int) -> tuple[list[int], FakeBackend]:
    """Of 8 requests every other is cancelled once all have a first token; where the rest is some steps later."""
    backend, collector = FakeBackend(num_slots=8, slot_capacity=capacity, batch_capacity=512), Collector()
    engine = build_engine(backend, collector)
    for id in range(8):
        ask(engine, id, [id + 1] * prompt, max_tokens)
    while not all(collector.text.get(id) for id in range(8)):
        engine.step()
    for id in range(1, 8, 2):
        engine.cancel(id)
    for _ in range(4):
        engine.step()
        engine.check_integrity()
    slots = [segment.slot for segment in backend.batches[-1]]
    drain(engine)
    for id in range(0, 8, 2):
        assert collector.text[id] == text_of(alone([id + 1] * prompt, max_tokens))
    return slots, backend


@pytest.mark.parametrize("capacity", [256, 64 * 1024], ids=["small slots", "large slots that hold little"])
def test_streams_with_gaps_between_them_close_ranks_where_that_pays(capacity: int) -> None:
    slots, backend = slots_after_every_other_ended(capacity, max_tokens=100, prompt=20)
    assert slots == [0, 1, 2, 3]
    assert [copy[:2] for copy in backend.copies] == [(6, 1), (4, 3)]


@pytest.mark.parametrize(
    ("capacity", "max_tokens", "prompt"), [(256, 6, 20), (4096, 100, 3000)],
    ids=["soon over", "it would cost a long conversation"],
)  # fmt: skip
def test_streams_stay_where_they_are_if_moving_costs_more_than_the_gaps(
    capacity: int, max_tokens: int, prompt: int
) -> None:
    assert slots_after_every_other_ended(capacity, max_tokens, prompt)[0] == [0, 2, 4, 6]


def test_in_a_unified_cache_nothing_moves_into_an_empty_slot() -> None:
    backend, collector = FakeBackend(num_slots=4, slot_capacity=64, num_cells=200), Collector()
    engine = build_engine(backend, collector)
    for id in range(3):
        ask(engine, id, [id + 1] * 5, max_tokens=2 if id == 0 else 30)
    while 0 not in collector.finish:
        engine.step()
    engine.slots.erase(0)
    drain(engine)
    assert backend.copies == []


def test_a_full_unified_cache_makes_requests_wait_and_fails_none() -> None:
    backend, collector = FakeBackend(num_slots=8, slot_capacity=256, num_cells=300, batch_capacity=64), Collector()
    engine = build_engine(backend, collector, tiers=Tiers(10_000))
    asked = {id: ([id + 1] * (20 * id + 5), 30) for id in range(8)} | {8: ([9] * 100, None), 9: ([9, 9], 3)}
    for id, (prompt, count) in asked.items():
        engine.submit(Sequence(Request(id, prompt, sampling=GREEDY, max_tokens=count)))
    engine.step()
    assert 1 < len(engine.scheduler.running) < 8
    assert engine.scheduler.num_waiting
    drain(engine)
    for id, (prompt, count) in asked.items():
        room = 256 - len(prompt) if count is None else count
        assert collector.text[id] == text_of(alone(prompt, room))


def test_in_a_unified_cache_what_is_shared_takes_cells_once() -> None:
    backend, collector = FakeBackend(num_slots=8, slot_capacity=256, num_cells=320, batch_capacity=64), Collector()
    engine = build_engine(backend, collector)
    for id in range(8):
        ask(engine, id, [8] * 190 + [id + 1], max_tokens=8)
    while len(engine.scheduler.running) < 8:
        engine.step()
    assert backend.used_cells() < 300
    drain(engine)
    for id in range(8):
        assert collector.text[id] == text_of(alone([8] * 190 + [id + 1], 8))


def test_a_large_request_is_not_passed_for_ever_by_small_ones() -> None:
    backend, collector = FakeBackend(num_slots=4, slot_capacity=128, num_cells=128), Collector()
    engine = build_engine(backend, collector)
    ask(engine, 0, [1] * 10, max_tokens=30)
    engine.step()
    ask(engine, 1, [2] * 60, max_tokens=60)
    for id in range(2, 12):
        ask(engine, id, [3, id], max_tokens=20)
    while 1 not in collector.finish:
        engine.step()
    assert set(collector.finish) == {0, 1}


@pytest.mark.parametrize("memory", [{}, {"can_rewind": False}, {"window": 8}], ids=["rewinds", "recurrent", "window"])
def test_a_chat_goes_on_from_the_disk_and_others_pass_while_it_is_read(memory: dict[str, Any]) -> None:
    disk, texts = FakeDiskCache(), []
    for life in range(2):
        backend, collector = FakeBackend(num_slots=2, slot_capacity=256, **memory), Collector()
        engine = build_engine(backend, collector, tiers=Tiers(10_000, open_disk=lambda _: cast(Any, disk)))
        ask(engine, 1, [5] * 90 + [9] * (life * 3))
        ask(engine, 2, [6] * 10)
        engine.step()
        assert [sequence.id for sequence in engine.scheduler.running] == ([2] if life else [1, 2])
        drain(engine)
        assert collector.finish[1].usage.cached_tokens in ((89, 90) if life else (0,))
        texts.append(collector.text[1])
        engine.stop()
        engine.run()
    assert texts == [text_of(alone([5] * 90 + [9] * more, 4)) for more in (0, 3)]


def test_checkpoints_are_bounded_in_number_and_bytes() -> None:
    backend, collector = FakeBackend(num_slots=2, slot_capacity=512, window=16), Collector()
    engine = build_engine(backend, collector, tiers=Tiers(200, 3))
    for id in range(8):
        engine.submit(
            Sequence(Request(id, [id + 1] * 200, sampling=GREEDY, max_tokens=2, reuse=Reuse(pauses=range(20, 200, 20))))
        )
        drain(engine)
        assert engine.kv.num_bytes <= 200
        assert all(len(held.checkpoints) <= 3 for held in engine.kv.residency.held)
    lengths = [checkpoint.length for checkpoint in engine.kv.residency.held[1].checkpoints]
    assert (lengths[0], lengths[-1]) == (20, 180), "the first and the last stay"


def test_chats_that_outnumber_the_slots_come_back_from_main_memory() -> None:
    backend, collector = FakeBackend(num_slots=2, slot_capacity=256), Collector()
    engine = build_engine(backend, collector, tiers=Tiers(10_000))
    chats = {token: [token] * 80 for token in range(1, 6)}
    for turn in range(3):
        for token, chat in chats.items():
            id = 10 * turn + token
            ask(engine, id, chat)
            drain(engine)
            assert collector.text[id] == text_of(alone(chat, 4))
            assert collector.finish[id].usage.cached_tokens == (len(chat) - 3 if turn else 0)
            chat += [*alone(chat, 4), 50 + turn, 60]


@pytest.mark.parametrize("kv_ram_bytes", [0, 100])
def test_main_memory_is_bounded_and_can_be_switched_off(kv_ram_bytes: int) -> None:
    engine = build_engine(
        FakeBackend(num_slots=1, slot_capacity=256), collector := Collector(), tiers=Tiers(kv_ram_bytes)
    )
    for id, token in enumerate((1, 2, 3, 2, 1)):
        ask(engine, id, [token] * 90)
        drain(engine)
        assert engine.kv.host.num_bytes <= kv_ram_bytes
    assert [collector.finish[id].usage.cached_tokens for id in range(5)] == [0, 0, 0, 89 if kv_ram_bytes else 0, 0]


def test_what_another_slot_holds_anyway_is_not_saved() -> None:
    backend, collector = FakeBackend(num_slots=2, slot_capacity=256, batch_capacity=256), Collector()
    engine = build_engine(backend, collector, tiers=Tiers(10_000))
    ask(engine, 1, [5] * 150, max_tokens=90)
    engine.step()
    for id, prompt in ((2, [5] * 101), (3, [6] * 100), (4, [7] * 100)):
        ask(engine, id, prompt, max_tokens=1)
        while id not in collector.finish:
            engine.step()
    assert [entry.tokens[0] for entry in engine.kv.host.entries] == [6]


@pytest.mark.parametrize(
    ("one", "other", "length"),
    [([], [], 0), ([1], [], 0), ([1, 2, 3], [1, 2, 4], 2), ([1, 2], [1, 2, 3], 2), ([9], [1], 0), ([4, 4], [4, 4], 2)],
)
def test_common_prefix(one: list[int], other: list[int], length: int) -> None:
    assert common_prefix(np.array(one, np.int32), np.array(other, np.int32)) == length


def test_a_short_common_beginning_is_not_worth_a_copy() -> None:
    residency = Residency(num_slots=2, slot_capacity=256, can_rewind=True)
    residency.written(0, 0, [1] * 30)
    found = residency.found(np.array([1] * 7 + [2] * 10, np.int32))
    assert found.held == [7, 0]
    assert cheapest(residency, found, (), 17, [1]).source is None


def test_what_a_slot_held_goes_on_in_another_one_after_it_was_erased() -> None:
    backend, collector = FakeBackend(num_slots=3, slot_capacity=256), Collector()
    engine = build_engine(backend, collector)
    ask(engine, 1, [5] * 40)
    drain(engine)
    entry = engine.slots.save(0)
    assert engine.slots.erase(0) == 43
    engine.slots.restore(2, entry)
    ask(engine, 2, [5] * 40)
    drain(engine)
    assert collector.finish[2].usage.cached_tokens == 39
    assert collector.text[2] == collector.text[1]


def test_a_restored_slot_pushes_what_it_held_into_main_memory() -> None:
    engine = build_engine(FakeBackend(num_slots=1, slot_capacity=256), collector := Collector(), tiers=Tiers(10_000))
    for id, token in ((1, 5), (2, 6)):
        ask(engine, id, [token] * 80)
        drain(engine)
        entry = engine.slots.save(0)
    ask(engine, 3, [5] * 80)
    drain(engine)
    engine.slots.restore(0, entry)
    for id, token in ((4, 6), (5, 5)):
        ask(engine, id, [token] * 80)
        drain(engine)
    assert [collector.finish[id].usage.cached_tokens for id in (4, 5)] == [79, 79]


def test_in_a_unified_cache_idle_slots_make_room_for_what_is_restored_and_running_ones_do_not() -> None:
    backend, collector = FakeBackend(num_slots=3, slot_capacity=128, num_cells=128), Collector()
    engine = build_engine(backend, collector)
    ask(engine, 1, [5] * 60)
    drain(engine)
    entry = engine.slots.save(0)
    engine.slots.erase(0)
    ask(engine, 2, [6] * 80)
    drain(engine)
    engine.slots.restore(1, entry)
    assert [len(cells) for cells in backend.held] == [0, 63, 0]
    ask(engine, 3, [7] * 40, max_tokens=20)
    engine.step()
    busy = engine.scheduler.running[0].slot
    free = next(slot for slot in (0, 2) if slot != busy)
    engine.slots.restore(free, entry)
    assert [len(backend.held[slot]) for slot in (1, free)] == [0, 63]
    engine.slots.erase(free)
    ask(engine, 4, [8] * 10, max_tokens=40)
    engine.step()
    (last,) = {0, 1, 2} - {sequence.slot for sequence in engine.scheduler.running}
    with pytest.raises(SlotBusy, match="no room for the 63 tokens"):
        engine.slots.restore(last, entry)
    drain(engine)
    assert collector.text[3] == text_of(alone([7] * 40, 20))


MEMORIES: list[dict[str, Any]] = [
    {},
    {"can_rewind": False},
    {"window": 8},
    {"window": 30, "slack": 0},
    {"num_cells": 128},
    {"num_cells": 200},
]


class Traffic(RuleBasedStateMachine):
    """Any mix of arrivals, steps and cancels, prompts that share beginnings, slots that are too few."""

    @initialize(slots=st.integers(1, 4), batch=st.integers(4, 40), memory=st.sampled_from(MEMORIES),
                host=st.integers(0, 600), most=st.integers(0, 4), disk=st.sampled_from([None, 0, 3, 100]),
                price=st.sampled_from([0, 32]))  # fmt: skip
    def start(
        self, slots: int, batch: int, memory: dict[str, Any], host: int, most: int, disk: int | None, price: int
    ) -> None:
        """`price` of a copy: for nothing, streams move to wherever there is less of a gap."""
        self.backend = FakeBackend(num_slots=slots, slot_capacity=128, batch_capacity=batch, **memory)
        self.collector = Collector()
        tier: OpenDisk | None = None if disk is None else lambda _: cast(Any, FakeDiskCache(disk))
        self.engine = build_engine(self.backend, self.collector, tiers=Tiers(host, most, tier))
        if self.backend.num_cells is None:
            self.engine.kv.residency.copy_tokens = price
        self.asked: dict[int, tuple[list[int], int]] = {}
        self.spans: dict[int, list[Span]] = {}
        self.cancelled: set[int] = set()
        self.saved: list[HostEntry] = []

    @rule(family=st.integers(1, 3), common=st.integers(1, 80), tail=st.lists(st.integers(1, 5), max_size=8),
          count=st.integers(1, 12),
          pictures=st.lists(st.tuples(st.sampled_from([0, 20, 70, 90]), st.integers(0, 5)), max_size=2))  # fmt: skip
    def arrives(self, family: int, common: int, tail: list[int], count: int, pictures: list[tuple[int, int]]) -> None:
        prompt, spans = illustrated([family] * common + tail, pictures)
        self.asks(prompt, count, spans)

    def asks(self, prompt: list[int], count: int, spans: list[Span]) -> None:
        id = len(self.asked)
        self.asked[id], self.spans[id] = (prompt, count), spans
        self.engine.submit(Sequence(Request(id, prompt, spans=spans, sampling=GREEDY, max_tokens=count)))

    @precondition(lambda self: self.asked)
    @rule(which=st.integers(0, 10**6))
    def is_cancelled(self, which: int) -> None:
        id = which % len(self.asked)
        self.cancelled.add(id)
        self.engine.cancel(id)

    @precondition(lambda self: self.collector.finish)
    @rule(which=st.integers(0, 10**6), tail=st.lists(st.integers(1, 5), min_size=1, max_size=6))
    def goes_on(self, which: int, tail: list[int]) -> None:
        """The next turn of a chat that was answered."""
        done = sorted(self.collector.finish)
        prompt, count = self.asked[done[which % len(done)]]
        longer = [*prompt, *alone(prompt, count), *tail]
        if len(longer) < self.backend.slot_capacity:
            self.asks(longer, 3, self.spans[done[which % len(done)]])

    @rule()
    def is_idle_for_long(self) -> None:
        """Slots that hold something are written to the disk."""
        writeback = self.engine.writeback
        if writeback is not None and not self.engine.scheduler.has_work:
            writeback.store_while(lambda: True)

    @rule(count=st.integers(1, 6))
    def steps(self, count: int) -> None:
        for _ in range(count):
            self.engine.step()

    @rule(which=st.integers(0, 10**6), action=st.sampled_from(["take", "put", "erase"]), what=st.integers(0, 10**6))
    def a_client_does_something_to_a_slot(self, which: int, action: str, what: int) -> None:
        """A slot that answers is not touched; what was taken of one can be given to any other at any time."""
        slot, slots = which % self.backend.num_slots, self.engine.slots
        is_busy = any(sequence.slot == slot for sequence in self.engine.scheduler.running)
        try:
            if action == "take":
                self.saved.append(slots.save(slot))
            elif action == "erase":
                slots.erase(slot)
                assert self.backend.held[slot] == []
            elif self.saved:
                given = self.saved[what % len(self.saved)]
                slots.restore(slot, given)
                assert self.backend.held[slot] == given.tokens.tolist()
            assert not is_busy or (action == "put" and not self.saved)
        except InvalidParameter:
            assert action == "take"
            assert self.backend.held[slot] == []
        except SlotBusy:
            assert is_busy or (action == "put" and self.backend.num_cells is not None and self.engine.scheduler.running)

    @invariant()
    def what_is_believed_of_the_cache_is_true(self) -> None:
        if hasattr(self, "engine"):
            self.engine.check_integrity()
            for slot, cells in enumerate(self.backend.held):
                assert self.engine.kv.residency.held[slot].tokens.tolist() == cells
            host = self.engine.kv.host
            assert self.engine.kv.num_bytes <= host.max_bytes
            pool = self.engine.kv.residency.pool
            assert pool is None or pool.num_used == self.backend.used_cells()
            for entry in host.entries:
                assert unpacked(entry.state) == entry.tokens.tolist()

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        drain(self.engine)
        assert self.engine.scheduler.running == []
        for id, (prompt, count) in self.asked.items():
            room = min(count, self.backend.slot_capacity - len(prompt))
            expected = text_of(alone(prompt, room))
            finish = self.collector.finish[id]
            if finish.reason == "cancelled":
                assert id in self.cancelled
                assert expected.startswith(self.collector.text[id])
            else:
                assert self.collector.text[id] == expected
                assert 0 <= finish.usage.cached_tokens < len(prompt)


TestTraffic = Traffic.TestCase
TestTraffic.settings = settings(max_examples=60, stateful_step_count=40)


@pytest.mark.parametrize("kv_ram_bytes", [0, 2**20])
def test_a_request_that_wants_nothing_cached_computes_its_whole_prompt(kv_ram_bytes: int) -> None:
    """Not from a slot, nor from main memory, nor by waiting for another that computes the same."""
    backend, collector = FakeBackend(num_slots=3, slot_capacity=512, batch_capacity=64), Collector()
    engine = build_engine(backend, collector, tiers=Tiers(kv_ram_bytes))
    prompt = [7] * 200
    engine.submit(Sequence(Request(1, prompt, sampling=GREEDY, max_tokens=2)))
    drain(engine)
    for id in (2, 3):
        engine.submit(Sequence(Request(id, prompt, sampling=GREEDY, max_tokens=2, reuse=Reuse(cache_prompt=False))))
    engine.step()
    assert len(engine.scheduler.running) == 2, "the second must not wait for the first"
    drain(engine)
    engine.submit(Sequence(Request(4, prompt, sampling=GREEDY, max_tokens=2)))
    drain(engine)
    assert [collector.finish[id].usage.cached_tokens for id in (1, 2, 3, 4)] == [0, 0, 0, 199]
    assert len({collector.text[id] for id in (1, 2, 3, 4)}) == 1
