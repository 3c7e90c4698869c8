"""Whoever waits enters within bounds, whatever arrives after it: in every layout, with every tier, in every order."""

from __future__ import annotations

import itertools
import math
import queue
from collections.abc import Sequence as Many
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from localllm.engine.building import build_engine
from localllm.engine.cache.held import SlotRecord
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.cache.tiers import OpenDisk
from localllm.engine.engine import Engine
from localllm.engine.idling import STORE_AFTER_S
from localllm.engine.inbox import Inspect, Item, Stop
from localllm.engine.media import Span
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Due, Request, Reuse
from localllm.engine.scheduling.admission import MAX_LEADERS
from localllm.engine.scheduling.aging import AGED_S, EVERY, Turns
from localllm.engine.scheduling.pace import StepBudget
from localllm.engine.scheduling.shares import Shares
from localllm.engine.scheduling.waits import MAX_READING_S
from tests.draining import drain
from tests.fakes import FakeBackend, FakeDiskCache, FakeRows, alone, illustrated
from tests.machines import MACHINES, Machine
from tests.unit.engine.test_engine import GREEDY, Collector, text_of


class Clock:
    """Advances when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def with_disk(disk: FakeDiskCache, **backend: Any) -> tuple[Engine, Collector, Clock]:
    """An engine whose disk has the answer to a prompt of 150 fives, and whose slots are empty."""
    collector, clock = Collector(), Clock()
    engine = build_engine(
        FakeBackend(slot_capacity=256, **backend),
        collector,
        tiers=Tiers(open_disk=lambda _: cast(Any, disk)),
        clock=clock,
    )
    engine.submit(Sequence(Request(0, [5] * 150, sampling=GREEDY, max_tokens=4)))
    drain(engine)
    assert engine.writeback is not None
    engine.writeback.store_while(lambda: True)
    engine.slots.erase(0)
    return engine, collector, clock


def test_who_waits_for_room_is_read_from_the_disk_once_and_is_not_passed_for_ever() -> None:
    """Others pass while it is read and take the room; then it waits for them only, and nothing is read again."""
    disk = FakeDiskCache(looks=2)
    engine, collector, _ = with_disk(disk, num_cells=256)
    for id in (1, 2):
        engine.submit(Sequence(Request(id, [id, 7], sampling=GREEDY, max_tokens=40 + id)))
    engine.step()
    engine.submit(Sequence(Request(3, [5] * 150 + [6], sampling=GREEDY, max_tokens=20)))
    for id in range(4, 40):
        engine.submit(Sequence(Request(id, [id, 3], sampling=GREEDY, max_tokens=60)))
        for _ in range(10):
            disk.tick()
            engine.step()
    assert 3 in collector.finish, "passed by those who came later"
    assert list(collector.finish).index(3) < 6
    assert collector.finish[3].usage.cached_tokens == 150
    assert list(disk.num_reads.values()) == [1]
    assert collector.text[3] == text_of(alone([5] * 150 + [6], 20))


def test_a_disk_that_hangs_holds_a_request_up_for_a_bounded_time_only() -> None:
    engine, collector, clock = with_disk(FakeDiskCache(hangs=True))
    engine.submit(Sequence(Request(1, [5] * 150 + [6], sampling=GREEDY, max_tokens=4)))
    for _ in range(10):
        engine.step()
        clock.now_s += (MAX_READING_S - 0.01) / 10
    assert engine.scheduler.num_waiting == 1
    clock.now_s = MAX_READING_S
    drain(engine)
    assert collector.finish[1].usage.cached_tokens == 0
    assert collector.text[1] == text_of(alone([5] * 150 + [6], 4))


def test_what_is_read_for_a_request_that_is_gone_does_not_stay_in_memory() -> None:
    disk = FakeDiskCache(looks=10)
    engine, collector, _ = with_disk(disk)
    for id in (1, 2):
        engine.submit(Sequence(Request(id, [5] * 150 + [6], sampling=GREEDY, max_tokens=4)))
    engine.step()
    assert disk.num_held == 1
    engine.cancel(1)
    engine.step()
    assert disk.num_held == 1, "the other waits for it, too"
    engine.cancel(2)
    engine.step()
    assert disk.num_held == 0
    engine.submit(Sequence(Request(3, [5] * 150 + [6], sampling=GREEDY, max_tokens=4)))
    drain(engine)
    assert collector.finish[3].usage.cached_tokens == 150, "read again"


def test_what_was_read_too_late_does_not_stay_in_memory() -> None:
    disk = FakeDiskCache(hangs=True)
    engine, collector, clock = with_disk(disk)
    engine.submit(Sequence(Request(1, [5] * 150 + [6], sampling=GREEDY, max_tokens=4)))
    engine.step()
    clock.now_s = MAX_READING_S
    drain(engine)
    assert collector.finish[1].usage.cached_tokens == 0
    assert disk.num_held == 0


def test_a_state_that_can_never_be_read_is_computed() -> None:
    engine, collector, _ = with_disk(FakeDiskCache(fails=True))
    engine.submit(Sequence(Request(1, [5] * 150 + [6], sampling=GREEDY, max_tokens=4)))
    drain(engine)
    assert collector.text[1] == text_of(alone([5] * 150 + [6], 4))


def test_a_request_does_not_wait_for_the_prefixes_of_ever_new_others() -> None:
    """Each of them is cancelled before it has computed what both share, and begins anew."""
    engine = build_engine(FakeBackend(num_slots=2, slot_capacity=512, batch_capacity=32), collector := Collector())
    prompt = [8] * 400
    engine.submit(Sequence(Request(0, prompt, sampling=GREEDY, max_tokens=4, reuse=Reuse(cache_prompt=False))))
    engine.step()
    engine.submit(Sequence(Request(1, prompt, sampling=GREEDY, max_tokens=4)))
    for leader in range(2, 40):
        engine.step()
        if engine.scheduler.num_waiting == 0:
            break
        engine.cancel(leader - 2 if leader == 2 else leader - 1)
        engine.submit(
            Sequence(
                Request(
                    leader, prompt, sampling=GREEDY, max_tokens=4, reuse=Reuse(cache_prompt=False), due=Due(priority=-1)
                )
            )
        )
    assert engine.scheduler.num_waiting == 0
    assert leader <= MAX_LEADERS + 3
    drain(engine)
    assert collector.text[1] == text_of(alone(prompt, 4))


def test_a_request_that_everybody_outranks_enters_in_its_turn_once_it_is_aged() -> None:
    """Priority 1000 against an endless stream of -1000, and no deadline against an endless stream of them."""
    engine = build_engine(FakeBackend(num_slots=2), Collector(), clock=(clock := Clock()))
    engine.submit(Sequence(Request(0, [1], sampling=GREEDY, max_tokens=2, due=Due(priority=1000))))
    engine.submit(Sequence(Request(1, [2], sampling=GREEDY, max_tokens=2)))
    entered: list[int] = []
    for id in range(2, 400, 2):
        for each, priority in ((id, -1000), (id + 1, 0)):
            engine.submit(
                Sequence(
                    Request(
                        each,
                        [3],
                        sampling=GREEDY,
                        max_tokens=2,
                        due=Due(priority=priority, created_s=clock.now_s, deadline_s=1e6 + id),
                    )
                )
            )
        engine.step()
        if clock.now_s < AGED_S:
            entered.clear()
            assert not {0, 1} & {sequence.id for sequence in engine.scheduler.running}, "rank alone decides until then"
        entered += [sequence.id for sequence in engine.scheduler.running if sequence.id not in entered]
        clock.now_s += 0.5
    assert [id for id in entered[: 2 + 2 * EVERY] if id < 2] == [0, 1]


@given(kinds=st.lists(st.booleans(), min_size=1, max_size=60), num_aged=st.integers(1, 6))
def test_one_of_four_turns_is_the_oldests_whatever_else_is_taken(kinds: list[bool], num_aged: int) -> None:
    """The k-th oldest is taken by the 4 k-th time, and three of four go by rank."""
    turns, taken = Turns(), list[str]()
    aged = [f"aged {number}" for number in range(num_aged)]
    for number, several_at_once in enumerate(kinds):
        ranked = [f"ranked {number}.{each}" for each in range(5)]
        waiting = [*ranked, *(one for one in reversed(aged) if one not in taken)]
        oldest_first = [one for one in aged if one not in taken]
        for one, as_oldest in turns.order(waiting, lambda: oldest_first):  # noqa: B023  called at once
            turns.taken(as_oldest=as_oldest)
            taken.append(one)
            if not several_at_once or len(taken) % 3 == 0:
                break
    for number, one in enumerate(aged, 1):
        assert (one in taken[: EVERY * number]) == (len(taken) >= EVERY * number)


LAYOUTS: list[dict[str, Any]] = [
    {},
    {"can_rewind": False},
    {"window": 8},
    {"num_cells": 128},
    {"num_cells": 200},
]
MAX_STEPS = 4000
"""Of one token for a small part of the batch each, where 4 slots, 40 others and 8 leaders are before a request."""
MAX_CROWD = 24


class Crowd(NamedTuple):
    """What comes without an end: one of these, and then the next, whenever there is room in the line."""

    family: int
    common: int
    num_tokens: int
    priority: int
    timeout_s: float
    cancelled_after: int | None
    cache_prompt: bool
    burst: int
    is_batch: bool = False


class Storm(RuleBasedStateMachine):
    """Patient requests among a crowd that never ends, outranks them, shares their prefixes, hangs up and comes again.

    A second goes by with every step.
    """

    @initialize(slots=st.integers(1, 4), batch=st.integers(4, 40), layout=st.sampled_from(LAYOUTS),
                host=st.sampled_from([0, 300]), most=st.integers(0, 4), price=st.sampled_from([0, 32]),
                disk=st.none() | st.fixed_dictionaries({
                    "max_entries": st.sampled_from([2, 100]), "looks": st.integers(1, 40),
                    "num_prefetched": st.integers(1, 3), "hangs": st.booleans(), "fails": st.booleans()}))  # fmt: skip
    def start(
        self, slots: int, batch: int, layout: dict[str, Any], host: int, most: int, price: int,
        disk: dict[str, Any] | None,
    ) -> None:  # fmt: skip
        self.collector, self.clock = Collector(), Clock()
        backend = FakeBackend(num_slots=slots, slot_capacity=128, batch_capacity=batch, **layout)
        tier: OpenDisk | None = None if disk is None else lambda _: cast(Any, FakeDiskCache(**disk))
        self.engine = build_engine(backend, self.collector, tiers=Tiers(host, most, tier), clock=self.clock)
        if backend.num_cells is None:
            self.engine.kv.residency.copy_tokens = price
        self.ids = itertools.count()
        self.crowds = [Crowd(1, 60, 4, -1000, math.inf, None, cache_prompt=True, burst=1)]
        self.next_crowd = 0
        self.cancels: dict[int, int] = {}
        self.coming: list[tuple[int, FakeRows]] = []
        self.patient: dict[int, int] = {}
        """Those that are not answered, and the step in which each came."""
        self.num_steps = 0

    @rule(crowd=st.builds(
        Crowd, family=st.integers(1, 3), common=st.integers(1, 100), num_tokens=st.integers(1, 20),
        priority=st.integers(-1000, 1000), timeout_s=st.sampled_from([5.0, 60.0, math.inf]),
        cancelled_after=st.none() | st.integers(0, 20), cache_prompt=st.booleans(),
        burst=st.integers(1, 6), is_batch=st.booleans()))  # fmt: skip
    def a_crowd_comes(self, crowd: Crowd) -> None:
        self.crowds = [*self.crowds, crowd][-4:]

    @rule(family=st.integers(1, 3), common=st.integers(1, 100), count=st.none() | st.integers(1, 20),
          priority=st.integers(-1000, 1000), cache_prompt=st.booleans(), delay=st.integers(0, 30),
          is_batch=st.booleans(),
          pictures=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 2)), max_size=2))  # fmt: skip
    def a_patient_one_comes(
        self, family: int, common: int, count: int | None, priority: int, cache_prompt: bool, delay: int,
        is_batch: bool, pictures: list[tuple[int, int]],
    ) -> None:  # fmt: skip
        """The rows of its pictures come when they come."""
        prompt, spans = illustrated([family] * common + [9, family], pictures, are_there=delay == 0)
        sequence = self.arrives(
            prompt, count, priority, math.inf, cache_prompt=cache_prompt, spans=spans, is_batch=is_batch
        )
        self.patient[sequence.id] = self.num_steps
        self.coming += [(self.num_steps + delay, cast(FakeRows, span.of.source)) for span in spans if delay]

    @rule()
    def slots_are_written_to_the_disk(self) -> None:
        if self.engine.writeback is not None:
            for slot in range(self.engine.kv.residency.num_slots):
                self.engine.writeback.store_next(slot)

    @precondition(lambda self: self.patient)
    @rule(which=st.integers(0, 100))
    def a_patient_one_hangs_up(self, which: int) -> None:
        self.engine.cancel(id := sorted(self.patient)[which % len(self.patient)])
        del self.patient[id]

    @rule(count=st.integers(1, 30))
    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()

    def teardown(self) -> None:
        while getattr(self, "patient", None):
            self.step()

    def arrives(
        self, prompt: list[int], count: int | None, priority: int, timeout_s: float, *, cache_prompt: bool,
        spans: Many[Span] = (), is_batch: bool = False,
    ) -> Sequence:  # fmt: skip
        now_s = self.clock.now_s
        sequence = Sequence(
            Request(
                next(self.ids),
                prompt,
                spans=spans,
                sampling=GREEDY,
                max_tokens=count,
                due=Due(priority, is_batch, created_s=now_s, deadline_s=now_s + timeout_s),
                reuse=Reuse(cache_prompt=cache_prompt),
            )
        )
        self.engine.submit(sequence)
        return sequence

    def step(self) -> None:
        """The crowd fills the line up, some of it hangs up, and everybody goes on by a step."""
        num_free = MAX_CROWD - self.engine.scheduler.num_waiting
        while num_free > 0:
            crowd = self.crowds[self.next_crowd % len(self.crowds)]
            self.next_crowd += 1
            for number in range(crowd.burst):
                prompt = [crowd.family] * crowd.common + [number % 5 + 1]
                one = self.arrives(
                    prompt, crowd.num_tokens, crowd.priority, crowd.timeout_s, cache_prompt=crowd.cache_prompt,
                    is_batch=crowd.is_batch,
                )  # fmt: skip
                if crowd.cancelled_after is not None:
                    self.cancels[one.id] = self.num_steps + crowd.cancelled_after
                num_free -= 1
        for id in [id for id, step in self.cancels.items() if step <= self.num_steps]:
            del self.cancels[id]
            self.engine.cancel(id)
        for _, rows in [one for one in self.coming if one[0] <= self.num_steps]:
            rows.come()
        self.coming = [one for one in self.coming if one[0] > self.num_steps]
        self.engine.step()
        self.num_steps += 1
        self.clock.now_s += 1
        for id, came in list(self.patient.items()):
            if id in self.collector.finish:
                del self.patient[id]
            else:
                assert self.num_steps - came < MAX_STEPS, f"request {id} is passed for ever"


TestStorm = Storm.TestCase
TestStorm.settings = settings(max_examples=120, stateful_step_count=15)


def test_slots_are_kept_each_once_even_while_they_go_on() -> None:
    """What a stream has computed meanwhile is never on the disk."""
    disk = FakeDiskCache()
    engine = build_engine(
        FakeBackend(slot_capacity=512, batch_capacity=512),
        Collector(),
        tiers=Tiers(open_disk=lambda _: cast(Any, disk)),
    )
    for id in (1, 2):
        engine.submit(Sequence(Request(id, [id] * 70, sampling=GREEDY, max_tokens=400)))
    while engine.scheduler.num_streams < 2:
        engine.step()
    assert engine.writeback is not None
    first, kept = 0, list[int]()
    while (slot := engine.writeback.store_next(first)) is not None:
        engine.step()
        kept.append(slot)
        first = slot + 1
    assert kept == [0, 1]
    assert engine.writeback.next() == 0, "it has gone on since"


def test_a_conversation_is_written_although_somebody_looks_at_the_engine_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The chat page asks twice a second what slots do."""
    disk, clock = FakeDiskCache(), Clock()
    engine = build_engine(
        FakeBackend(slot_capacity=256, batch_capacity=128),
        Collector(),
        tiers=Tiers(open_disk=lambda _: cast(Any, disk)),
        clock=clock,
    )
    stored_s: list[float] = []
    store = disk.store

    def remembering(*args: Any, **options: Any) -> None:
        stored_s.append(clock.now_s)
        store(*args, **options)

    def wait(timeout_s: float | None) -> Item:
        if timeout_s is not None and timeout_s < 0.5:
            clock.now_s += timeout_s
            raise queue.Empty
        clock.now_s += 0.5
        return Stop() if clock.now_s > 20 else Inspect(lambda _: None)

    monkeypatch.setattr(disk, "store", remembering)
    monkeypatch.setattr(engine._inbox, "wait", wait)
    engine.submit(Sequence(Request(0, [5] * 100, sampling=GREEDY, max_tokens=4)))
    drain(engine)
    engine.run()
    assert len(stored_s) == 1
    assert STORE_AFTER_S - 0.5 <= stored_s[0] <= STORE_AFTER_S + 0.5


def in_a_slot(sequence: Sequence) -> Sequence:
    """With nothing computed."""
    sequence.progress.held = SlotRecord(0, 0)
    return sequence


@settings(max_examples=150)
@given(
    prompts=st.lists(st.integers(2, 300), min_size=1, max_size=5),
    num_streams=st.integers(0, 3),
    machines=st.lists(st.tuples(MACHINES, st.sampled_from([0.001, 0.1, 0.3])), min_size=1, max_size=4),
    newcomer=st.integers(2, 90),
)
def test_every_prompt_goes_on_beside_streams_and_ever_new_short_ones(
    prompts: list[int], num_streams: int, machines: list[tuple[Machine, float]], newcomer: int
) -> None:
    """However slow the machine, whatever a tile costs there, and whatever changes from step to step."""
    shares = Shares(batch_capacity=128)
    running = [in_a_slot(Sequence(Request(id, [1], sampling=GREEDY))) for id in range(num_streams)]
    patient = [
        in_a_slot(Sequence(Request(100 + id, [1] * length, sampling=GREEDY))) for id, length in enumerate(prompts)
    ]
    running += patient
    budgets = itertools.cycle([StepBudget(step_s, 2 * step_s, machine.known()) for machine, step_s in machines])
    for number in range(700 * len(patient) * (len(machines) + 1)):
        share = shares.of(running, next(budgets))
        assert sum(share.values()) <= 128
        for one in running:
            if one.progress.num_prompt > 1:
                one.progress.held.length += share[one.id]
        running = [one for one in running if one.progress.num_prompt == 1 or one.progress.num_pending > 0]
        while len(running) < 8:
            one = Sequence(Request(1000 + number, [1] * newcomer, sampling=GREEDY, due=Due(created_s=number + 1)))
            running.append(in_a_slot(one))
            number += 10_000
        if all(one.progress.num_pending <= 0 for one in patient):
            return
    raise AssertionError("somebody's prompt is never computed")
