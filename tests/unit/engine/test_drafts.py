"""A draft model: no answer is another for it, it follows whatever happens to its texts, and rests where it costs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as Many
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localllm.engine.building import build_engine
from localllm.engine.cache.domain import Domain
from localllm.engine.engine import Engine
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Ending, Request, Reuse
from localllm.engine.scheduling.cost import Part
from localllm.engine.scheduling.rows import Cost, assumed_cost
from localllm.engine.speculation.account import Accounts
from localllm.engine.speculation.draft_cost import BlockCost
from localllm.engine.speculation.drafts import Drafts
from localllm.engine.speculation.guesser import Experience, Guesser, Speculator
from localllm.engine.speculation.head_streams import HeadStreams
from localllm.engine.speculation.lengths import Stream, best_length
from localllm.engine.speculation.proposers import DraftTarget, Proposers
from localllm.engine.speculation.streams import DraftStreams
from localllm.engine.speculation.trust import Trust
from localllm.types import ResolvedSampling, Speculative
from tests.fakes import FakeBackend, alone
from tests.unit.engine.test_constraints import SLOW_S, FakeConstraint
from tests.unit.engine.test_proposals import GREEDY, OPTIONS, SAMPLER, SAMPLINGS, SLOT, Answers, free, requests


class Clock:
    """Goes on by what is computed."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Timed(FakeBackend):
    """A pass takes time, and a row a little."""

    def __init__(self, clock: Clock, *, pass_s: float = 1.0, row_s: float = 0.02, **how: Any) -> None:
        super().__init__(**how)
        self._clock, self._pass_s, self._row_s = clock, pass_s, row_s
        self.spent_s = 0.0

    def decode(self, segments: Many[Any], *, within_s: float | None = None) -> bool:
        took_s = self._pass_s + self._row_s * sum(len(each.tokens) + each.num_padding for each in segments)
        self._clock.now_s += took_s
        self.spent_s += took_s
        return super().decode(segments, within_s=within_s)


class Draft(Timed):
    """Sure of itself; right at some places of a text and wrong at others."""

    def __init__(
        self, clock: Clock, *, wrong: float = 0.0, seed: int = 0, dies_at: int | None = None, **how: Any
    ) -> None:
        super().__init__(clock, pass_s=0.05, row_s=0.005, fails_at_step=dies_at, **how)
        self._wrong, self._seed = wrong, seed

    def _row(self, cells: list[int]) -> npt.NDArray[np.float32]:
        chooser = random.Random(1000 * self._seed + sum(cells) + len(cells))
        row = super()._row(cells) * 9
        return np.roll(row, 1) if chooser.random() < self._wrong else row


class Block(Draft):
    """Guesses several tokens in one decode, of whose last token it keeps nothing."""

    def decode(self, segments: Many[Any], *, within_s: float | None = None) -> bool:
        counts = {each.num_outputs for each in segments if each.num_outputs}
        assert len(counts) < 2, "a block of another length would take a pass of its own"
        kept = [
            each._replace(tokens=each.tokens[: len(each.tokens) - bool(each.num_outputs)], num_outputs=0)
            for each in segments
        ]
        num_rows = sum(each.num_outputs + 1 for each in segments if each.num_outputs)
        self._clock.now_s += 0.05 * bool(num_rows) + 0.005 * num_rows
        for each in segments:
            assert self.length(each.slot) == each.start, "the block before is gone"
        if any(each.tokens for each in kept):
            super().decode([each for each in kept if each.tokens], within_s=within_s)
        self._guessed = [self._block([*self.held[each.slot], each.tokens[-1]], each.num_outputs) for each in segments]
        return True

    def _block(self, cells: list[int], count: int) -> list[npt.NDArray[np.float32]]:
        rows = []
        for _ in range(count):
            rows.append(self._row(cells))
            cells.append(int(rows[-1].argmax()))
        return rows

    def logits(self, index: int) -> list[npt.NDArray[np.float32]]:
        return self._guessed[index]


class BlockStreams(DraftStreams):
    guesses_at_once = 7


class Tied(Draft):
    """Sees the cells of its target, and has of its own only the last token and what it guessed."""

    guesses_at_once, sees_last_only = 0, True

    def __init__(self, clock: Clock, **how: Any) -> None:
        super().__init__(clock, **how)
        self.target: FakeBackend = self
        self._firsts = [0] * self.num_slots

    def earliest(self, slot: int) -> int:
        return len(self.target.held[slot])

    def begins(self, slot: int, first: int) -> None:
        self._firsts[slot] = first

    def decode(self, segments: Many[Any], *, within_s: float | None = None) -> bool:
        assert all(len(each.tokens) == each.num_outputs == 1 for each in segments)
        texts = [[*self.target.held[each.slot][: self._firsts[each.slot]], *self.held[each.slot]] for each in segments]
        self._made = [self._row([*text, *each.tokens]) for text, each in zip(texts, segments, strict=True)]
        return super().decode(segments, within_s=within_s)

    def logits(self, index: int) -> list[npt.NDArray[np.float32]]:
        return [self._made[index]]


WAYS = {"chain": Draft, "block": Block, "tied": Tied}


def drafting(
    draft: Draft, clock: Clock, made: list[Drafts] | None = None, streams: DraftStreams | None = None
) -> Callable[[DraftTarget], Drafts]:
    """For an engine that makes its draft; `made` gets what was made."""

    def make(target: DraftTarget) -> Drafts:
        drafts = Drafts(draft, target, clock=clock, share=0.1, streams=streams)
        if made is not None:
            made.append(drafts)
        return drafts

    return make


def steps(
    sequences: list[Sequence], backend: Timed, draft: Draft, clock: Clock, *, cost: Cost | None = None, **how: Any
) -> tuple[Answers, Drafts]:
    """All answers, and what drafted for them."""
    streams: DraftStreams | None = BlockStreams(draft) if isinstance(draft, Block) else None
    if isinstance(draft, Tied):
        draft.target, streams = backend, HeadStreams(draft)
    answers, made = Answers(sequences), list[Drafts]()
    engine = build_engine(
        backend,
        answers,
        sampler=SAMPLER,
        clock=clock,
        proposers=Proposers(Speculator(), drafting(draft, clock, made, streams)),
        **how,
    )
    (drafts,) = made
    if cost is not None:
        engine.scheduler.drafter.cost = cost
    for sequence in sequences:
        engine.submit(sequence)
    for _ in range(4000):
        engine.step()
        engine.check_integrity()
        held = draft.held
        assert drafts.is_off or all(stream.tokens == held[stream.slot] for stream in drafts._streams._streams)
        if not engine.scheduler.has_work:
            return answers, drafts
    raise AssertionError("the engine never ran out of work")


MEMORIES: dict[str, dict[str, Any]] = {
    "partitioned": {},
    "unified": {"num_cells": 3 * SLOT},
    "window": {"window": 8},
    "recurrent": {"can_rewind": False, "snapshots": 3},
}


def guessed(sequences: list[Sequence], experience: Experience | None = None, **wanted: Any) -> list[Sequence]:
    experience = experience or Experience(drafted_by="draft")
    for one in sequences:
        one.drawing.guesser = Guesser(Speculative(**wanted), experience) if one.request.takes_guesses else None
    return sequences


def answer(prompt: Many[int], count: int, id: int = 0) -> Sequence:
    return Sequence(Request(id, prompt, sampling=GREEDY, max_tokens=count, ending=Ending(ignore_eos=True)))


@settings(max_examples=60, deadline=None)
@given(
    SAMPLINGS,
    OPTIONS,
    st.integers(1, 3),
    st.sampled_from(sorted(MEMORIES)),
    st.sampled_from([None, None, 12, 20]),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.integers(0, 1000),
    st.sampled_from([None, free, assumed_cost]),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([SLOT, 16]),
    st.sampled_from([None, None, 1, 4]),
    st.booleans(),
    st.sampled_from(sorted(WAYS)),
)
def test_the_answer_with_a_draft_is_the_answer_without(
    sampling: ResolvedSampling,
    options: dict[str, Any],
    count: int,
    kind: str,
    ends_at: int | None,
    wrong: float,
    seed: int,
    cost: Cost | None,
    n_max: int | None,
    draft_slot: int,
    dies_at: int | None,
    shifts: bool,
    way: str,
) -> None:
    """However good the draft, also if its context is smaller, if it fails, and if the context shifts."""
    shifts = shifts and kind == "partitioned" and options["max_tokens"] is not None
    if shifts:
        options = {**options, "max_tokens": 100}

    def made(clock: Clock) -> Timed:
        return Timed(clock, num_slots=3, slot_capacity=SLOT, batch_capacity=24, ends_at=ends_at, **MEMORIES[kind])

    clock = Clock()
    plain, _ = steps(
        requests(count, sampling, options), made(clock), Draft(clock, num_slots=3), clock, context_shift=shifts
    )
    sequences, backend = guessed(requests(count, sampling, options), n_max=n_max), made(clock)
    draft = WAYS[way](
        clock,
        wrong=wrong,
        seed=seed,
        dies_at=dies_at,
        num_slots=3,
        slot_capacity=draft_slot,
        batch_capacity=24,
        ends_at=ends_at,
    )
    answers, _ = steps(sequences, backend, draft, clock, cost=cost, context_shift=shifts)
    for id in range(count):
        assert answers.of(id) == plain.of(id)
    if n_max is not None and options["prompt_logprobs"] is None and not shifts:
        most_rows = max((len(one.tokens) for batch in backend.batches for one in batch if one.start >= 3), default=1)
        assert most_rows <= 1 + n_max


@pytest.mark.parametrize("memory", ["partitioned", "window", "recurrent"])
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("way", WAYS)
def test_a_good_draft_saves_time(way: str, count: int, memory: str) -> None:
    clock = Clock()
    backend = Timed(clock, slot_capacity=256, **MEMORIES[memory])
    draft = WAYS[way](clock, slot_capacity=256, batch_capacity=64)
    sequences = guessed([answer([id, 2, 3], 100, id) for id in range(count)])
    answers, _ = steps(sequences, backend, draft, clock)
    for one in sequences:
        assert answers.of(one.id).tokens[3:] == tuple(alone(one.progress.tokens[:3], 100))
        accepted, rejected = answers.guesses(one.id)
        assert accepted > 60
        assert rejected < 10
    assert clock.now_s < 50, "a hundred steps without"


def test_nothing_is_drafted_for_an_answer_whose_grammar_is_too_slow_for_guesses() -> None:
    class Wide(FakeConstraint):
        def _may_follow(self, taken: Many[int]) -> list[int]:
            return [*range(1, 97)] if len(taken) < self._length else []

    clock = Clock()
    backend = Timed(clock, slot_capacity=256)
    draft = Draft(clock, slot_capacity=256, batch_capacity=64)
    constraint = Wide(0, 60, cost_s=SLOW_S)
    (one,) = guessed([Sequence(Request(0, [1, 2, 3], sampling=GREEDY), constraint=constraint)], sources=("draft",))
    answers = Answers([one])
    engine = build_engine(
        backend, answers, sampler=SAMPLER, clock=clock, proposers=Proposers(Speculator(), drafting(draft, clock))
    )
    engine.submit(one)
    for _ in range(4000):
        engine.step()
        if not engine.scheduler.has_work:
            break
    engine.stop()
    assert answers.of(0).reason == "stop"
    assert not draft.batches


@pytest.mark.parametrize("ctx", [8, 16, 48, 64, 96])
@pytest.mark.parametrize("way", WAYS)
def test_a_draft_whose_context_is_very_short_costs_no_time(way: str, ctx: int) -> None:
    """It holds the end of the text only, which is begun anew now and then, not with every token."""
    clock = Clock()
    backend = Timed(clock, num_slots=1, slot_capacity=512)
    draft = WAYS[way](clock, num_slots=1, slot_capacity=ctx, batch_capacity=64)
    steps(guessed([answer([1, 2, 3], 400)], sources=("draft",)), backend, draft, clock)
    assert clock.now_s < 1.02 * 400 * 1.02


@pytest.mark.parametrize("seed", range(3))
def test_guesses_go_on_where_the_next_row_is_dear_and_the_one_after_it_is_not(seed: int) -> None:
    """As where kernels compute four rows at once: three take longer."""

    class Fours(Timed):
        def decode(self, segments: Many[Any], *, within_s: float | None = None) -> bool:
            rows = len(segments[0].tokens) if segments[0].start else 1
            self._clock.now_s += {2: 0.5, 3: 0.9}.get(rows, 0.6 if rows == 4 else rows * 0.2 * (rows > 4))
            return super().decode(segments, within_s=within_s)

    clock = Clock()
    backend = Fours(clock, num_slots=1, slot_capacity=400)
    draft = Draft(clock, wrong=0.3, seed=seed, num_slots=1, slot_capacity=400, batch_capacity=64)
    steps(guessed([answer([1, 2, 3], 300)]), backend, draft, clock)
    lengths = Counter(len(batch[0].tokens) for batch in backend.batches[30:])
    assert lengths[4] > 2 * (lengths[2] + lengths[3]), lengths
    assert clock.now_s < 0.85 * 300 * 1.02


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("way", WAYS)
def test_a_draft_that_is_always_wrong_soon_rests(way: str, count: int) -> None:
    clock, experience = Clock(), Experience(drafted_by="draft")

    def took_s(start: int) -> float:
        before_s = clock.now_s
        backend = Timed(clock, slot_capacity=512)
        draft = WAYS[way](clock, wrong=1.0, slot_capacity=512, batch_capacity=64)
        sequences = guessed([answer([start + id, 2, 3], 200, id) for id in range(count)], experience)
        steps(sequences, backend, draft, clock)
        return clock.now_s - before_s

    plain_s = 200 * (1 + 0.02 * count)
    assert took_s(1) < 1.04 * plain_s, "it has to be found out once"
    assert took_s(20) < 1.02 * plain_s


@pytest.mark.parametrize("way", WAYS)
def test_a_draft_that_is_right_again_is_found_to_be_within_an_answer(way: str) -> None:
    class Late(WAYS[way]):  # type: ignore[misc, valid-type]
        def _row(self, cells: list[int]) -> npt.NDArray[np.float32]:
            row: npt.NDArray[np.float32] = 9 * np.eye(97, dtype=np.float32)[following(cells[-1])]
            return row if len(backend.held[0]) > 300 else np.roll(row, 1)

    class Looping(Timed):
        def _row(self, cells: list[int]) -> npt.NDArray[np.float32]:
            row: npt.NDArray[np.float32] = np.eye(97, dtype=np.float32)[following(cells[-1])]
            return row

    def following(token: int) -> int:
        return token * 5 % 96 + 1

    clock = Clock()
    backend = Looping(clock, slot_capacity=1024)
    draft = Late(clock, slot_capacity=1024, batch_capacity=64)
    answers, _ = steps(guessed([answer([1, 2, 3], 900)], sources=("draft",)), backend, draft, clock)
    assert answers.guesses(0)[0] > 250
    assert clock.now_s < 800


def finish(engine: Engine, sequence: Sequence) -> None:
    engine.submit(sequence)
    engine.step()
    while engine.scheduler.has_work:
        engine.step()


def test_the_next_turn_of_a_conversation_goes_on_where_the_draft_was() -> None:
    clock, experience = Clock(), Experience(drafted_by="draft")
    backend, draft = Timed(clock, slot_capacity=512, batch_capacity=64), Draft(clock, slot_capacity=512)
    first = guessed([answer(list(range(1, 90)), 40)], experience)[0]
    engine = build_engine(
        backend, lambda _: None, clock=clock, sampler=SAMPLER, proposers=Proposers(Speculator(), drafting(draft, clock))
    )
    finish(engine, first)
    num_before = sum(len(each.tokens) for batch in draft.batches for each in batch)
    assert num_before > 89
    second = guessed([answer([*first.progress.tokens, 7, 8, 9], 20, 1)], experience)[0]
    finish(engine, second)
    num_more = sum(len(each.tokens) for batch in draft.batches for each in batch) - num_before
    assert num_more < 60, "not the 132 tokens before it"
    assert second.drawing.num_right_guesses > 10


def test_conversations_of_others_are_no_help_to_a_draft() -> None:
    """A salt keeps what is computed apart."""
    backend = FakeBackend()
    streams = DraftStreams(backend)
    first = Sequence(Request(0, [1, 2, 3, 4, 5], sampling=GREEDY, reuse=Reuse(domain=Domain.of(cache_salt="one"))))
    stream = streams.follow(first, 8)
    backend.held[stream.slot] = [1, 2, 3, 4]
    streams.computed(stream, [1, 2, 3, 4])
    streams.release(())
    same = streams.follow(
        Sequence(Request(1, [1, 2, 3, 9], sampling=GREEDY, reuse=Reuse(domain=Domain.of(cache_salt="one")))), 8
    )
    assert same.tokens == [1, 2, 3]
    streams.release(())
    other = streams.follow(
        Sequence(Request(2, [1, 2, 3, 9], sampling=GREEDY, reuse=Reuse(domain=Domain.of(cache_salt="two")))), 8
    )
    assert other.tokens == []


def test_whoever_is_cancelled_leaves_the_draft_to_others() -> None:
    """One after the other, more than there are streams."""
    clock = Clock()
    backend, draft = Timed(clock, num_slots=2), Draft(clock, num_slots=2)
    engine = build_engine(
        backend,
        lambda _: None,
        clock=clock,
        sampler=SAMPLER,
        proposers=Proposers(Speculator(), drafting(draft, clock)),
    )
    experience = Experience(drafted_by="draft")
    for id in range(9):
        one = guessed([answer([id + 1, 2, 3], 60, id)], experience)[0]
        engine.submit(one)
        for _ in range(8):
            engine.step()
        assert one.drawing.num_right_guesses > 0
        if id % 2:
            engine.cancel(id - 1)
            engine.cancel(id)


def test_a_request_may_have_no_draft() -> None:
    for wanted in ({"sources": ("lookup",)}, {"n_max": 0}, {"sources": ()}):
        clock = Clock()
        backend, draft = Timed(clock), Draft(clock)
        answers, _ = steps(guessed([answer([1, 2, 3], 40)], **wanted), backend, draft, clock)
        assert not draft.batches
        assert answers.guesses(0) == (0, 0)


def test_a_draft_that_fails_is_freed_and_said(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    backend, draft = Timed(clock), Draft(clock, dies_at=3)
    answers, drafts = steps(guessed([answer([1, 2, 3], 40)]), backend, draft, clock)
    assert drafts.is_off
    assert draft.num_frees == 1
    assert answers.of(0).tokens[3:] == tuple(alone([1, 2, 3], 40))
    assert [record.message for record in caplog.records] == ["draft_dropped"]


def test_a_trust_is_learned_by_how_sure_the_draft_is() -> None:
    teacher = Trust()
    trust = Trust(teacher)
    for _ in range(60):
        trust.learn(0.999, is_right=True)
        trust.learn(0.4, is_right=False)
    assert trust.chance(0.999) > 0.95
    assert trust.chance(0.4) < 0.05
    assert 0.4 < trust.mean < 0.6
    assert teacher.chance(0.4) < 0.1, "and those that come begin with it"


def test_who_loses_stops_whatever_was_expected_and_is_tried_again_some_day() -> None:
    accounts = Accounts()
    assert not accounts.allows(2), "what a plain step takes is not known"
    accounts.took(2, 2, 1.0, is_drafted=False)
    num_tried, lost_s = 0, 0.0
    for _ in range(1000):
        if accounts.allows(2):
            num_tried += 1
            lost_s += 2.5
            accounts.took(2, 3, 4.0, is_drafted=True)  # three tokens of two streams in the time of eight
        else:
            accounts.took(2, 2, 1.0, is_drafted=False)
    assert num_tried >= 4
    assert lost_s <= 4.0 + 2.5 + 0.01 * 1000
    assert not accounts.allows(1), "each number of streams for itself"
    for _ in range(1000):
        accounts.took(2, 2, 1.0, is_drafted=False)
    for _ in range(100):
        assert accounts.allows(2)
        accounts.took(2, 5, 1.5, is_drafted=True)
    assert accounts.plain_s(2) == pytest.approx(1.0)


def test_where_all_streams_must_have_equally_many_rows_those_without_a_draft_count_too() -> None:
    def cost(parts: Many[Part]) -> float:
        return 1.0 + 0.3 * sum(rows - 1 for _, _, rows in parts)

    def draft_s(_: int, count: int) -> float:
        return 0.01 * count

    streams = [Stream(0, 10, 0.9, 7), *(Stream(slot, 10, 0.0, 0) for slot in range(1, 4))]
    assert best_length(streams[:1], cost, draft_s, are_equal=True) is not None
    assert best_length(streams, cost, draft_s) is None
    cheap = best_length(streams, lambda parts: 1.0 + 0.01 * cost(parts), draft_s, are_equal=True)
    assert cheap is not None
    assert cheap.places == {0}
    apart = [streams[0], streams[2]]
    assert best_length(apart, lambda _: 1.0, draft_s, are_equal=True) is None, "such a step has one row each"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 0.99), min_size=1, max_size=8), st.floats(0.01, 2.0), st.floats(0.0, 0.3))
def test_the_best_length_gives_more_tokens_a_second_than_none(
    chances: list[float], decode_s: float, row_s: float
) -> None:
    def cost(parts: Many[Part]) -> float:
        return 1.0 + row_s * (sum(rows for _, _, rows in parts) - len(parts))

    streams = [Stream(slot, 10, chance, 7) for slot, chance in enumerate(chances)]
    found = best_length(streams, cost, lambda _, count: decode_s * count)
    if found is None:
        if len(chances) == 1:
            assert 1 + chances[0] <= 1.02 * (1 + row_s + decode_s) + 1e-9, "one token would have paid"
        return
    assert found.rate > len(chances)
    assert found.places <= set(range(len(chances)))
    expected = sum(sum(chances[place] ** number for number in range(1, found.num_tokens + 1)) for place in found.places)
    took_s = 1 + row_s * found.num_tokens * len(found.places) + decode_s * found.num_tokens
    assert found.rate == pytest.approx((len(chances) + expected) / took_s)


@given(
    st.dictionaries(st.integers(2, 60), st.floats(1e-4, 10.0), min_size=1, max_size=6),
    st.integers(1, 8),
    st.integers(1, 15),
)
def test_the_cost_of_a_block_lies_between_those_measured(costs: dict[int, float], streams: int, count: int) -> None:
    cost = BlockCost(0.1)
    for rows, seconds in costs.items():
        cost.observe_guesses(1, rows - 1, seconds)
    found, rows = cost.guesses_s(streams, count), streams * (count + 1)
    assert found == costs.get(rows, found)
    assert found >= min(costs.values())
    if rows <= max(costs):
        assert found <= max(costs.values())


def test_a_block_whose_rows_cost_equally_much_more_is_known_from_two() -> None:
    cost = BlockCost(0.1)
    cost.beside(3.0)
    assert cost.guesses_s(2, 5) == pytest.approx(0.3), "a share of the target's, until it is measured"
    cost.observe_guesses(1, 1, 1.0)
    cost.observe_guesses(1, 15, 2.4)
    assert [cost.guesses_s(streams, count) for streams, count in ((1, 1), (1, 8), (2, 7), (8, 7))] == pytest.approx(
        [1.0, 1.7, 2.4, 1.0 + 0.1 * 62]
    )
    cost.observe_tokens(20, 2.0, has_guesses=True)
    cost.observe_tokens(20, 1.0)
    assert cost.token_s == 0.05, "a block among them says nothing of the others"
