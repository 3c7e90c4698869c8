"""A request that outranks a running one takes its slot, and the other goes on later as if nothing had been."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any, NamedTuple

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from localllm.engine.building import build_engine
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.engine import Engine
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import DUE, Due, Request
from localllm.engine.scheduling.aging import AGED_S
from localllm.engine.scheduling.parking import MARGIN, TENURE_S
from localllm.engine.scheduling.rows import assumed_cost
from localllm.engine.speculation.guesser import Experience, Guesser
from tests.draining import drain
from tests.fakes import FakeBackend, alone, grouped
from tests.machines import XEON, MachineBackend
from tests.unit.engine.test_engine import GREEDY, Collector, text_of
from tests.unit.engine.test_guesses_beside import SLOT, SLOTS, Asked, answers, close, requests
from tests.unit.engine.test_interrupts import at, make
from tests.unit.engine.test_proposals import dear
from tests.unit.engine.test_speculation import Repeating, mutated

BATCH = Due(is_batch=True)
ROOM = Tiers(10_000, 4)
LAYOUTS: list[dict[str, Any]] = [{}, {"can_rewind": False}, {"window": 8}, {"num_cells": 128}, {"num_cells": 200}]


def ask(engine: Engine, id: int, prompt: list[int], count: int, due: Due = DUE, **options: Any) -> Sequence:
    made = {**grouped(options), "due": due}
    sequence = Sequence(Request(id, prompt, sampling=GREEDY, max_tokens=count, **made))
    engine.submit(sequence)
    return sequence


def filled(num_slots: int = 1, tiers: Tiers = ROOM, **backend: Any) -> tuple[FakeBackend, Engine, Collector]:
    """An engine whose slots all answer requests of the batch class, 0 and up."""
    fake, collector = FakeBackend(num_slots=num_slots, **backend), Collector()
    engine = build_engine(fake, collector, tiers=tiers, clock=lambda: fake.now_s)
    for id in range(num_slots):
        ask(engine, id, [id + 1, 7], 30, BATCH)
    for _ in range(4):
        engine.step()
    assert len(engine.scheduler.running) == num_slots
    return fake, engine, collector


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_interactive_request_takes_a_slot_at_once_and_the_other_goes_on_where_it_stopped(
    layout: dict[str, Any],
) -> None:
    fake, engine, collector = filled(2, **layout)
    first, num_before = len(fake.batches), sum(each.progress.num_computed for each in engine.scheduler.running)
    ask(engine, 9, [9], 3)
    engine.step()
    assert collector.num_tokens[9] == 1
    status = engine.scheduler
    assert (status.num_parked, status.num_waiting) == (1, 0)
    drain(engine)
    assert next(iter(collector.finish)) == 9
    for id in range(2):
        assert collector.text[id] == text_of(alone([id + 1, 7], 30))
        usage = collector.finish[id].usage
        assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (2, 30, 0)
    computed = sum(len(each.tokens) for batch in fake.batches[first:] for each in batch)
    assert computed == 2 * (2 + 29) - num_before + 3, "nothing was computed twice"
    assert (status.preemptions.total, status.preemptions.recomputed) == (1, 0)
    assert engine.kv.host.pinned == []


def test_streams_of_the_batch_class_sit_out_while_an_interactive_prompt_is_computed() -> None:
    fake, engine, _ = filled(3, slot_capacity=128)
    ask(engine, 9, [9] * 40, 5)
    fake.batches.clear()
    engine.step()
    while engine.scheduler.find(9) is not None:
        engine.step()
    sizes = [len(batch) for batch in fake.batches]
    assert sizes[:3] == [1, 1, 1], "the prompt alone, in batches of 16"
    assert set(sizes[3:]) == {3}, "then its answer, and two of the batch class"


@pytest.mark.parametrize(("priority", "takes"), [(MARGIN, True), (MARGIN - 1, False)])
def test_within_a_class_a_priority_takes_a_slot_by_a_margin_only(priority: int, takes: bool) -> None:
    engine = build_engine(FakeBackend(num_slots=1), collector := Collector(), tiers=ROOM)
    ask(engine, 1, [1], 10, Due(priority=priority))
    engine.step()
    ask(engine, 2, [2], 3)
    drain(engine)
    assert [*collector.finish] == ([2, 1] if takes else [1, 2])
    assert collector.text == {1: text_of(alone([1], 10)), 2: text_of(alone([2], 3))}


def test_batches_never_take_the_slot_of_an_interactive_request_whatever_their_priority() -> None:
    engine = build_engine(FakeBackend(num_slots=1), collector := Collector(), tiers=ROOM)
    ask(engine, 1, [1], 10, Due(priority=1000))
    engine.step()
    ask(engine, 2, [2], 3, Due(priority=-1000, is_batch=True))
    drain(engine)
    assert [*collector.finish] == [1, 2]


def test_where_main_memory_has_no_room_it_is_computed_again_once_and_that_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, engine, collector = filled(1, Tiers(0))
    for id in (8, 9):
        ask(engine, id, [id], 3)
        for _ in range(6):
            engine.step()
            engine.check_integrity()
    drain(engine)
    assert collector.text[0] == text_of(alone([1, 7], 30))
    assert engine.scheduler.preemptions.recomputed == engine.scheduler.preemptions.total == 1
    assert caplog.messages == ["parked_without_state"]


def test_what_is_parked_is_neither_evicted_nor_counted_twice() -> None:
    """Room for one state beside what others leave there."""
    _, engine, collector = filled(2, Tiers(70), slot_capacity=128)
    ask(engine, 7, [5] * 70, 2)
    drain_until(engine, 7)
    for id in range(10, 14):
        ask(engine, id, [id] * 65, 2)
        drain_until(engine, id)
        assert engine.kv.num_bytes <= 70
    drain(engine)
    for id in range(2):
        assert collector.text[id] == text_of(alone([id + 1, 7], 30))


def drain_until(engine: Engine, id: int) -> None:
    while engine.scheduler.find(id) is not None:
        engine.step()
        engine.check_integrity()


def test_a_parked_request_meets_no_deadline_of_the_queue_and_is_told_what_it_has_when_its_time_is_over() -> None:
    now_s = 0.0
    engine = build_engine(FakeBackend(num_slots=1), collector := Collector(), tiers=ROOM, clock=lambda: now_s)
    ask(engine, 1, [1], 30, Due(is_batch=True, queue_deadline_s=2.0, deadline_s=50.0))
    for _ in range(5):
        engine.step()
    ask(engine, 2, [2], 60)
    engine.step()
    now_s = 10.0
    engine.step()
    assert engine.scheduler.num_parked == 1
    now_s = 50.0
    engine.step()
    assert (collector.finish[1].reason, collector.text[1]) == ("timeout", text_of(alone([1], 5)))
    assert collector.finish[1].timings.queue_s == 0
    assert engine.kv.host.pinned == []
    drain(engine)


def test_a_parked_request_that_is_cancelled_frees_its_state_for_others() -> None:
    _, engine, collector = filled(1)
    ask(engine, 9, [9], 20)
    engine.step()
    engine.cancel(0)
    engine.step()
    assert (collector.finish[0].reason, engine.scheduler.num_parked, engine.kv.host.pinned) == ("cancelled", 0, [])
    drain(engine)
    ask(engine, 10, [1, 7, *alone([1, 7], 3), 5], 2)
    drain(engine)
    assert collector.finish[10].usage.cached_tokens == 5, "what was parked serves a prompt with the same prefix"


@pytest.mark.parametrize(
    "options",
    [
        {"prompt_logprobs": 0, "cache_prompt": False},
        {"wanted_slot": 0},
    ],
)
def test_who_could_not_go_on_elsewhere_keeps_its_slot(options: dict[str, Any]) -> None:
    engine = build_engine(FakeBackend(num_slots=1, slot_capacity=128), collector := Collector(), tiers=ROOM)
    first = ask(engine, 1, [1] * 60, 2, BATCH, **options)
    engine.step()
    ask(engine, 2, [2], 3)
    engine.step()
    assert first.slot == 0
    drain(engine)
    assert collector.text == {1: text_of(alone([1] * 60, 2)), 2: text_of(alone([2], 3))}


def test_a_wanted_slot_is_taken_from_the_one_that_has_it() -> None:
    _, engine, collector = filled(3)
    before = engine.scheduler.running
    ask(engine, 9, [9], 3, wanted_slot=1)
    engine.step()
    assert before[1].slot is None
    assert (before[0].slot, before[2].slot) == (0, 2)
    drain(engine)
    assert all(collector.text[id] == text_of(alone([id + 1, 7], 30)) for id in range(3))


def test_in_a_unified_cache_as_many_leave_as_the_prompt_needs_cells_of() -> None:
    _, engine, collector = filled(4, num_cells=140)
    ask(engine, 9, [9] * 50, 10)
    engine.step()
    assert engine.scheduler.num_parked == 2
    drain(engine)
    assert all(collector.text[id] == text_of(alone([id + 1, 7], 30)) for id in range(4))
    assert collector.text[9] == text_of(alone([9] * 50, 10))


def test_whoever_outranks_what_runs_ends_a_long_batch_though_no_slot_is_free() -> None:
    fake, engine, collector = make(num_slots=1)
    ask(engine, 1, [5] * 300, 1, BATCH)
    asked_s = fake.now_s + 0.1
    at(fake, asked_s, lambda: ask(engine, 2, [6], 1))
    engine.step()
    engine.step()
    assert [*collector.finish] == [-1, 2]
    assert fake.now_s <= asked_s + 0.25
    drain(engine)
    assert collector.text[1] == text_of(alone([5] * 300, 1))


def test_who_entered_by_age_keeps_its_slot_for_a_while_and_then_goes_on_in_its_turns() -> None:
    """Interactive requests without an end, on one slot: the other's answer comes in parts, and it comes."""
    fake = FakeBackend(num_slots=1)
    collector, ids = Collector(), itertools.count(1)
    engine = build_engine(fake, collector, tiers=ROOM, clock=lambda: now_s)
    now_s = 0.0
    sequence = ask(engine, 0, [3], 40, BATCH)
    times: list[float] = []
    while 0 not in collector.finish:
        for _ in range(5 - engine.scheduler.num_waiting):
            ask(engine, next(ids), [2], 3, Due(created_s=now_s))
        engine.step()
        engine.check_integrity()
        if sequence.slot is not None:
            times.append(now_s)
        now_s += TENURE_S / 20
        assert now_s < 300
    assert times[0] >= AGED_S
    assert max(later - one for one, later in itertools.pairwise(times)) > TENURE_S / 20, "others came between"
    assert collector.text[0] == text_of(alone([3], 40))


ARRIVALS = st.lists(
    st.tuples(
        st.lists(st.integers(1, 4), min_size=1, max_size=40),
        st.integers(1, 20),
        st.tuples(st.sampled_from([0, 0, -MARGIN, MARGIN]), st.booleans()),
        st.integers(0, 40),
        st.none() | st.integers(1, 20),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=200)
@given(
    ARRIVALS,
    st.integers(1, 4),
    st.sampled_from(LAYOUTS),
    st.sampled_from([Tiers(0), Tiers(60, 2), ROOM]),
    st.integers(4, 40),
)
def test_whoever_comes_when_and_takes_whose_slot_every_answer_is_that_of_a_request_alone(
    arrivals: list[tuple[list[int], int, tuple[int, bool], int, int | None]],
    slots: int,
    layout: dict[str, Any],
    tiers: Tiers,
    batch: int,
) -> None:
    collector = Collector()
    engine = build_engine(FakeBackend(num_slots=slots, batch_capacity=batch, **layout), collector, tiers=tiers)
    for step in range(2000):
        for id, (prompt, count, (priority, is_batch), at_step, leaves) in enumerate(arrivals):
            if step == at_step:
                ask(engine, id, prompt, count, Due(priority, is_batch))
            elif leaves is not None and step == at_step + leaves:
                engine.cancel(id)
        engine.step()
        engine.check_integrity()
        if step > 60 and not engine.scheduler.has_work:
            break
    assert not engine.scheduler.has_work
    for id, (prompt, count, *_) in enumerate(arrivals):
        whole = text_of(alone(prompt, min(count, 64 - len(prompt))))
        if collector.finish[id].reason == "cancelled":
            assert whole.startswith(collector.text[id])
        else:
            assert collector.text[id] == whole
            assert collector.finish[id].usage.completion_tokens == len(whole)
    assert engine.kv.host.pinned == []
    event("parked" if engine.scheduler.preemptions.total else "undisturbed")
    event("recomputed" if engine.scheduler.preemptions.recomputed else "nothing lost")


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(requests(False), st.booleans(), st.sampled_from([0, 200])), min_size=2, max_size=8),
    st.integers(0, 1000),
    st.sampled_from([Tiers(0), ROOM]),
)
def test_structure_guesses_scores_and_penalties_survive_parking(
    crowd: list[tuple[Asked, bool, int]], seed: int, tiers: Tiers
) -> None:
    def made() -> FakeBackend:
        return Repeating(num_slots=SLOTS - 1, slot_capacity=SLOT, batch_capacity=24, max_outputs=96)

    equals = [dataclasses.replace(one, options=one.options | {"priority": 0}) for one, _, _ in crowd]
    ranked = [
        dataclasses.replace(one, options=one.options | {"is_batch": is_batch, "priority": priority})
        for one, is_batch, priority in crowd
    ]
    plain = answers(equals, made(), shifts=False, rows=dear, guesses={})
    experience = Experience()
    guesses = {
        id: Guesser(each.wants, experience, prediction=mutated(plain.of(id).tokens[len(each.prompt) :], seed + id))
        for id, each in enumerate(equals)
        if each.has_prediction
    }
    parked = answers(ranked, made(), shifts=False, rows=assumed_cost, guesses=guesses, tiers=tiers)
    for id, each in enumerate(equals):
        one, other = plain.of(id), parked.of(id)
        if each.leaves_after is not None and "cancelled" in (one.reason, other.reason):
            shorter, longer = sorted((one.text, other.text), key=len)
            assert longer.startswith(shorter)
        else:
            assert close(one, other)


def test_under_full_load_the_first_token_is_nearly_as_early_as_alone_and_batches_keep_their_rate() -> None:
    """By the virtual clock: an interactive request every 5 s beside batches that fill all slots."""
    alone = _served(batches=0)
    beside, undisturbed = _served(batches=8), _served(batches=8, every_s=math.inf)
    assert beside.first_token_s < 1.5 * alone.first_token_s
    time_left = 1 - alone.busy_s / beside.busy_s
    assert beside.batch_tokens_s > 0.95 * time_left * undisturbed.batch_tokens_s


class Served(NamedTuple):
    first_token_s: float
    """Average of interactive requests."""
    batch_tokens_s: float
    busy_s: float


def _served(*, batches: int, every_s: float = 5.0, until_s: float = 40.0) -> Served:
    fake, collector = MachineBackend(XEON, num_slots=8), Collector()
    engine = build_engine(fake, collector, tiers=Tiers(10**9), clock=lambda: fake.now_s)
    engine.scheduler.drafter.cost = XEON.seconds
    ids, arrived, first_s = itertools.count(), dict[int, float](), dict[int, float]()
    running, next_s = set[int](), 1.0 if every_s < math.inf else math.inf
    while fake.now_s < until_s:
        running -= collector.finish.keys()
        while batches and len(running) < batches + 2:
            running.add(id := next(ids))
            ask(engine, id, [id % 90 + 1] * 200, 300, Due(is_batch=True, created_s=fake.now_s))
        if fake.now_s >= next_s:
            arrived[id := next(ids)] = next_s
            ask(engine, id, [id % 90 + 2] * 100, 10, Due(created_s=next_s), cache_prompt=False)
            next_s += every_s
        engine.step()
        for id in arrived.keys() & collector.num_tokens.keys() - first_s.keys():
            first_s[id] = fake.now_s - arrived[id]
        if not engine.scheduler.has_work:
            fake.now_s = next_s
    made = sum(num_tokens for id, num_tokens in collector.num_tokens.items() if id not in arrived)
    return Served(sum(first_s.values()) / max(1, len(first_s)), made / fake.now_s, sum(fake.steps_s))
