"""Guesses from texts: found again after edits, believed as far as they are right, and no answer is another for them."""

from __future__ import annotations

import random
from collections.abc import Sequence as Many
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localllm.engine.building import build_engine
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Request, Shift
from localllm.engine.scheduling.cost import Part
from localllm.engine.scheduling.row_cost import MOST_SHAPES, RowCost
from localllm.engine.scheduling.rows import MOST_ROWS, Cost, assumed_cost, share_rows
from localllm.engine.scheduling.rows import Wish as RowWish
from localllm.engine.speculation.guesser import Experience, Guesser, Speculator
from localllm.engine.speculation.lookup import NGRAM, Lookup
from localllm.engine.speculation.proposers import Proposers
from localllm.engine.speculation.rates import Rates
from localllm.types import ResolvedSampling, SourceName, Speculative
from localllm.types.states import EngineStatus
from tests.fakes import FakeBackend
from tests.unit.engine.test_proposals import (
    GREEDY,
    OPTIONS,
    SAMPLINGS,
    SLOT,
    Answers,
    dear,
    free,
    memory,
    requests,
    run,
)

MOST = MOST_ROWS - 1


def text(count: int, seed: int = 0, kinds: int = 1000) -> list[int]:
    chooser = random.Random(seed)
    return [chooser.randrange(kinds) for _ in range(count)]


def looked_up(prompt: Many[int], answer: Many[int], *, prediction: Many[int] | None = None) -> list[float]:
    """For each token of the answer how far it was believed in: 0 where another or none was expected."""
    tokens = list(prompt)
    name: SourceName = "lookup" if prediction is None else "prediction"
    source, found = Lookup(name, Rates(), tokens, prediction), []
    for token in answer:
        guess = source.propose(tokens, MOST)
        found.append(guess.chances[0] if guess is not None and guess.tokens[0] == token else 0.0)
        tokens.append(token)
    return found


def num_right(found: list[float]) -> int:
    return sum(chance > 0 for chance in found)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 3) | st.integers(0, 200_000), max_size=40),
    st.lists(st.integers(0, 3) | st.integers(0, 200_000), max_size=60),
    st.none() | st.lists(st.integers(0, 3), min_size=1, max_size=30),
    st.integers(1, MOST),
)
def test_whatever_the_text_a_guess_is_of_tokens_that_are_there(
    prompt: list[int], answer: list[int], prediction: list[int] | None, most: int
) -> None:
    tokens = list(prompt)
    source = Lookup("lookup", Rates(Rates()), tokens, prediction)
    for token in answer:
        guess = source.propose(tokens, most)
        if guess is not None:
            assert 0 < len(guess.tokens) == len(guess.chances) <= most
            assert set(guess.tokens) <= {*tokens, *(prediction or ())}
            assert all(0 < chance < 1 for chance in guess.chances)
        tokens.append(token)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 300))
def test_a_text_that_is_built_at_once_is_found_as_one_that_came_token_by_token(seed: int, count: int) -> None:
    """Of 8 kinds of tokens: every n-gram occurs again and again, and the last place counts."""
    tokens = text(count, seed, 8)
    at_once, one_by_one = Lookup("lookup", Rates(), tokens), Lookup("lookup", Rates(), tokens[:0])
    fed: list[int] = []
    one_by_one = Lookup("lookup", Rates(), fed)
    for token in tokens:
        fed.append(token)
        one_by_one._num_agreed, one_by_one._at = 0, -1  # as if it were looked up anew at each token
        one_by_one._lost_at = -1
        one_by_one.propose(fed, MOST)
    first, second = at_once.propose(tokens, MOST), one_by_one.propose(fed, MOST)
    assert (first and first.tokens) == (second and second.tokens)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 4), max_size=20),
    st.lists(st.integers(0, 4) | st.integers(0, 50), max_size=80),
    st.none() | st.lists(st.integers(0, 4), min_size=1, max_size=40),
    st.lists(st.integers(1, 6), min_size=80, max_size=80),
)
def test_it_does_not_matter_how_many_tokens_come_at_a_time(
    prompt: list[int], answer: list[int], prediction: list[int] | None, sizes: list[int]
) -> None:
    tokens, others = list(prompt), list(prompt)
    one_by_one = Lookup("lookup", Rates(), tokens, prediction)
    in_pieces = Lookup("lookup", Rates(), others, prediction)
    for size in sizes:
        for token in answer[len(tokens) - len(prompt) :][:size]:
            tokens.append(token)
            guess = one_by_one.propose(tokens, MOST)
        if len(tokens) > len(others):
            others += tokens[len(others) :]
            assert in_pieces.propose(others, MOST) == guess


def test_what_is_copied_is_guessed_from_its_first_tokens_on() -> None:
    prompt = text(3000)
    found = looked_up(prompt, prompt[1000:1200])
    assert num_right(found[2 * NGRAM :]) == 200 - 2 * NGRAM
    assert min(found[40:]) > 0.9, "and believed in"


@pytest.mark.parametrize("size", [0, 1, 2, 5])
@pytest.mark.parametrize("new", [[], [7001], [7001, 7002, 7003, 7004, 7005, 7006]], ids=len)
@pytest.mark.parametrize("is_predicted", [False, True])
def test_behind_an_edit_the_text_is_found_again(size: int, new: list[int], *, is_predicted: bool) -> None:
    """A file that comes back with one change: as many tokens are missing, and others are there instead."""
    old = text(200)
    answer = [*old[:100], *new, *old[100 + size :]]
    found = looked_up([9, 9, 9, *([] if is_predicted else old), 9], answer, prediction=old if is_predicted else None)
    behind = found[100 + len(new) :]
    assert num_right(behind[NGRAM:]) == len(behind) - NGRAM
    if is_predicted:
        assert num_right(found[:100]) == 100, "from the first token on"
    if size == 1 == len(new):
        assert behind[0] > 0, "one token for another: the next is that behind it"


def test_a_text_that_repeats_itself_is_guessed_beyond_its_end() -> None:
    tokens = [1, 2, 3, 4] * 5
    guess = Lookup("lookup", Rates(), tokens).propose(tokens, MOST)
    assert guess is not None
    assert guess.tokens == (1, 2, 3, 4, 1, 2, 3)


def test_keys_that_repeat_are_guessed_although_their_values_differ() -> None:
    key, other, values = [1, 2, 3, 4], [5, 6, 7, 8], iter(text(400, kinds=10_000))
    records = [[*key, next(values) + 10, *other, next(values) + 10, next(values) + 10] for _ in range(20)]
    found = looked_up([9], [token for record in records for token in record])
    later = [found[start : start + 11] for start in range(6 * 11, len(found), 11)]
    assert min(min(*record[1:4], *record[5:9]) for record in later) > 0.5, "keys are believed in"
    tokens, believed = [9], []
    source = Lookup("lookup", Rates(), tokens)
    for number, token in enumerate([token for record in records for token in record]):
        guess = source.propose(tokens, 1)
        if number > 6 * 11 and number % 11 in (4, 9, 10):
            believed.append(guess.chances[0] if guess else 0.0)
        tokens.append(token)
    assert sum(believed) / len(believed) < 0.2, "values are not"


def test_hostile_text_is_not_believed_within_a_few_tokens_and_a_copy_soon_is_again() -> None:
    """Of three kinds of tokens: each n-gram was there before, and what came then says nothing."""
    tokens = text(60, kinds=3)
    source = Lookup("lookup", Rates(), tokens)
    for token in text(40, seed=1, kinds=3):
        tokens.append(token)
        source.propose(tokens, MOST)
    chances = []
    for token in text(60, seed=2, kinds=3):
        tokens.append(token)
        guess = source.propose(tokens, MOST)
        chances.append(guess.chances[0] if guess else 0.0)
    assert sum(chances) / len(chances) < 0.5
    copied = text(60, seed=3, kinds=3)
    guess = None
    for token in copied[:50] + copied[:50]:
        tokens.append(token)
        guess = source.propose(tokens, MOST)
    assert guess is not None
    assert guess.chances[0] > 0.8


def test_what_one_sequence_learned_the_next_one_begins_with() -> None:
    experience = Experience()
    for _ in range(20):
        rates = experience.rates("lookup")
        for _ in range(20):
            rates.learn(3, is_right=False)
    assert experience.rates("lookup").chance(3) < 0.1
    assert experience.rates("prediction").chance(3) > 0.3, "another source"


class Repeating(FakeBackend):
    """A model whose text has few kinds of tokens, and repeats itself now and then."""

    def _row(self, cells: list[int]) -> npt.NDArray[np.float32]:
        ends = self._ends_at is not None and len(cells) >= self._ends_at
        last = cells[-4:]
        token = 0 if ends else (last[0] * 3 + last[-1] * 5 + len(cells) // 29) % 6 + 40
        row = np.zeros(97, np.float32)
        row[token] += 1.5
        row[40 + token % 5] += 1
        return row


def mutated(tokens: Many[int], seed: int) -> list[int]:
    """Some are missing, some are others, some are new."""
    chooser, found = random.Random(seed), []
    for token in tokens:
        kind = chooser.randrange(20)
        if kind == 0:
            continue
        found += [chooser.randrange(1, 97)] if kind == 1 else [token, 50] if kind == 2 else [token]
    return found


@settings(max_examples=60, deadline=None)
@given(
    SAMPLINGS,
    OPTIONS,
    st.integers(1, 3),
    st.sampled_from(["partitioned", "partitioned", "unified", "window", "recurrent", "snapshots"]),
    st.sampled_from([None, None, 12, 20]),
    st.integers(0, 25),
    st.integers(0, 3),
    st.integers(0, 1000),
    st.sampled_from([free, assumed_cost, dear]),
    st.sampled_from([None, 1, 3]),
    st.booleans(),
)
def test_the_answer_with_texts_to_guess_from_is_the_answer_without(
    sampling: ResolvedSampling,
    options: dict[str, Any],
    count: int,
    kind: str,
    ends_at: int | None,
    stop_at: int,
    stop_length: int,
    seed: int,
    cost: Cost,
    n_max: int | None,
    shifts: bool,
) -> None:
    """Real sources on a text that repeats itself, and a prediction that is partly right."""
    shifts = shifts and kind == "partitioned" and options["max_tokens"] is not None
    if shifts:
        options = {**options, "max_tokens": 100}

    def made() -> FakeBackend:
        return Repeating(num_slots=3, slot_capacity=SLOT, batch_capacity=24, ends_at=ends_at, **memory(kind))

    first = run(requests(count, sampling, options), made(), shifts=shifts)
    if stop := first.of(0).text[stop_at : stop_at + stop_length]:
        options = {**options, "stop": [stop, "never"]}
    plain = run(requests(count, sampling, options), made(), shifts=shifts)
    sequences, experience = requests(count, sampling, options), Experience()
    for one in sequences:
        predicted = mutated(first.of(one.id).tokens[3:], seed)
        one.drawing.guesser = Guesser(Speculative(n_max=n_max), experience, prediction=predicted)
    backend = made()
    guessed = run(sequences, backend, shifts=shifts, proposer=Speculator(), rows=cost)
    for id in range(count):
        assert guessed.of(id) == plain.of(id)
        accepted, rejected = guessed.guesses(id)
        assert 0 <= accepted <= guessed.of(id).num_tokens
        assert rejected >= 0
    most_rows = max((len(one.tokens) for batch in backend.batches for one in batch if one.start >= 3), default=1)
    if n_max is not None and options["prompt_logprobs"] is None and not shifts:
        assert most_rows <= 1 + n_max


def test_what_came_of_each_sources_guesses_is_counted() -> None:
    plain = run(requests(2, GREEDY, {"max_tokens": 40}), Repeating())
    sequences = requests(2, GREEDY, {"max_tokens": 40})
    told: list[EngineStatus] = []
    sequences[0].drawing.guesser = Guesser(Speculative(), Experience(), prediction=mutated(plain.of(0).tokens[3:], 1))
    sequences[1].drawing.guesser = Guesser(Speculative(sources=("lookup",)), Experience())
    answers = Answers(sequences)
    engine = build_engine(Repeating(), answers, proposers=Proposers(Speculator()))
    engine.scheduler.drafter.cost = free
    for one in sequences:
        engine.submit(one)
    engine.step()
    while engine.scheduler.has_work:
        engine.step()
    engine.inspect(told.append)
    engine.step()
    (status,) = told
    assert {each.source for each in status.guesses} == {"prediction", "lookup"}
    counted = [answers.guesses(one.id) for one in sequences]
    assert sum(each.num_right for each in status.guesses) == sum(right for right, _ in counted)
    assert sum(each.num_computed for each in status.guesses) == sum(map(sum, counted))


def test_a_good_prediction_saves_steps_and_a_request_may_have_none() -> None:
    plain = run(requests(1, GREEDY, {"max_tokens": 40}), FakeBackend()).of(0)

    def steps(**wanted: Any) -> int:
        backend, sequences = FakeBackend(), requests(1, GREEDY, {"max_tokens": 40})
        sequences[0].drawing.guesser = Guesser(Speculative(**wanted), Experience(), prediction=plain.tokens[3:])
        answers = run(sequences, backend, proposer=Speculator(), rows=assumed_cost)
        assert answers.of(0) == plain
        return len(backend.batches)

    assert steps() <= 10
    assert steps(sources=("prediction",)) <= 10
    assert steps(n_max=2) in range(14, 18)
    assert steps(n_max=0) == steps(sources=()) == steps(sources=("lookup",)) == 40


def part(rows: int, slot: int = 0) -> Part:
    return (slot, 0, rows)


def test_the_cost_of_a_shape_is_what_it_took() -> None:
    """Two rows cost as much as eight: another kernel. The model, which knows passes and rows, does not say that."""
    true_ms = {1: 10.0, 2: 19.0, 4: 20.0, 8: 22.0}
    cost = RowCost(assumed_cost)
    for _ in range(20):
        for rows, took_ms in true_ms.items():
            cost.observe([part(rows)], took_ms)
    for rows, took_ms in true_ms.items():
        assert cost([part(rows)]) == pytest.approx(took_ms, rel=0.15)
    gains = [0.9**number for number in range(1, MOST_ROWS)]
    assert share_rows([RowWish(0, gains)], most=64, cost=cost).rows[0].num_rows == MOST_ROWS
    assert share_rows([RowWish(0, [0.7])], most=64, cost=cost).rows[0].num_rows == 1, "two rows do not pay"


def test_a_shape_that_was_slow_by_accident_is_tried_again_later() -> None:
    cost = RowCost(assumed_cost)
    for _ in range(5):
        cost.observe([part(1)], assumed_cost([part(1)]))
    for _ in range(5):
        cost.observe([part(4)], 20 * assumed_cost([part(4)]))
    wish = [RowWish(0, [0.9, 0.8, 0.7])]
    assert share_rows(wish, most=64, cost=cost).rows[0].num_rows < 4
    for _ in range(500):
        cost.observe([part(1)], assumed_cost([part(1)]))
    assert share_rows(wish, most=64, cost=cost).rows[0].num_rows == 4


def test_what_is_remembered_of_shapes_is_bounded() -> None:
    cost = RowCost(assumed_cost)
    for streams in range(1, 60):
        for rows in range(1, 30):
            cost.observe([part(rows, slot) for slot in range(streams)], 1.0)
    assert sum(map(len, cost._errors.values())) <= MOST_SHAPES


def test_a_prompt_of_a_hundred_thousand_tokens_costs_two_megabytes_at_most() -> None:
    prompt = text(100_000, kinds=150_000)
    source = Lookup("lookup", Rates(), prompt)
    assert source._table.nbytes <= 2 * 2**20
    assert num_right(looked_up(prompt, prompt[50_000:50_100])) >= 90


def test_a_guesser_follows_a_context_that_shifts() -> None:
    sequence = Sequence(Request(0, [1, 2, 3, 4, 5] * 8, sampling=GREEDY, shift=Shift(keep=4)))
    sequence.drawing.guesser = Guesser(Speculative(), Experience())
    assert sequence.drawing.guesser.propose(sequence) is not None
    sequence.shift(4, 10)
    for token in (1, 2, 3):
        sequence.append(token)
        proposal = sequence.drawing.guesser.propose(sequence)
    assert proposal is not None
    assert proposal.guessed[:3] == (4, 5, 1)
