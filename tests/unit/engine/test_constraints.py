"""Answers held to a constraint, on a fake backend and with fake constraints: what it forces changes no answer."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable
from collections.abc import Sequence as Many
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from localllm.engine.building import build_engine
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.constraint.constraint import ConstraintFailed
from localllm.engine.engine import StepOutput
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Due, Ending, ReportOptions, Request, Shift
from localllm.engine.sampling.parameters import Mask
from localllm.engine.scheduling.rows import Cost, assumed_cost
from localllm.engine.speculation.proposers import Proposer, Proposers
from localllm.errors import InvalidParameter
from localllm.types import ResolvedSampling
from tests.fakes import END, FakeBackend, next_token
from tests.unit.engine.test_proposals import (
    GREEDY,
    OPTIONS,
    SAMPLER,
    SAMPLINGS,
    SLOT,
    Always,
    Answer,
    Answers,
    Guesser,
    dear,
    free,
    memory,
    requests,
)

INLINE_S, HELPED_S, SLOW_S = 0.0, 0.001, 1.0
SANE = SAMPLINGS.map(lambda sampling: ResolvedSampling(**{**_fields(sampling), "mirostat": 0}))
"""Mirostat's state follows what is drawn, so that a forced token and a drawn one are not the same to it."""

BACKENDS: list[dict[str, Any]] = [
    {},
    {},
    {"fails_at_step": 2},
    {"fails_at_step": 4},
    {"is_asynchronous": True},
    {"is_asynchronous": True, "fails_at_step": 3},
    {"ubatch_capacity": 6},
]


def _fields(sampling: ResolvedSampling) -> dict[str, Any]:
    return {name: getattr(sampling, name) for name in sampling.__struct_fields__}


class FakeConstraint:
    """Of a random grammar: what may come next is a function of how many tokens were taken, and of the last one."""

    param = "response_format"
    end_tokens = (END,)
    is_cut = False
    end_reason: Literal["stop", "length"] = "stop"

    def __init__(
        self,
        seed: int,
        length: int,
        *,
        forces: bool = True,
        cost_s: float = INLINE_S,
        fails_at: int | None = None,
        gate: Callable[[], None] = lambda: None,
    ) -> None:
        """Complete after `length` tokens; may end at every fifth place. `gate` is called by `masks`."""
        self.cost_s = cost_s
        self._seed, self._length, self._forces = seed, length, forces
        self._fails_at = fails_at
        self._gate = gate
        self.taken: list[int] = []
        self.threads: set[str] = set()

    def _may_follow(self, taken: Many[int]) -> list[int]:
        if len(taken) >= self._length:
            return [END]
        chance = random.Random(f"{self._seed} {len(taken)} {taken[-1:]}")
        some = [chance.randrange(1, 97) for _ in range(chance.choice([1, 1, 1, 2, 5, 30]))]
        if len(taken) % 5 == 4 and len(some) > 1:
            some.append(END)
        return sorted(set(some))

    @property
    def is_complete(self) -> bool:
        return len(self.taken) >= self._length

    @property
    def _all_forced(self) -> list[int]:
        taken = list(self.taken)
        while len(taken) < self._length and len(one := self._may_follow(taken)) == 1:
            taken += one
        return taken[len(self.taken) :]

    @property
    def forced(self) -> list[int]:
        return self._all_forced if self._forces else []

    @property
    def ends_forced(self) -> bool:
        return self._forces and len(self.taken) + len(self._all_forced) >= self._length

    def is_settled(self, token: int, num_left: int) -> bool:  # noqa: ARG002  the protocol has it
        return True

    def look(self, token: int, num_left: int) -> None:
        raise NotImplementedError

    def in_time(self, token: int, num_left: int) -> int:
        assert self.is_settled(token, num_left)
        return token

    def take(self, token: int) -> None:
        if token not in self._may_follow(self.taken):
            raise ConstraintFailed(f"{token} may not come")
        if len(self.taken) == self._fails_at:
            raise ConstraintFailed("a limit was reached")
        self.taken.append(token)

    def allows(self, token: int, num_behind: int) -> bool:
        self.threads.add(threading.current_thread().name)
        assumed = [*self.taken, *self.forced[:num_behind]]
        return token in self._may_follow(assumed)

    def num_allowed(self, tokens: Many[int]) -> int:
        taken = list(self.taken)
        for place, token in enumerate(tokens):
            if token == END or token not in self._may_follow(taken):
                return place
            taken.append(token)
        return len(tokens)

    def masks(self, ahead: Many[int], num_rows: int) -> list[Mask]:
        self._gate()
        self.threads.add(threading.current_thread().name)
        masks = []
        for place in range(len(ahead) + 1 - num_rows, len(ahead) + 1):
            mask = np.zeros(4, np.uint32)
            for token in self._may_follow([*self.taken, *ahead[:place]]):
                mask[token // 32] |= 1 << token % 32
            masks.append(mask)
        return masks


def held(sequences: list[Sequence], constraints: Many[FakeConstraint | None]) -> list[Sequence]:
    """The same requests, held to these."""
    return [
        sequence
        if constraint is None
        else Sequence(
            Request(
                sequence.id,
                list(sequence.progress.prompt),
                sampling=sequence.request.sampling,
                ending=Ending(
                    min_tokens=sequence.request.ending.min_tokens,
                    stop=[*sequence.progress.text._stop],
                    end_tokens=[END] if sequence.request.ending.min_tokens else (),
                ),
                max_tokens=sequence.request.max_tokens,
                reported=ReportOptions(
                    logprobs=sequence.request.reported.logprobs,
                    prompt_logprobs=sequence.request.reported.prompt_logprobs,
                ),
            ),
            constraint=constraint,
        )
        for sequence, constraint in zip(sequences, constraints, strict=True)
    ]


def run(
    sequences: list[Sequence],
    backend: FakeBackend,
    *,
    rows: Cost = free,
    before: Any = None,
    proposer: Proposer | None = None,
) -> Answers:
    """As a worker does, until all of them ended."""
    answers = Answers(sequences)
    ended: set[int] = set()

    def emit(output: StepOutput) -> None:
        answers(output)
        ended.update(id for id, delta in output.deltas if delta.finish is not None)
        ended.update(id for id, _ in output.failures)
        if len(ended) == len(sequences):
            engine.stop()

    engine = build_engine(backend, emit, sampler=SAMPLER, debug=True, proposers=Proposers(proposer))
    engine.scheduler.drafter.cost = rows
    for sequence in sequences:
        engine.submit(sequence)
    engine.run()
    engine.check_integrity()
    assert not engine.scheduler.has_work
    return answers


def without_own_sums(answer: Answer) -> Answer:
    """Log-probabilities to six digits: those of a forced token are summed up elsewhere."""
    return answer._replace(
        logprobs=tuple([type(one)(one.piece, round(one.logprob, 4), one.top) for one in answer.logprobs])
    )


@settings(max_examples=80, deadline=None)
@given(
    SANE,
    OPTIONS,
    st.integers(1, 3),
    st.sampled_from(["partitioned", "partitioned", "unified", "window", "recurrent", "snapshots"]),
    st.integers(1, 30),
    st.integers(0, 25),
    st.integers(0, 3),
    st.sampled_from([INLINE_S, INLINE_S, HELPED_S, SLOW_S]),
    st.sampled_from([free, free, assumed_cost, dear]),
    st.booleans(),
    st.sampled_from(BACKENDS),
    st.integers(0, 1000),
)
def test_the_answer_with_forced_tokens_is_the_answer_without(
    sampling: ResolvedSampling,
    options: dict[str, Any],
    count: int,
    kind: str,
    length: int,
    stop_at: int,
    stop_length: int,
    cost_s: float,
    rows: Cost,
    guesses: bool,
    backend_is: dict[str, Any],
    seed: int,
) -> None:
    """Whoever computes masks, whatever is guessed, and whatever becomes of a decode."""
    options = {**options, "ignore_eos": False, "prompt_logprobs": None}
    sampling = ResolvedSampling(**{**_fields(sampling), "dry": None})

    def answers(
        forces: bool,
        cost_s: float,
        backend_is: dict[str, Any] = BACKENDS[0],
        **how: Any,
    ) -> tuple[Answers, list[FakeConstraint], FakeBackend]:
        constraints = [FakeConstraint(seed + id, length, forces=forces, cost_s=cost_s) for id in range(count)]
        backend = FakeBackend(num_slots=3, slot_capacity=SLOT, batch_capacity=24, **memory(kind), **backend_is)
        return run(held(requests(count, sampling, options), constraints), backend, **how), constraints, backend

    first, _, _ = answers(False, INLINE_S)
    if stop := first.of(0).text[stop_at : stop_at + stop_length]:
        options = {**options, "stop": [stop, "never"]}
    plain, _, plain_backend = answers(False, INLINE_S)
    known = {id: plain.of(id).tokens for id in range(count)}
    guesser = Guesser(known, seed=seed, wrong=0.3) if guesses else None
    forced, constraints, backend = answers(True, cost_s, backend_is, rows=rows, proposer=guesser)
    for id in range(count):
        one, other = plain.of(id), forced.of(id)
        if "fails_at_step" in backend_is and "failed to compute a step" in other.failure:
            continue  # it was alone in it
        assert without_own_sums(one) == without_own_sums(other)
        assert not one.failure
        taken = list(other.tokens[3:])
        assert constraints[id].taken[: len(taken)] == taken or one.reason == "stop"
        if len(taken) >= length:
            assert one.reason == "stop", "it is complete, whatever else is reached"
    if kind == "recurrent" and not backend_is:
        batches = [batch for batch in backend.batches if batch[0].start >= 3]
        assert all(len(each.tokens) == 1 for batch in batches for each in batch), "one by one"
    event(f"{kind}, {len(plain_backend.batches) > len(backend.batches) and 'fewer steps'}")


class Searched(FakeConstraint):
    """Has to search before each token that is drawn."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._looked: tuple[int, int] | None = None

    def is_settled(self, token: int, num_left: int) -> bool:
        return token in self.forced[:1] or self._looked == (token, num_left)

    def look(self, token: int, num_left: int) -> None:
        self._gate()
        self._looked = token, num_left

    def masks(self, ahead: Many[int], num_rows: int) -> list[Mask]:
        gate, self._gate = self._gate, lambda: None
        found = super().masks(ahead, num_rows)
        self._gate = gate
        return found


@pytest.mark.parametrize(("kind", "cost_s"), [(FakeConstraint, SLOW_S), (Searched, INLINE_S)])
def test_nobody_waits_for_anothers_mask_or_search(kind: type[FakeConstraint], cost_s: float) -> None:
    """Eight streams whose masks are not ready, beside two free ones: these end before the first mask is there."""
    opened = threading.Event()
    constraints = [kind(id, 12, cost_s=cost_s, gate=lambda: _wait(opened)) for id in range(8)]
    sequences = held(requests(10, GREEDY, {"max_tokens": 40}), [*constraints, None, None])
    backend = FakeBackend(num_slots=10, slot_capacity=64, batch_capacity=64)
    finished: list[int] = []

    def emit(output: StepOutput) -> None:
        finished.extend(id for id, delta in output.deltas if delta.finish is not None)
        if set(finished) >= {8, 9}:
            opened.set()
        if len(finished) == 10:
            engine.stop()

    engine = build_engine(backend, emit, sampler=SAMPLER, debug=True)
    for sequence in sequences:
        engine.submit(sequence)
    engine.run()
    assert set(finished[:2]) == {8, 9}
    assert all(constraint.taken for constraint in constraints)
    plain = [FakeConstraint(id, 12) for id in range(8)]
    run(held(requests(8, GREEDY, {"max_tokens": 40}), plain), FakeBackend(num_slots=8, slot_capacity=64))
    assert [one.taken for one in constraints] == [one.taken for one in plain]
    if kind is FakeConstraint:
        assert not any(segment.num_padding for batch in backend.batches for segment in batch)
    alone = [batch for batch in backend.batches[2:] if len(batch) == 2]
    assert len(alone) >= 35, "those who sit out are not computed"


def _wait(event: threading.Event) -> None:
    assert event.wait(20), "somebody waits for this mask"


@pytest.mark.parametrize("cost_s", [HELPED_S, SLOW_S])
@pytest.mark.parametrize("beside", [False, True])
def test_who_sits_out_can_be_cancelled_and_frees_its_slot(cost_s: float, beside: bool) -> None:
    opened = threading.Event()
    constraint = FakeConstraint(0, 12, cost_s=cost_s, gate=lambda: _wait(opened))
    options = [constraint, None, FakeConstraint(2, 5)]
    sequences = held(requests(3, GREEDY, {"max_tokens": 30}), options)
    backend = FakeBackend(num_slots=2 if beside else 1, slot_capacity=64)
    finished: dict[int, str] = {}

    def emit(output: StepOutput) -> None:
        finished.update({id: delta.finish.reason for id, delta in output.deltas if delta.finish is not None})
        if len(finished) == 3:
            opened.set()
            engine.stop()

    engine = build_engine(backend, emit, sampler=SAMPLER, debug=True)
    for sequence in sequences:
        engine.submit(sequence)
    for _ in range(6):
        engine.step()
    assert sequences[0].slot == 0
    assert sequences[0].progress.num_pending == 0, "it sits out"
    engine.cancel(0)
    engine.run()
    assert finished == {0: "cancelled", 1: "length", 2: "stop"}
    assert constraint.taken == []


def test_the_time_of_one_that_sits_out_may_be_over() -> None:
    opened = threading.Event()
    now_s = 0.0
    sequence = Sequence(
        Request(0, [1, 9, 3], sampling=GREEDY, due=Due(deadline_s=5.0)),
        constraint=FakeConstraint(0, 12, cost_s=SLOW_S, gate=lambda: _wait(opened)),
    )
    answers = Answers([sequence])
    engine = build_engine(FakeBackend(), answers, clock=lambda: now_s)
    engine.submit(sequence)
    engine.step()
    now_s = 6.0
    engine.step()
    opened.set()
    assert "within the 5 s" in answers.of(0).failure
    assert not engine.scheduler.has_work
    engine.stop()


@pytest.mark.parametrize("cost_s", [INLINE_S, HELPED_S, SLOW_S])
@pytest.mark.parametrize("where", ["mask", "take"])
@pytest.mark.parametrize("guesses", [False, True])
def test_a_constraint_that_fails_fails_its_own_request_and_says_where(cost_s: float, where: str, guesses: bool) -> None:
    calls = 0

    def fail() -> None:
        nonlocal calls
        calls += 1
        if where == "mask" and calls == 3:
            raise ConstraintFailed("a limit was reached")

    bad = FakeConstraint(3, 30, cost_s=cost_s, gate=fail, fails_at=4 if where == "take" else None)
    failures: dict[int, Any] = {}
    sequences = held(requests(3, GREEDY, {"max_tokens": 20}), [FakeConstraint(1, 12), bad, None])
    answers = Answers(sequences)

    def emit(output: StepOutput) -> None:
        answers(output)
        failures.update(output.failures)
        if not engine.scheduler.has_work:
            engine.stop()

    proposer = Always(42, 7) if guesses else None
    engine = build_engine(FakeBackend(), emit, sampler=SAMPLER, debug=True, proposers=Proposers(proposer))
    engine.scheduler.drafter.cost = free
    for sequence in sequences:
        engine.submit(sequence)
    engine.run()
    assert list(failures) == [1]
    assert isinstance(failures[1], InvalidParameter)
    assert failures[1].param == "response_format"
    assert "a limit was reached" in str(failures[1])
    assert answers.of(0).reason == "stop"
    assert answers.of(2).reason == "length"


@pytest.mark.parametrize("where", ["mask", "take"])
def test_a_constraint_that_fails_after_a_shift_leaves_a_slot_that_can_be_saved(where: str) -> None:
    """What was moved must not be saved for others: the slot keeps what was never moved."""
    num_taken = 100

    def fail() -> None:
        if where == "mask" and len(bad.taken) >= num_taken:
            raise ConstraintFailed("a limit was reached")

    bad = FakeConstraint(3, 500, forces=False, gate=fail, fails_at=num_taken if where == "take" else None)
    failing = Sequence(
        Request(
            0,
            list(range(1, 81)),
            sampling=GREEDY,
            max_tokens=300,
            ending=Ending(min_tokens=300, end_tokens=[END]),
            shift=Shift(keep=70),
        ),
        constraint=bad,
    )
    other = Sequence(Request(1, [9, 8, 7], sampling=GREEDY, max_tokens=20))
    answers = Answers([failing, other])
    backend = FakeBackend(num_slots=1, slot_capacity=160, batch_capacity=80)
    engine = build_engine(backend, answers, sampler=SAMPLER, context_shift=True, tiers=Tiers(10_000))
    engine.submit(failing)
    engine.submit(other)
    engine.step()
    while engine.scheduler.has_work:
        engine.step()
        engine.check_integrity()
    assert "a limit was reached" in answers.of(0).failure
    assert failing.progress.num_shifted > 0
    assert answers.of(1).reason == "length"
    assert [len(entry.tokens) for entry in engine.kv.host.entries] == [failing.progress.keep]


@pytest.mark.parametrize("min_tokens", [0, 8, 60])
def test_min_tokens_hold_an_answer_open_while_the_text_can_go_on(min_tokens: int) -> None:
    """The model wants to end at once; a text that is complete ends the answer all the same."""

    class Open(FakeConstraint):
        def _may_follow(self, taken: Many[int]) -> list[int]:
            return [END] if len(taken) >= 20 else [7, 8, END]

        @property
        def is_complete(self) -> bool:
            return False  # an end token has to say it

    sequences = held(requests(1, GREEDY, {"min_tokens": min_tokens}), [Open(0, 99)])
    answers = run(sequences, FakeBackend(ends_at=1))
    assert answers.of(0).reason == "stop"
    assert len(answers.of(0).tokens) == 3 + min(min_tokens, 20)


@pytest.mark.parametrize("kind", ["partitioned", "unified", "window", "snapshots"])
def test_a_complete_text_ends_the_answer_where_the_request_forbids_the_rest_whatever_was_guessed(kind: str) -> None:
    """It takes no token in that step, and what was computed after its last one is cut from the cache."""

    class Only(FakeConstraint):
        def _may_follow(self, taken: Many[int]) -> list[int]:
            return [7, END] if taken else [8, 9]

    sampling = ResolvedSampling(temperature=0, logit_bias={7: -math.inf})
    backend = FakeBackend(**memory(kind))
    sequences = held(requests(1, sampling, {"min_tokens": 4}), [Only(0, 99)])
    answers = run(sequences, backend, proposer=Always(7, 7))
    assert any(len(segment.tokens) == 3 and segment.start == 3 for batch in backend.batches for segment in batch)
    assert answers.of(0).reason == "stop"
    assert backend.held[0] == [1, 9, 3, answers.of(0).tokens[3]]


def test_who_ends_with_forced_tokens_needs_no_decode_for_them() -> None:
    class Ending(FakeConstraint):
        def _may_follow(self, taken: Many[int]) -> list[int]:
            return [7, 8] if len(taken) < 4 else [10 + len(taken)]

    backend = FakeBackend()
    answers = run(held(requests(1, GREEDY, {}), [Ending(0, 9)]), backend, rows=dear)
    assert answers.of(0).tokens[7:] == (14, 15, 16, 17, 18)
    assert answers.of(0).reason == "stop"
    assert len(backend.batches) <= 5


def test_tokens_are_drawn_as_of_the_allowed_ones_alone() -> None:
    """The lower half of all tokens may come, so that every other draw is refused; what is drawn then has nothing to do
    with that: the allowed tokens' upper half comes as often as it weighs. 600 draws: five sigma are 0.1.
    """

    class Half(FakeConstraint):
        def _may_follow(self, taken: Many[int]) -> list[int]:
            return [] if taken else list(range(1, 49))

    count, likely = 600, next_token([1, 9, 3])
    sequences = [
        Sequence(
            Request(id, [1, 9, 3], max_tokens=1, sampling=ResolvedSampling(seed=id, top_k=0, min_p=0.0)),
            constraint=Half(0, 9),
        )
        for id in range(count)
    ]
    run(sequences, FakeBackend(num_slots=16, batch_capacity=64))
    drawn = [sequence.progress.tokens[-1] for sequence in sequences]
    weights = {token: math.exp((token == likely) / sequences[0].request.sampling.temperature) for token in range(1, 49)}
    expected = sum(weights[token] for token in range(25, 49)) / sum(weights.values())
    assert set(drawn) <= set(weights)
    assert abs(sum(token > 24 for token in drawn) / count - expected) < 0.1
