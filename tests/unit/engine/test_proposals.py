"""Several tokens a step: guessed or forced, the answer is the one that comes token by token, on a fake backend."""

from __future__ import annotations

import random
from collections.abc import Sequence as Many
from importlib.util import find_spec
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from localllm.engine.backend import Segment
from localllm.engine.building import build_engine
from localllm.engine.engine import StepOutput
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Request
from localllm.engine.sampling import native
from localllm.engine.sampling.dry import Dry
from localllm.engine.sampling.sampler import NumpySampler, Sampler
from localllm.engine.scheduling.cost import Part
from localllm.engine.scheduling.rows import MOST_ROWS, Cost, assumed_cost, count_passes
from localllm.engine.speculation.proposals import Proposal
from localllm.engine.speculation.proposers import Proposer, Proposers
from localllm.system import native_libraries
from localllm.types import DrySampling, FinishReason, ResolvedSampling, TokenLogprob, Usage
from tests.fakes import END, FakeBackend, alone, grouped
from tests.machines import Machine, MachineBackend

SAMPLER: Sampler = native.load() if find_spec(native_libraries.PACKAGE) else NumpySampler()
GREEDY = ResolvedSampling(temperature=0)
SLOT = 48


class Answer(NamedTuple):
    text: str
    num_tokens: int
    logprobs: tuple[TokenLogprob, ...]
    reason: FinishReason | None
    usage: Usage | None
    failure: str
    tokens: tuple[int, ...]


class Answers:
    """What clients see of every request, and where it ends in the cache."""

    def __init__(self, sequences: list[Sequence]) -> None:
        self._sequences = {sequence.id: sequence for sequence in sequences}
        self._parts: dict[int, list[Any]] = {sequence.id: [] for sequence in sequences}
        self._failures: dict[int, str] = {}

    def __call__(self, output: StepOutput) -> None:
        for id, delta in output.deltas:
            assert id not in self._failures
            assert not self._parts[id] or self._parts[id][-1].finish is None, "a delta after the finish"
            self._parts[id].append(delta)
        self._failures.update((id, str(error)) for id, error in output.failures)

    def guesses(self, id: int) -> tuple[int, int]:
        """Accepted and rejected ones."""
        finish = self._parts[id][-1].finish if self._parts[id] else None
        return (finish.usage.accepted_guesses, finish.usage.rejected_guesses) if finish else (0, 0)

    def of(self, id: int) -> Answer:
        parts = self._parts[id]
        finish = parts[-1].finish if parts else None
        return Answer(
            "".join(part.text for part in parts),
            sum(part.num_tokens for part in parts),
            tuple(logprob for part in parts for logprob in part.logprobs),
            finish and finish.reason,
            finish and msgspec.structs.replace(finish.usage, accepted_guesses=0, rejected_guesses=0),
            self._failures.get(id, ""),
            tuple(self._sequences[id].progress.tokens),
        )


class Guesser:
    """Knows the answers, and is wrong now and then."""

    def __init__(self, answers: dict[int, tuple[int, ...]], *, seed: int = 0, wrong: float = 0.0) -> None:
        self._answers = answers
        self._random = random.Random(seed)
        self._wrong = wrong

    def propose(self, sequence: Sequence) -> Proposal | None:
        place = sequence.progress.num_tokens + sequence.progress.num_shifted
        known = [*self._answers[sequence.id][place:], END, 7, 7, 7]
        count = self._random.randrange(10)
        guesses = [
            self._random.randrange(97) if self._random.random() < self._wrong else token for token in known[:count]
        ]
        return Proposal((), tuple(guesses)) if guesses else None


class Knowing:
    """Guesses all that comes, of the requests that it knows."""

    def __init__(self, answers: dict[int, tuple[int, ...]]) -> None:
        self._answers = answers

    def propose(self, sequence: Sequence) -> Proposal | None:
        known = self._answers.get(sequence.id, ())[sequence.progress.num_tokens :]
        return Proposal((), known, (1.0,) * len(known))


class Always:
    """Always proposes the same."""

    def __init__(self, *guesses: int) -> None:
        self._proposal = Proposal((), guesses)

    def propose(self, sequence: Sequence) -> Proposal | None:
        return self._proposal if sequence.progress.num_tokens else None


class Forcer:
    """At some places nothing else may come than certain tokens; none of those is guessed."""

    def __init__(self, guesser: Guesser | None = None) -> None:
        self._guesser = guesser

    def propose(self, sequence: Sequence) -> Proposal | None:
        place = sequence.progress.num_generated % 7
        forced = (42, 43, 44)[place - 2 :] if 2 <= place <= 4 else ()
        guess = self._guesser.propose(sequence) if self._guesser is not None else None
        until_forced = 8 - place - len(forced) if place >= 2 else 1 - place
        return Proposal(forced, guess.guessed[len(forced) :][:until_forced] if guess else ())


def requests(count: int, sampling: ResolvedSampling, options: dict[str, Any]) -> list[Sequence]:
    prompts = [[id + 1, 9, id + 3] for id in range(count)]
    return [
        Sequence(
            Request(
                id,
                prompt,
                sampling=sampling,
                **grouped({"end_tokens": [END] if options.get("min_tokens") else (), **options}),
            ),
            dry=None if sampling.dry is None else Dry(sampling.dry, lambda token: bytes([31 + token]), prompt),
        )
        for id, prompt in enumerate(prompts)
    ]


def free(_parts: Many[Part]) -> float:
    """All rows are computed that may be."""
    return 1.0


def dear(parts: Many[Part]) -> float:
    """Everybody gets one."""
    return float(sum(rows for _, _, rows in parts)) ** 9


def run(
    sequences: list[Sequence],
    backend: FakeBackend,
    *,
    rows: Cost = free,
    shifts: bool = False,
    proposer: Proposer | None = None,
) -> Answers:
    answers = Answers(sequences)
    engine = build_engine(backend, answers, context_shift=shifts, sampler=SAMPLER, proposers=Proposers(proposer))
    engine.scheduler.drafter.cost = rows
    for sequence in sequences:
        engine.submit(sequence)
    for _ in range(2000):
        engine.step()
        engine.check_integrity()
        if not engine.scheduler.has_work:
            return answers
    raise AssertionError("the engine never ran out of work")


SAMPLINGS = st.builds(
    ResolvedSampling,
    temperature=st.sampled_from([0.0, 0.2, 1.0]),
    top_k=st.sampled_from([0, 5]),
    top_p=st.sampled_from([1.0, 0.7]),
    min_p=st.just(0.0),
    xtc_probability=st.sampled_from([0.0, 0.5]),
    mirostat=st.sampled_from([0, 0, 0, 1, 2]),
    repeat_penalty=st.sampled_from([1.0, 1.3]),
    repeat_last_n=st.sampled_from([-1, 2, 64]),
    presence_penalty=st.sampled_from([0.0, 0.4]),
    frequency_penalty=st.sampled_from([0.0, 0.6]),
    logit_bias=st.sampled_from([{}, {5: 1.5, 6: -3.0}]),
    dry=st.sampled_from([None, DrySampling(multiplier=1.0, allowed_length=1, sequence_breakers=("A",))]),
    seed=st.integers(0, 3),
)
OPTIONS = st.fixed_dictionaries(
    {
        "max_tokens": st.sampled_from([None, 1, 2, 9, 30]),
        "min_tokens": st.sampled_from([0, 4, 12]),
        "logprobs": st.sampled_from([None, 0, 3]),
        "prompt_logprobs": st.sampled_from([None, None, 1]),
        "ignore_eos": st.booleans(),
    }
)


def memory(kind: str) -> dict[str, Any]:
    kinds: dict[str, dict[str, Any]] = {
        "unified": {"num_cells": 3 * SLOT},
        "window": {"window": 8},
        "recurrent": {"can_rewind": False},
        "snapshots": {"can_rewind": False, "snapshots": 5},
    }
    return kinds.get(kind, {})


@settings(max_examples=60, deadline=None)
@given(
    SAMPLINGS,
    OPTIONS,
    st.integers(1, 3),
    st.sampled_from(["partitioned", "partitioned", "unified", "window", "recurrent", "snapshots"]),
    st.sampled_from([None, None, 12, 20]),
    st.integers(0, 25),
    st.integers(0, 3),
    st.sampled_from([0.0, 0.2, 1.0]),
    st.integers(0, 1000),
    st.sampled_from([free, free, assumed_cost]),
    st.booleans(),
)
def test_the_answer_with_guesses_is_the_answer_without(
    sampling: ResolvedSampling,
    options: dict[str, Any],
    count: int,
    kind: str,
    ends_at: int | None,
    stop_at: int,
    stop_length: int,
    wrong: float,
    seed: int,
    cost: Cost,
    shifts: bool,
) -> None:
    """Text, log-probabilities, usage, reason and what stays in the cache, whatever is guessed and wherever it ends."""
    shifts = shifts and kind == "partitioned" and options["max_tokens"] is not None
    if shifts:
        options = {**options, "max_tokens": 100}

    def made() -> FakeBackend:
        return FakeBackend(num_slots=3, slot_capacity=SLOT, batch_capacity=24, ends_at=ends_at, **memory(kind))

    first = run(requests(count, sampling, options), made(), shifts=shifts)
    if stop := first.of(0).text[stop_at : stop_at + stop_length]:
        options = {**options, "stop": [stop, "never"]}
    plain_backend, guessed_backend = made(), made()
    sequences = requests(count, sampling, options)
    plain = run(sequences, plain_backend, shifts=shifts)
    known = {sequence.id: first.of(sequence.id).tokens for sequence in sequences}
    guesser = Guesser(known, seed=seed, wrong=wrong)
    guessed = run(requests(count, sampling, options), guessed_backend, shifts=shifts, proposer=guesser, rows=cost)
    for id in range(count):
        assert guessed.of(id) == plain.of(id)
        accepted, rejected = guessed.guesses(id)
        assert 0 <= accepted <= guessed.of(id).num_tokens + 1, "the end of an answer can be guessed, too"
        assert rejected >= 0
        assert plain.guesses(id) == (0, 0)
    if count == 1:
        assert guessed_backend.held == plain_backend.held
    if kind == "recurrent":
        batches = [batch for batch in guessed_backend.batches if batch[0].start >= 3]
        assert all(len(each.tokens) == 1 for batch in batches for each in batch), "what cannot rewind gets no guesses"
    event(f"{kind}, {len(plain_backend.batches) > len(guessed_backend.batches) and 'fewer steps'}")


@settings(max_examples=40, deadline=None)
@given(
    SAMPLINGS,
    OPTIONS,
    st.sampled_from(["partitioned", "unified", "window", "recurrent", "snapshots"]),
    st.sampled_from(["", "GH", "H", "FGH!"]),
    st.integers(0, 1000),
    st.booleans(),
)
def test_forced_tokens_are_taken_as_if_they_came_one_by_one(
    sampling: ResolvedSampling, options: dict[str, Any], kind: str, stop: str, seed: int, guesses: bool
) -> None:
    def made() -> FakeBackend:
        return FakeBackend(num_slots=3, slot_capacity=SLOT, batch_capacity=24, **memory(kind))

    if stop:
        options = {**options, "stop": [stop]}
    plain_backend, backend = made(), made()
    plain = run(requests(2, sampling, options), plain_backend, proposer=Forcer(), rows=dear)
    known = {id: plain.of(id).tokens for id in range(2)}
    guesser = Guesser(known, seed=seed, wrong=0.2) if guesses else None
    forced = run(requests(2, sampling, options), backend, proposer=Forcer(guesser))
    for id in range(2):
        one, other = plain.of(id), forced.of(id)
        assert one._replace(logprobs=()) == other._replace(logprobs=())
        assert [each.piece for each in one.logprobs] == [each.piece for each in other.logprobs]
        np.testing.assert_allclose(
            [each.logprob for each in one.logprobs], [each.logprob for each in other.logprobs], atol=1e-6
        )
        if one.num_tokens >= 3:
            assert one.tokens[5] == 42, "it was forced"


def test_right_guesses_save_steps_and_are_nobodys_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {0: (1, 9, 3, *alone([1, 9, 3], 30))}
    backend = FakeBackend(slot_capacity=64)
    observed: list[int] = []
    sequences = requests(1, GREEDY, {"max_tokens": 30})
    answers = Answers(sequences)
    engine = build_engine(backend, answers, proposers=Proposers(Knowing(known)))
    for learner in (engine._cycle._planner._pace.cost, engine._cycle._planner._pace.row_cost):
        monkeypatch.setattr(learner, "observe", lambda parts, _seconds: observed.append(sum(part[2] for part in parts)))
    engine.submit(sequences[0])
    engine.step()
    assert sequences[0].progress.is_prefilling is False
    while engine.scheduler.has_work:
        engine.step()
    assert len(backend.batches) <= 1 + -(-30 // MOST_ROWS)
    assert observed == [sum(len(each.tokens) for each in batch) for batch in backend.batches], (
        "rows are learned as rows"
    )
    accepted, rejected = answers.guesses(0)
    assert (accepted, rejected) == (30 - len(backend.batches), 0), "but for what each step draws behind them"


def test_a_right_guess_of_the_end_is_an_accepted_one() -> None:
    ending = msgspec.structs.replace(GREEDY, logit_bias={END: 1000.0})
    plain = run(requests(1, ending, {"min_tokens": 9}), FakeBackend()).of(0)
    assert (plain.reason, plain.num_tokens) == ("stop", 9)
    answers = run(requests(1, ending, {"min_tokens": 9}), FakeBackend(), proposer=Knowing({0: (*plain.tokens, END)}))
    assert answers.of(0) == plain
    assert answers.guesses(0) == (9, 0), "all tokens but the first, and the end"


@pytest.mark.parametrize("kind", ["partitioned", "unified", "window", "recurrent", "snapshots"])
def test_a_guess_that_nobody_can_compute_costs_no_request_its_answer(kind: str) -> None:
    backend = FakeBackend(poison=95, **memory(kind))
    sequences = requests(2, GREEDY, {"max_tokens": 9})
    answers = run(sequences, backend, proposer=Always(95, 95))
    for sequence in sequences:
        assert answers.of(sequence.id).tokens[3:] == tuple(alone(sequence.progress.tokens[:3], 9))
    assert all(95 not in cells for cells in backend.held)


@pytest.mark.parametrize("kind", ["partitioned", "unified", "window", "recurrent", "snapshots"])
def test_a_guess_that_computes_no_numbers_fails_nobody_unless_it_is_right(kind: str) -> None:
    backend = FakeBackend(broken_at=95, **memory(kind))
    sequences = requests(2, GREEDY, {"max_tokens": 9})
    answers = run(sequences, backend, proposer=Always(95, 95))
    for sequence in sequences:
        assert not answers.of(sequence.id).failure
        assert answers.of(sequence.id).tokens[3:] == tuple(alone(sequence.progress.tokens[:3], 9))


def test_masks_hold_for_their_rows() -> None:
    """Between decode and draw it is set what each row allows."""

    class Masks(FakeBackend):
        def decode(self, segments: Many[Segment], *, within_s: float | None = None) -> bool:
            rows = range(segments[0].num_outputs)
            sequences[0].drawing.masks = [
                allowing(10 + (sequences[0].progress.num_generated + row) % 5) for row in rows
            ]
            return super().decode(segments, within_s=within_s)

    def allowing(token: int) -> Any:
        mask = np.zeros(4, np.uint32)
        mask[token // 32] = 1 << token % 32
        return mask

    backend = Masks()
    expected = tuple(10 + place % 5 for place in range(12))
    known = {0: (1, 9, 3, *expected)}
    sequences = requests(1, ResolvedSampling(), {"max_tokens": 12})
    answers = run(sequences, backend, proposer=Guesser(known))
    assert answers.of(0).tokens[3:] == expected
    assert len(backend.batches) < 12


@pytest.mark.parametrize("what", ["guesses", "forced"])
def test_beside_a_prompt_streams_get_one_row(what: str) -> None:
    backend = FakeBackend(slot_capacity=512, batch_capacity=16)
    sequences = [
        *requests(1, GREEDY, {"max_tokens": 40}),
        Sequence(Request(1, [5] * 200, sampling=GREEDY, max_tokens=1)),
    ]
    proposer: Any = Guesser({0: (1, 9, 3, *alone([1, 9, 3], 40)), 1: (5,) * 201}) if what == "guesses" else Forcer()
    answers = run(sequences, backend, proposer=proposer)
    beside = [batch for batch in backend.batches if len(batch) == 2]
    assert len(beside) > 10
    assert all(len(batch[0].tokens) == 1 for batch in beside[1:-1]), "the last row of the prompt is like a stream's"
    assert answers.of(0).num_tokens == 40


def test_rows_thrown_away_are_cut_from_the_cache() -> None:
    """Of four streams one has no guesses: where that is cheaper it gets as many rows as the others."""
    sequences = requests(4, GREEDY, {"max_tokens": 20})
    known = {id: (id + 1, 9, id + 3, *alone([id + 1, 9, id + 3], 20)) for id in range(3)}
    backend = FakeBackend(batch_capacity=64)
    answers = run(sequences, backend, proposer=Knowing(known), rows=count_passes)
    assert any(segment.num_padding for batch in backend.batches for segment in batch)
    for sequence in sequences:
        assert answers.of(sequence.id).tokens[3:] == tuple(alone(sequence.progress.tokens[:3], 20))


@pytest.mark.parametrize("row_s", [0.00002, 0.0005, 0.002], ids=["gpu", "amx", "cpu"])
def test_answers_that_nobody_guesses_are_hardly_later_beside_others_that_are_guessed(row_s: float) -> None:
    """Two answers are known, two are not. A pass takes 20 ms."""
    num_tokens = 200
    known = {id: (id + 1, 9, id + 3, *alone([id + 1, 9, id + 3], 3000)) for id in range(2)}

    def finished_s(proposer: Proposer | None) -> tuple[float, float]:
        """When the last of the unknown ones has ended, and how many tokens the others have by then."""
        backend = MachineBackend(Machine(0.02, row_s, 0.0, 0.0), num_slots=4)
        sequences = [
            *(Sequence(Request(id, known[id][:3], sampling=GREEDY, max_tokens=3000)) for id in range(2)),
            *(Sequence(Request(id, [id + 1, 9, id + 3], sampling=GREEDY, max_tokens=num_tokens)) for id in (2, 3)),
        ]
        answers = Answers(sequences)
        clock = lambda: backend.now_s  # noqa: E731
        engine = build_engine(backend, answers, sampler=SAMPLER, clock=clock, proposers=Proposers(proposer))
        for sequence in sequences:
            engine.submit(sequence)
        while any(answers.of(id).reason is None for id in (2, 3)):
            engine.step()
        return backend.now_s, sum(sequence.progress.num_generated for sequence in sequences[:2])

    plain_s, num_plain = finished_s(None)
    guessed_s, num_guessed = finished_s(Knowing(known))
    assert guessed_s <= 1.15 * plain_s
    assert num_guessed >= num_plain


class DearRows:
    """On one thread four rows of a stream cost five times one (benchmarks/log/scheduling.md#unequal-rows)."""

    ROWS, MS = (1, 2, 4, 8, 32), (12.0, 40.0, 60.0, 66.0, 110.0)

    def seconds(self, parts: Many[Part]) -> float:
        rows = sum(part[2] for part in parts)
        return 0.001 * float(np.interp(rows, self.ROWS, self.MS))


class Middling:
    """In four of five steps it guesses eight tokens, of which each is right with this chance, as it says itself."""

    def __init__(self, answer: tuple[int, ...], chance: float) -> None:
        self._answer, self._chance = answer, chance
        self._random = random.Random(1)

    def propose(self, sequence: Sequence) -> Proposal | None:
        if self._random.random() < 0.2:
            return None
        guesses = self._answer[sequence.progress.num_tokens :][:8]
        wrong = [self._random.random() >= self._chance for _ in guesses]
        guessed = tuple(token % 90 + 1 if is_wrong else token for token, is_wrong in zip(guesses, wrong, strict=True))
        return Proposal((), guessed, (self._chance,) * len(guesses))


@pytest.mark.parametrize(("chance", "least"), [(0.5, 0.95), (0.8, 0.9), (0.95, 1.1)])
def test_where_rows_are_dear_guesses_that_do_not_pay_are_found_out_though_they_are_always_there(
    chance: float, least: float
) -> None:
    """What several rows add is not known before one was measured: that once cost half the speed, for ever."""
    answer = (1, 9, 3, *alone([1, 9, 3], 700))

    def took_s(proposer: Proposer | None) -> float:
        backend = MachineBackend(DearRows(), num_slots=1, noise=0.05)
        sequence = Sequence(Request(0, answer[:3], sampling=GREEDY, max_tokens=600))
        clock = lambda: backend.now_s  # noqa: E731
        engine = build_engine(backend, Answers([sequence]), sampler=SAMPLER, clock=clock, proposers=Proposers(proposer))
        engine.submit(sequence)
        engine.step()
        while engine.scheduler.has_work:
            engine.step()
        return backend.now_s

    assert took_s(None) / took_s(Middling(answer, chance)) > least
