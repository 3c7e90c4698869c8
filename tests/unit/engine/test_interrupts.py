"""While nobody streams prompts get whole batches, and who arrives, hangs up or is late ends them: at a bounded cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localllm.engine.building import build_engine
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.engine import Engine, StepOutput
from localllm.engine.inbox import Cancel, Inbox, Item
from localllm.engine.interrupting import ARRIVAL_DELAY_S
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Due, Request, Reuse
from localllm.engine.scheduling.cost import StepCost
from localllm.engine.scheduling.pace import StepBudget, StepLimits
from localllm.engine.scheduling.shares import Shares
from localllm.engine.scheduling.whole import (
    ALLOWED_LOSS_S,
    INTERRUPTION_COST_S,
    LONGEST_UBATCH_S,
    LOSS_SHARE,
    Interruptions,
    WholeBatches,
)
from localllm.engine.speculation.proposals import Proposal
from localllm.engine.speculation.proposers import Proposer, Proposers
from localllm.engine.threads.governor import Governor
from localllm.engine.threads.team import Clocks, Team
from tests.draining import drain
from tests.fakes import FakeBackend, alone, illustrated, next_token
from tests.unit.engine.test_engine import GREEDY, Collector, text_of

UBATCH, BATCH = 16, 64


def make(
    *, others_s: Callable[[], float] | None = None, proposer: Proposer | None = None, **backend: Any
) -> tuple[FakeBackend, Engine, Collector]:
    """An engine that has measured how fast it is: 100 tokens/s. `others_s`: CPU time that others have used."""
    fake = FakeBackend(**{"slot_capacity": 512, "batch_capacity": BATCH, "ubatch_capacity": UBATCH, **backend})
    fake.token_s = 0.01
    collector = Collector()
    team = None
    if others_s is not None:
        clocks = Clocks(lambda: fake.now_s, lambda: fake.now_s, machine=lambda: fake.now_s + others_s())
        team = Team(Governor(2), clocks)
    engine = build_engine(
        fake,
        collector,
        clock=lambda: fake.now_s,
        limits=StepLimits(0.3),
        tiers=Tiers(10_000, 4),
        team=team,
        proposers=Proposers(proposer),
    )
    engine.submit(Sequence(Request(-1, [3] * 20, sampling=GREEDY, max_tokens=1, reuse=Reuse(cache_prompt=False))))
    drain(engine)
    fake.batches.clear()
    return fake, engine, collector


def at(fake: FakeBackend, seconds: float, act: Any) -> None:
    """Done once in the middle of a decode."""

    def during() -> None:
        if fake.now_s >= seconds - 1e-9:
            fake.during = lambda: None
            act()

    fake.during = during


def test_a_prompt_alone_gets_whole_batches_and_beside_a_stream_it_does_not() -> None:
    fake, engine, collector = make()
    engine.submit(Sequence(Request(1, [5] * 200, sampling=GREEDY, max_tokens=30)))
    engine.step()
    assert [len(segment.tokens) for segment in fake.batches[-1]] == [BATCH]
    while engine.scheduler.num_streams == 0:
        engine.step()
    engine.submit(Sequence(Request(2, [6] * 200, sampling=GREEDY, max_tokens=1)))
    engine.step()
    assert sum(len(segment.tokens) for segment in fake.batches[-1]) <= 33
    drain(engine)
    assert collector.text[1] == text_of(alone([5] * 200, 30))


def test_where_a_decode_cannot_be_interrupted_steps_stay_short() -> None:
    fake, engine, _ = make(ubatch_capacity=None)
    engine.submit(Sequence(Request(1, [5] * 200, sampling=GREEDY, max_tokens=1)))
    engine.step()
    assert [len(segment.tokens) for segment in fake.batches[-1]] == [BATCH], "64 tokens are taken in any case"
    fake, engine, _ = make(ubatch_capacity=None, batch_capacity=512)
    engine.submit(Sequence(Request(1, [5] * 500, sampling=GREEDY, max_tokens=1)))
    engine.step()
    assert [len(segment.tokens) for segment in fake.batches[-1]] == [64], "of 512 that fit"


def test_after_a_core_was_given_up_a_batch_is_short_so_that_it_is_soon_taken_back() -> None:
    """A burst's own arrival keeps a core busy for a moment; its prompts are not to have one thread for seconds."""
    others_s = 0.0
    fake, engine, _ = make(others_s=lambda: others_s, batch_capacity=512)
    fake.now_s, others_s = fake.now_s + 1, 1.0
    engine.submit(Sequence(Request(1, [5] * 400, sampling=GREEDY, max_tokens=1)))
    engine.step()
    assert [len(segment.tokens) for segment in fake.batches[-1]] == [32]
    engine.step()
    assert [len(segment.tokens) for segment in fake.batches[-1]] == [368], "all that is left, with all threads"


@pytest.mark.parametrize("after_s", [0.005, 0.1, 0.2, 0.3])
def test_whoever_is_cancelled_frees_its_slot_soon_in_the_middle_of_a_batch(after_s: float) -> None:
    fake, engine, collector = make()
    engine.submit(Sequence(Request(1, [5] * 300, sampling=GREEDY, max_tokens=1)))
    asked_s = fake.now_s + after_s
    at(fake, asked_s, lambda: engine.cancel(1))
    engine.step()
    engine.step()
    assert collector.finish[1].reason == "cancelled"
    assert engine.scheduler.running == []
    assert fake.now_s <= asked_s + ARRIVAL_DELAY_S + 0.02
    engine.check_integrity()


def test_who_arrives_in_the_middle_of_a_long_prompt_is_computed_next() -> None:
    fake, engine, collector = make()
    engine.submit(Sequence(Request(1, [5] * 400, sampling=GREEDY, max_tokens=1)))
    engine.step()
    arrived_s = fake.now_s + 0.2
    at(fake, arrived_s, lambda: engine.submit(Sequence(Request(2, [6] * 10, sampling=GREEDY, max_tokens=2))))
    while 2 not in collector.text:
        engine.step()
    assert fake.now_s - arrived_s < ARRIVAL_DELAY_S + 13 * fake.token_s, "alone, since it ends much sooner"
    drain(engine)
    assert collector.text[1] == text_of(alone([5] * 400, 1))


class Forces:
    """After a prompt of that many tokens only one token may come."""

    def __init__(self, num_prompt: int, forced: int) -> None:
        self._num_prompt = num_prompt
        self._proposal = Proposal((forced,))

    def propose(self, sequence: Sequence) -> Proposal | None:
        return (
            self._proposal if sequence.progress.num_tokens == self._num_prompt == sequence.progress.num_prompt else None
        )


def test_a_forced_first_token_is_not_lost_with_an_interrupted_batch() -> None:
    """No row is computed for it: a whole ubatch that computed the prompt's last token must not count as its draw."""
    prompt = [4] * 20
    fake, engine, collector = make(proposer=Forces(20, next_token(prompt)), window=8, slack=UBATCH)
    engine.submit(Sequence(Request(1, prompt, sampling=GREEDY, max_tokens=4)))
    engine.submit(Sequence(Request(2, [6] * 300, sampling=GREEDY, max_tokens=1)))
    engine.step()
    assert [len(segment.tokens) for segment in fake.batches[-1]] == [19], "up to its checkpoint; then all take part"
    at(fake, fake.now_s + 0.07, lambda: engine.call_soon(lambda: None))
    engine.step()
    assert fake.length(1) > 0, "the first ubatch was complete"
    assert fake.lost_s > 0, "the second was interrupted"
    drain(engine, limit=200)
    assert collector.text[1] == text_of(alone(prompt, 4))


def test_who_finds_no_slot_ends_a_batch_only_where_that_costs_nothing() -> None:
    fake, engine, collector = make(num_slots=1)
    engine.submit(Sequence(Request(1, [5] * 400, sampling=GREEDY, max_tokens=1)))
    engine.step()
    at(fake, fake.now_s + 0.2, lambda: engine.submit(Sequence(Request(2, [6] * 10, sampling=GREEDY, max_tokens=2))))
    before = len(fake.held[0])
    engine.step()
    assert len(fake.held[0]) - before == 2 * UBATCH
    assert fake.lost_s == pytest.approx(0.01), "the first token of the ubatch after"
    drain(engine)
    assert collector.text[2] == text_of(alone([6] * 10, 2))


def test_who_begins_with_a_prefix_that_is_awaited_already_ends_no_batch_and_who_does_not_is_computed_next() -> None:
    fake, engine, collector = make(num_slots=4)
    engine.submit(Sequence(Request(1, [5] * 60 + [6], sampling=GREEDY, max_tokens=1)))
    engine.submit(Sequence(Request(2, [5] * 60 + [7], sampling=GREEDY, max_tokens=1)))
    began_s = fake.now_s
    late = [
        Sequence(Request(id, prompt, sampling=GREEDY, max_tokens=2))
        for id, prompt in ((3, [5] * 60 + [8]), (4, [9] * 10))
    ]
    at(fake, began_s + 0.03, lambda: engine.submit(late[0]))
    engine.step()
    assert fake.lost_s == pytest.approx(0.01), "the first token of the ubatch after"
    at(fake, fake.now_s + 0.03, lambda: engine.submit(late[1]))
    engine.step()
    assert fake.lost_s == pytest.approx(0.03), "little is lost, and it need not wait"
    drain(engine)
    assert [collector.finish[id].usage.cached_tokens for id in (2, 3)] == [60, 60]
    assert [collector.text[each.id] for each in late] == [
        text_of(alone(each.progress.prompt.tolist(), 2)) for each in late
    ]


@pytest.mark.parametrize("is_waiting", [False, True])
def test_a_deadline_ends_a_batch_whether_its_request_runs_or_waits(is_waiting: bool) -> None:
    fake, engine, collector = make(num_slots=1)
    ends_s = fake.now_s + 0.37
    first = Sequence(Request(1, [5] * 300, sampling=GREEDY, due=Due(deadline_s=math.inf if is_waiting else ends_s)))
    engine.submit(first)
    if is_waiting:
        engine.submit(Sequence(Request(2, [6] * 10, sampling=GREEDY, due=Due(queue_deadline_s=ends_s))))
    failed_s: list[float] = []

    def emit(output: StepOutput) -> None:
        collector(output)
        failed_s.extend(fake.now_s for _ in output.failures)

    engine._cycle.reporter._emit = emit
    while not failed_s:
        engine.step()
    assert ends_s <= failed_s[0] <= ends_s + 0.02
    assert list(collector.failures) == [2 if is_waiting else 1]


def test_a_call_a_look_and_a_stop_end_a_batch() -> None:
    fake, engine, _ = make()
    done: list[float] = []
    for ask in (
        lambda: engine.call_soon(lambda: done.append(fake.now_s)),
        lambda: engine.inspect(lambda _: done.append(fake.now_s)),
        engine.stop,
    ):
        engine.submit(Sequence(Request(len(done), [5 + len(done)] * 300, sampling=GREEDY, max_tokens=1)))
        asked_s = fake.now_s + 0.2
        at(fake, asked_s, ask)
        engine.step()
        engine.step()
        if not engine._stopping:
            assert asked_s <= done[-1] <= asked_s + 0.32
            engine.cancel(len(done) - 1)
            engine.step()
    assert engine._stopping
    assert fake.now_s <= asked_s + ARRIVAL_DELAY_S + 0.02, "no other batch was begun"


def test_texts_to_embed_that_arrive_are_computed_between_short_steps() -> None:
    class Texts:
        has_work = False

        def step(self, num_streams: int) -> None:
            pass

    texts = Texts()
    fake = FakeBackend(slot_capacity=512, batch_capacity=256, ubatch_capacity=UBATCH)
    fake.token_s = 0.01
    engine = build_engine(fake, Collector(), clock=lambda: fake.now_s, limits=StepLimits(0.7), beside=texts)
    engine.submit(Sequence(Request(1, [5] * 500, sampling=GREEDY, max_tokens=1)))
    engine.step()
    engine.step()
    assert len(fake.batches[-1][0].tokens) > 64
    texts.has_work = True
    engine.step()
    assert len(fake.batches[-1][0].tokens) <= 70


LAYOUTS: list[dict[str, Any]] = [{}, {"window": 8, "slack": UBATCH}, {"num_cells": 600}, {"can_rewind": False}]


@settings(max_examples=10, deadline=None)
@given(
    layout=st.sampled_from(LAYOUTS),
    prompts=st.lists(st.integers(1, 300), min_size=1, max_size=6),
    pictures=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 5)), max_size=4),
    gaps=st.lists(st.floats(0.001, 1.5), min_size=1, max_size=30),
    kinds=st.lists(st.sampled_from(["submit", "cancel", "call", "inspect", "hopeless"]), min_size=1, max_size=10),
)
def test_whatever_arrives_every_prompt_is_answered_as_if_alone_and_little_is_lost(
    layout: dict[str, Any], prompts: list[int], pictures: list[tuple[int, int]], gaps: list[float], kinds: list[str]
) -> None:
    """Something arrives without an end; what is lost is bounded by what was computed."""
    fake, engine, collector = make(num_slots=3, **layout)
    patient = {}
    for id, length in enumerate(prompts):
        patient[id], spans = illustrated([id + 1] * length, pictures[id % 3 :])
        engine.submit(Sequence(Request(id, patient[id], spans=spans, sampling=GREEDY, max_tokens=3)))
    ids, gap, kind = itertools.count(1000), itertools.cycle(gaps), itertools.cycle(kinds)
    next_s = fake.now_s + next(gap)
    lost_s, started_s = 0.0, fake.now_s
    lose = engine._cycle._planner._interrupter._interruptions.lost

    def lost(seconds: float) -> None:
        nonlocal lost_s
        lost_s += seconds
        lose(seconds)

    engine._cycle._planner._interrupter._interruptions.lost = lost  # type: ignore[method-assign]

    def during() -> None:
        nonlocal next_s
        while fake.now_s >= next_s:
            next_s += next(gap)
            what = next(kind)
            if what in ("submit", "hopeless"):
                deadline_s = fake.now_s + 0.15 if what == "hopeless" else math.inf
                one = Sequence(
                    Request(next(ids), [9, 8], sampling=GREEDY, max_tokens=1, due=Due(queue_deadline_s=deadline_s))
                )
                engine.submit(one)
            elif what == "cancel":
                engine.submit(Sequence(Request(id := next(ids), [7] * 40, sampling=GREEDY, max_tokens=1)))
                engine.cancel(id)
            elif what == "call":
                engine.call_soon(lambda: None)
            else:
                engine.inspect(lambda _: None)

    fake.during = during
    for _ in range(3000):
        engine.step()
        engine.check_integrity()
        if all(id in collector.finish for id in patient):
            break
    for id, prompt in patient.items():
        assert collector.text[id] == text_of(alone(prompt, 3))
    spent_s = fake.now_s - started_s
    one_s = UBATCH * fake.token_s
    assert lost_s <= ALLOWED_LOSS_S + one_s + LOSS_SHARE * (spent_s - lost_s) + 1e-6


@given(
    events=st.lists(st.tuples(st.booleans(), st.floats(0, 3)), max_size=200),
)
def test_no_more_is_lost_than_is_said(events: list[tuple[bool, float]]) -> None:
    interruptions, lost_s, computed_s, largest_s = Interruptions(), 0.0, 0.0, INTERRUPTION_COST_S
    for is_interrupted, seconds in events:
        if is_interrupted and interruptions.are_allowed:
            interruptions.lost(seconds)
            lost_s, largest_s = lost_s + seconds, max(largest_s, seconds)
        else:
            interruptions.computed(seconds)
            computed_s += seconds
        assert lost_s <= ALLOWED_LOSS_S + largest_s + LOSS_SHARE * computed_s + 1e-9


def prompts_of(*lengths: int) -> list[Sequence]:
    return [Sequence(Request(id, [1] * length, sampling=GREEDY)) for id, length in enumerate(lengths)]


@pytest.mark.parametrize(
    ("lengths", "tokens"),
    [
        ([6000], 2048),
        ([700], 700),
        ([6000, 6000], 512),  # in one ubatch: llama.cpp gives each an equal part of every one
        ([72, 6000], 144),  # both get 72, and the short one its first token
        ([5, 6000], 128),
        ([72] * 8, 512),
        ([60, 70], 130),  # nearly alike: together
    ],
)
def test_a_step_takes_as_much_of_prompts_as_makes_nobody_wait_for_long(lengths: list[int], tokens: int) -> None:
    cost = StepCost()
    whole = WholeBatches(cost, batch_capacity=2048, ubatch_capacity=512)
    bounded = StepBudget(0.1, 0.2, cost)
    assert whole.budget(bounded, prompts_of(*lengths), []) == bounded, "nothing was measured yet"
    cost.observe([(0, 0, 512)], 0.5)
    budget = whole.budget(bounded, prompts_of(*lengths), [])
    assert budget.most_tokens == tokens
    cost.observe([(0, 0, 512)], 50)
    cost.observe([(0, 0, 512)], 50)
    assert whole.budget(bounded, prompts_of(*lengths), []).step_s <= LONGEST_UBATCH_S, "no longer ubatch is lost"


def test_short_prompts_get_their_first_tokens_in_one_step_beside_longer_ones() -> None:
    cost = StepCost()
    cost.observe([(0, 0, 512)], 2.0)
    whole = WholeBatches(cost, batch_capacity=2048, ubatch_capacity=512)
    running = prompts_of(205, 205, 205, 205, 27, 27, 27, 27)
    budget = whole.budget(StepBudget(0.3, 0.6, cost), running, [])
    share = Shares(batch_capacity=2048).of(running, budget)
    assert set(share.values()) == {27}, "one pass, although 0.3 s is enough for fewer rows"


def test_a_batch_ends_where_a_prefix_ends_that_others_wait_for() -> None:
    fake, engine, collector = make(batch_capacity=256)
    engine.submit(Sequence(Request(1, [5] * 400, sampling=GREEDY, max_tokens=1)))
    engine.submit(Sequence(Request(2, [5] * 100 + [6] * 20, sampling=GREEDY, max_tokens=1)))
    drain(engine)
    computed = list(itertools.accumulate(len(batch[0].tokens) for batch in fake.batches if len(batch) == 1))
    assert 100 in computed, "the prefix, and no more before the other begins"
    assert collector.finish[2].usage.cached_tokens == 100


def test_a_prefix_that_others_wait_for_is_computed_to_its_end_and_not_in_whole_tiles() -> None:
    fake, engine, collector = make(batch_capacity=512)
    engine.submit(Sequence(Request(1, [5] * 133 + [6] * 20, sampling=GREEDY, max_tokens=1)))
    engine.submit(Sequence(Request(2, [5] * 133 + [7] * 20, sampling=GREEDY, max_tokens=1)))
    first = len(fake.batches)
    drain(engine)
    assert [len(part.tokens) for part in fake.batches[first]] == [133]
    assert collector.finish[2].usage.cached_tokens == 133


def test_prefixes_that_end_nearly_together_are_computed_in_one_step_and_waited_for_once() -> None:
    """Prompts go on alike by chance after what they share on purpose."""
    fake, engine, collector = make(batch_capacity=256)
    shared = [5] * 100
    for id, tail in enumerate(([6, 7, 8] + [6] * 30, [9] * 20, [6] + [9] * 20, [6, 7] + [9] * 20), start=1):
        engine.submit(Sequence(Request(id, shared + tail, sampling=GREEDY, max_tokens=1)))
    drain(engine)
    first = itertools.takewhile(lambda batch: len(batch) == 1, fake.batches)
    assert [len(batch[0].tokens) for batch in first] == [102], "the longest of the prefixes"
    assert [collector.finish[id].usage.cached_tokens for id in (2, 3, 4)] == [100, 101, 102]


def test_nobody_waits_for_a_step_that_would_compute_one_shared_token_more() -> None:
    fake, engine, collector = make(batch_capacity=256, num_slots=4)
    shared = [5] * 100
    engine.submit(Sequence(Request(1, [*shared, 6, *([7] * 30)], sampling=GREEDY, max_tokens=1)))
    engine.submit(Sequence(Request(2, [*shared, 9, 9], sampling=GREEDY, max_tokens=1)))
    while sum(len(segment.tokens) for batch in fake.batches for segment in batch) < 100:
        engine.step()
    engine.submit(Sequence(Request(3, [*shared, 6, 9], sampling=GREEDY, max_tokens=1)))
    engine.step()
    assert {2, 3} <= collector.finish.keys(), "computed side by side at once"
    assert collector.finish[3].usage.cached_tokens == 100


def test_what_was_taken_is_announced_no_more_and_what_arrives_later_is() -> None:
    announced: list[Item] = []
    inbox = Inbox(announced.append, announced.clear)
    inbox.put(Cancel(1))
    inbox.put(Cancel(2))
    assert inbox.take_all() == [Cancel(1), Cancel(2)]
    assert announced == []
    inbox.put(Cancel(3))
    assert announced == [Cancel(3)]
