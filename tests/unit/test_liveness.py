"""Whoever waits enters within bounds, whatever arrives after it: in every layout, with every tier, in every order."""

from __future__ import annotations

from typing import Any, cast

from localllm.engine.admission import MAX_LEADERS, MAX_READING_S
from localllm.engine.engine import Engine
from localllm.engine.sequence import Sequence
from localllm.engine.tiers import DiskTier
from tests.fakes import FakeBackend, FakeDiskCache, alone
from tests.unit.test_engine import GREEDY, Collector, drain, text_of


class Clock:
    """Advances when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def with_disk(disk: FakeDiskCache, **backend: Any) -> tuple[Engine, Collector, Clock]:
    """An engine whose disk has the answer to a prompt of 150 fives, and whose slots are empty."""
    collector, clock = Collector(), Clock()
    tier = DiskTier(lambda _: cast(Any, disk))
    engine = Engine(FakeBackend(slot_capacity=256, **backend), collector, disk=tier, clock=clock)
    engine.submit(Sequence(0, [5] * 150, sampling=GREEDY, max_tokens=4))
    drain(engine)
    assert engine.keeper is not None
    engine.keeper.keep_while(lambda: True)
    engine.slots.erase(0)
    return engine, collector, clock


def test_who_waits_for_room_is_read_from_the_disk_once_and_is_not_passed_for_ever() -> None:
    """Others pass while it is read and take the room; then it waits for them only, and nothing is read again."""
    disk = FakeDiskCache(looks=2)
    engine, collector, _ = with_disk(disk, num_cells=256)
    for id in (1, 2):
        engine.submit(Sequence(id, [id, 7], sampling=GREEDY, max_tokens=40 + id))
    engine.step()
    engine.submit(Sequence(3, [5] * 150 + [6], sampling=GREEDY, max_tokens=20))
    for id in range(4, 40):
        engine.submit(Sequence(id, [id, 3], sampling=GREEDY, max_tokens=60))
        for _ in range(10):
            engine.step()
    assert 3 in collector.finish, "passed by those who came later"
    assert list(collector.finish).index(3) < 6
    assert collector.finish[3].usage.cached_tokens == 150
    assert list(disk.num_reads.values()) == [1]
    assert collector.text[3] == text_of(alone([5] * 150 + [6], 20))


def test_a_disk_that_hangs_holds_a_request_up_for_a_bounded_time_only() -> None:
    engine, collector, clock = with_disk(FakeDiskCache(hangs=True))
    engine.submit(Sequence(1, [5] * 150 + [6], sampling=GREEDY, max_tokens=4))
    for _ in range(10):
        engine.step()
        clock.now_s += (MAX_READING_S - 0.01) / 10
    assert engine.scheduler.num_waiting == 1
    clock.now_s = MAX_READING_S
    drain(engine)
    assert collector.finish[1].usage.cached_tokens == 0
    assert collector.text[1] == text_of(alone([5] * 150 + [6], 4))


def test_a_state_that_can_never_be_read_is_computed() -> None:
    engine, collector, _ = with_disk(FakeDiskCache(fails=True))
    engine.submit(Sequence(1, [5] * 150 + [6], sampling=GREEDY, max_tokens=4))
    drain(engine)
    assert collector.text[1] == text_of(alone([5] * 150 + [6], 4))


def test_a_request_does_not_wait_for_the_prefixes_of_ever_new_others() -> None:
    """Each of them is cancelled before it has computed what both share, and begins anew."""
    engine = Engine(FakeBackend(num_slots=2, slot_capacity=512, batch_capacity=32), collector := Collector())
    prompt = [8] * 400
    engine.submit(Sequence(0, prompt, sampling=GREEDY, max_tokens=4, cache_prompt=False))
    engine.step()
    engine.submit(Sequence(1, prompt, sampling=GREEDY, max_tokens=4))
    for leader in range(2, 40):
        engine.step()
        if engine.scheduler.num_waiting == 0:
            break
        engine.cancel(leader - 2 if leader == 2 else leader - 1)
        engine.submit(Sequence(leader, prompt, sampling=GREEDY, max_tokens=4, cache_prompt=False, priority=-1))
    assert engine.scheduler.num_waiting == 0
    assert leader <= MAX_LEADERS + 3
    drain(engine)
    assert collector.text[1] == text_of(alone(prompt, 4))
