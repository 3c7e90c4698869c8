"""Log-probabilities of prompts, and requests that only compute a prompt, on the fake backend."""

from __future__ import annotations

import math
from collections.abc import Sequence as Many

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localllm.engine.backend import Segment
from localllm.engine.building import build_engine
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.engine import StepOutput
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import ReportOptions, Request, Reuse
from localllm.engine.sampling.prompt_logprobs import CAREFUL_VOCABULARY, MAX_BYTES, MIN_SCORED_TOKENS, PromptScorer
from localllm.engine.sampling.sampler import NumpySampler
from localllm.engine.scheduling.pace import StepLimits
from localllm.types import Delta, ResolvedSampling, TokenLogprob
from tests.draining import drain
from tests.fakes import FakeBackend, alone, next_token

GREEDY = ResolvedSampling(temperature=0)
LIKELY = 1 - math.log(96 + math.e)
"""One logit of a row is 1, 96 are 0."""


class Told:
    """What each request was told, in order."""

    def __init__(self) -> None:
        self.deltas: dict[int, list[Delta]] = {}
        self.failures: dict[int, str] = {}

    def __call__(self, output: StepOutput) -> None:
        for id, delta in output.deltas:
            self.deltas.setdefault(id, []).append(delta)
        self.failures.update((id, error.message) for id, error in output.failures)

    def of_prompt(self, id: int) -> list[TokenLogprob]:
        return [logprob for delta in self.deltas[id] for logprob in delta.prompt_logprobs]

    def of_answer(self, id: int) -> list[TokenLogprob]:
        return [logprob for delta in self.deltas[id] for logprob in delta.logprobs]


def check(logprobs: list[TokenLogprob], prompt: list[int], num_top: int) -> None:
    """Every token of the prompt, once, in order, by what comes before it."""
    assert b"".join(each.piece for each in logprobs) == bytes(31 + token for token in prompt)
    assert math.isnan(logprobs[0].logprob)
    assert logprobs[0].top == ()
    for place, (token, each) in enumerate(zip(prompt[1:], logprobs[1:], strict=True), start=1):
        likeliest = next_token(prompt[:place])
        assert math.isclose(each.logprob, LIKELY if token == likeliest else LIKELY - 1, abs_tol=1e-5)
        assert len(each.top) == num_top
        if num_top:
            assert each.top[0][0] == bytes([31 + likeliest])
            assert token != likeliest or each.top[0] == (each.piece, each.logprob), "the very same number"


@settings(max_examples=100)
@given(
    requests=st.lists(
        st.tuples(
            st.lists(st.integers(1, 96), min_size=1, max_size=50), st.integers(0, 12), st.none() | st.integers(0, 5)
        ),
        min_size=1,
        max_size=10,
    ),
    slots=st.integers(1, 4),
    batch=st.integers(5, 40),
    can_rewind=st.booleans(),
    fails_at_step=st.none() | st.integers(0, 6),
)
def test_every_prompt_is_scored_once_whoever_runs_beside_it(
    requests: list[tuple[list[int], int, int | None]],
    slots: int,
    batch: int,
    can_rewind: bool,
    fails_at_step: int | None,
) -> None:
    """Also when a decode fails and all is computed again."""
    backend, told = (
        FakeBackend(num_slots=slots, batch_capacity=batch, can_rewind=can_rewind, fails_at_step=fails_at_step),
        Told(),
    )
    engine = build_engine(backend, told)
    for id, (prompt, count, wanted) in enumerate(requests):
        engine.submit(
            Sequence(
                Request(
                    id,
                    prompt,
                    sampling=GREEDY,
                    max_tokens=count,
                    reported=ReportOptions(logprobs=wanted, prompt_logprobs=wanted),
                    reuse=Reuse(cache_prompt=wanted is None),
                )
            )
        )
    drain(engine)
    for id, (prompt, count, wanted) in enumerate(requests):
        if id in told.failures:  # it was alone in the decode that failed
            continue
        finish = told.deltas[id][-1].finish
        assert finish is not None
        room = min(count, backend.slot_capacity - len(prompt))
        assert (finish.reason, finish.usage.completion_tokens) == ("length", room)
        text = "".join(delta.text for delta in told.deltas[id])
        assert text == "".join(chr(31 + token) for token in alone(prompt, room))
        if wanted is None:
            assert told.of_prompt(id) == []
        else:
            check(told.of_prompt(id), prompt, wanted)
            assert len(told.of_answer(id)) == room
            assert finish.usage.cached_tokens == 0


@settings(max_examples=100)
@given(
    head=st.lists(st.integers(1, 96), min_size=1, max_size=40),
    texts=st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=8), min_size=1, max_size=8),
    slots=st.integers(1, 4),
    can_rewind=st.booleans(),
    fails_at_step=st.none() | st.integers(0, 6),
)
def test_texts_behind_a_prompt_that_is_cached_are_scored_by_what_is_before_them(
    head: list[int], texts: list[list[int]], slots: int, can_rewind: bool, fails_at_step: int | None
) -> None:
    """Also by the texts' own beginnings, which others have scored."""
    backend, told = FakeBackend(num_slots=slots, can_rewind=can_rewind, fails_at_step=fails_at_step), Told()
    engine = build_engine(backend, told, tiers=Tiers(2**20))
    for id, text in enumerate(texts):
        reported = ReportOptions(prompt_logprobs=0, scored_from=len(head), whole=True)
        reuse = Reuse(pauses=[len(head) - 1])
        engine.submit(Sequence(Request(id, head + text, sampling=GREEDY, max_tokens=0, reported=reported, reuse=reuse)))
    drain(engine)
    for id, text in enumerate(texts):
        if id in told.failures:
            continue
        whole, found = head + text, told.of_prompt(id)
        assert [each.token for each in found] == text
        for place, each in enumerate(found, start=len(head)):
            expected = LIKELY if whole[place] == next_token(whole[:place]) else LIKELY - 1
            assert math.isclose(each.logprob, expected, abs_tol=1e-5)
        finish = told.deltas[id][-1].finish
        assert finish is not None
        assert finish.usage.cached_tokens <= len(head) - 1
        if slots == 1 and id and fails_at_step is None:
            assert finish.usage.cached_tokens == len(head) - 1


def test_an_answer_of_no_tokens_leaves_its_prompt_in_the_cache() -> None:
    engine = build_engine(FakeBackend(), told := Told())
    engine.submit(Sequence(Request(1, list(range(1, 41)), sampling=GREEDY, max_tokens=0)))
    drain(engine)
    (delta,) = told.deltas[1]
    assert delta.finish is not None
    assert (delta.text, delta.num_tokens, delta.finish.reason) == ("", 0, "length")
    assert (delta.finish.usage.prompt_tokens, delta.finish.usage.completion_tokens) == (40, 0)
    assert delta.finish.timings.decode_s == 0
    engine.submit(Sequence(Request(2, list(range(1, 41)), sampling=GREEDY, max_tokens=3)))
    drain(engine)
    finish = told.deltas[2][-1].finish
    assert finish is not None
    assert finish.usage.cached_tokens == 39


def test_the_end_token_is_told_beside_a_prompts_log_probabilities_and_nowhere_else() -> None:
    engine = build_engine(FakeBackend(ends_at=5), told := Told())
    engine.submit(
        Sequence(
            Request(
                1,
                [7, 8, 9],
                sampling=GREEDY,
                max_tokens=9,
                reported=ReportOptions(logprobs=1, prompt_logprobs=1),
                reuse=Reuse(False),
            )
        )
    )
    engine.submit(Sequence(Request(2, [7, 8, 9], sampling=GREEDY, max_tokens=9, reported=ReportOptions(logprobs=1))))
    drain(engine)
    assert [each.piece for each in told.of_answer(1)][-1:] == [b"<end>"]
    assert len(told.of_answer(1)) == len(told.of_answer(2)) + 1 == 3
    for id in (1, 2):
        finish = told.deltas[id][-1].finish
        assert finish is not None
        assert (finish.reason, finish.usage.completion_tokens) == ("stop", 2)


def test_a_prompt_whose_rows_hold_no_probabilities_fails_alone() -> None:
    engine = build_engine(FakeBackend(broken_at=50), told := Told())
    reported, reuse = ReportOptions(prompt_logprobs=1), Reuse(cache_prompt=False)
    for id, prompt in ((1, [50, 8, 9]), (2, [7, 8, 9])):
        engine.submit(Sequence(Request(id, prompt, sampling=GREEDY, max_tokens=2, reported=reported, reuse=reuse)))
    drain(engine)
    assert "probability" in told.failures[1]
    check(told.of_prompt(2), [7, 8, 9], 1)


class SlowRows(FakeBackend):
    """A row of logits takes 10 ms, any other token one."""

    now_s = 0.0

    def decode(self, segments: Many[Segment], *, within_s: float | None = None) -> bool:
        is_whole = super().decode(segments, within_s=within_s)
        for segment in segments:
            self.now_s += len(segment.tokens) * (0.01 if segment.slot else 0.001)
        return is_whole


@pytest.mark.parametrize("num_prompts", [1, 3])
def test_beside_a_stream_rows_take_no_more_of_a_step_than_prompts_may(num_prompts: int) -> None:
    backend = SlowRows(slot_capacity=512, batch_capacity=512)
    engine = build_engine(backend, told := Told(), limits=StepLimits(0.3, 0.1), clock=lambda: backend.now_s)
    engine.submit(Sequence(Request(0, [7], sampling=GREEDY, max_tokens=400)))
    engine.step()
    prompts = [[place % 96 + 1 for place in range(id, id + 400)] for id in range(num_prompts)]
    for id, prompt in enumerate(prompts, start=1):
        engine.submit(
            Sequence(
                Request(
                    id,
                    prompt,
                    sampling=GREEDY,
                    max_tokens=1,
                    reported=ReportOptions(prompt_logprobs=1),
                    reuse=Reuse(False),
                )
            )
        )
    drain(engine)
    for id, prompt in enumerate(prompts, start=1):
        check(told.of_prompt(id), prompt, 1)
    rows = [sum(each.num_outputs for each in batch if each.slot) for batch in backend.batches]
    beside = [count for count in rows if count]
    assert max(beside[5:]) <= 11, "learned: ten rows are 100 ms"
    assert max(beside) <= 21, "assumed at first"
    assert sum(beside) < 400 * num_prompts + num_prompts
    first, last = rows.index(beside[0]), len(rows) - 1 - rows[::-1].index(beside[-1])
    streams = [any(each.slot == 0 for each in batch) for batch in backend.batches[first : last + 1]]
    assert all(streams[: 399 - first]), "the stream gets its token in every step"


class TestPace:
    def scorer(self) -> PromptScorer:
        fake = FakeBackend(batch_capacity=512)
        return PromptScorer(fake, fake, NumpySampler(), num_slots=fake.num_slots, limits=StepLimits(0.3, 0.1))

    def test_rows_never_take_more_memory_than_they_may(self) -> None:
        scorer = self.scorer()
        for _ in range(100):
            count = scorer.max_tokens(0)
            assert 4 * CAREFUL_VOCABULARY * count <= MAX_BYTES
            scorer.observe(count, 0.001, 0)
        assert count == 64, "as many as fit"
        scorer._vocabulary_size = 152_000
        assert scorer.max_tokens(0) == 110

    @pytest.mark.parametrize("streams", [0, 3])
    def test_a_step_takes_as_many_as_its_time_allows_fewer_beside_streams(self, streams: int) -> None:
        scorer, limit_s = self.scorer(), 0.1 if streams else 0.3
        scorer._vocabulary_size = 97

        def seconds(count: int) -> float:
            return 0.002 * count + 0.01 * streams + 0.02

        def has_learned() -> bool:
            for _ in range(10):
                scorer.observe(scorer.max_tokens(streams), seconds(scorer.max_tokens(streams)), streams)
            return 0.9 * limit_s <= seconds(scorer.max_tokens(streams)) <= 1.01 * limit_s

        assert has_learned()
        scorer.observe(30, 10.0, streams)
        assert has_learned(), "something held that step up"
        for _ in range(20):
            scorer.observe(1, 10.0, streams)
        assert scorer.max_tokens(streams) == MIN_SCORED_TOKENS
        assert has_learned()
