"""Pictures in prompts: who waits for rows holds nobody up, streams are not late, and no row is taken for a token."""

from __future__ import annotations

import math
from collections.abc import Sequence as Many
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.engine.building import build_engine
from localllm.engine.media import MediaRows, Span
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import ReportOptions, Request, Reuse, Shift
from localllm.engine.sampling.dry import Dry
from localllm.engine.sampling.sampler import NumpySampler, SampledToken, SamplerParams
from localllm.engine.sampling.selection import Row
from localllm.engine.scheduling.pace import StepLimits
from localllm.engine.spans import Spans
from localllm.engine.speculation.guesser import Experience, Guesser, Speculator
from localllm.engine.speculation.proposers import Proposers
from localllm.errors import InternalError
from localllm.types import DrySampling, ResolvedSampling, Speculative
from tests.draining import drain
from tests.fakes import FakeBackend, FakeRows, alone, illustrated, picture_at
from tests.unit.engine.test_engine import GREEDY, Collector, text_of


def a_picture(size: int, *, is_causal: bool = True) -> tuple[list[int], list[Span]]:
    """A prompt of one token, a picture, and one more."""
    ids = tuple(-1 - row % 120 for row in range(size))
    rows = MediaRows(ids, size, None, is_causal, FakeRows(ids))
    return [7, *ids, 8], [Span(1, rows)]


def test_spans_out_of_order_are_refused() -> None:
    first, second = picture_at(3, 0), picture_at(7, 1)
    for spans in ((second, first), (first, second)):
        with pytest.raises(ValueError, match="overlap"):
            Spans(spans)


@pytest.mark.parametrize("how", ["come", "fail", "cancel"])
def test_who_waits_for_rows_holds_nobody_up_and_ends_alone(how: str) -> None:
    backend, collector = FakeBackend(num_slots=2, slot_capacity=256, batch_capacity=32), Collector()
    engine = build_engine(backend, collector)
    prompt, spans = illustrated([5] * 20, [(10, 1), (15, 0)], are_there=False)
    sources = [cast(FakeRows, span.of.source) for span in spans]
    engine.submit(Sequence(Request(1, prompt, spans=spans, sampling=GREEDY, max_tokens=4)))
    engine.submit(Sequence(Request(2, [3] * 40, sampling=GREEDY, max_tokens=30)))
    for _ in range(60):
        engine.step()
    assert [source.num_wants for source in sources] == [1, 1], "both are wanted at once, each once"
    assert collector.text[2] == text_of(alone([3] * 40, 30)), "the other is done"
    assert backend.held[0] == prompt[:10]
    assert not engine._cycle.computed_something
    assert engine._cycle.must_wait, "it sleeps until they come"
    engine.submit(Sequence(Request(3, [4] * 5, sampling=GREEDY, max_tokens=2)))
    engine.step()
    if how == "come":
        for source in sources:
            source.come()
        assert not engine._inbox.empty(), "the engine is woken"
    elif how == "fail":
        sources[0].come(InternalError("it is no picture"))
    else:
        engine.cancel(1)
    drain(engine)
    assert collector.text[3] == text_of(alone([4] * 5, 2))
    if how == "come":
        assert collector.text[1] == text_of(alone(prompt, 4))
    else:
        assert str(collector.failures.get(1, "cancelled")) == ("it is no picture" if how == "fail" else "cancelled")
        assert engine.scheduler.running == [], "its slot is free"


def test_rows_that_the_cache_has_are_not_wanted() -> None:
    engine = build_engine(FakeBackend(num_slots=1, slot_capacity=256, batch_capacity=32), collector := Collector())
    prompt, spans = illustrated([5] * 60, [(20, 1), (40, 2)])
    engine.submit(Sequence(Request(1, prompt, spans=spans, sampling=GREEDY, max_tokens=4)))
    drain(engine)
    prompt, spans = illustrated([5] * 60 + [6], [(20, 1), (40, 2)], are_there=False)
    engine.submit(Sequence(Request(2, prompt, spans=spans, sampling=GREEDY, max_tokens=4)))
    drain(engine)
    assert collector.text[2] == text_of(alone(prompt, 4))
    assert [cast(FakeRows, span.of.source).num_wants for span in spans] == [0, 0]


@pytest.mark.parametrize("memory", [{}, {"num_cells": 2048}], ids=["partitioned", "unified"])
@pytest.mark.parametrize("is_causal", [True, False], ids=["causal", "whole"])
def test_streams_flow_beside_pictures_and_wait_for_a_whole_one_no_longer_than_they_saved(
    memory: dict[str, Any], is_causal: bool
) -> None:
    """100 tokens a second, a picture of 2 s, 0.1 s for prompts beside streams; also beside ever new prompts."""
    backend = FakeBackend(num_slots=3, slot_capacity=512, batch_capacity=256, **memory)
    backend.token_s = 0.01
    collector = Collector()
    engine = build_engine(backend, collector, clock=lambda: backend.now_s, limits=StepLimits(0.3, 0.1))
    engine.submit(Sequence(Request(1, [5], sampling=GREEDY, max_tokens=None)))
    for _ in range(20):
        engine.step()
    prompt, spans = a_picture(200, is_causal=is_causal)
    engine.submit(Sequence(Request(2, prompt, spans=spans, sampling=GREEDY, max_tokens=1)))
    began_s = last_s = backend.now_s
    num_tokens, gaps = collector.num_tokens[1], list[float]()
    for id in range(3, 200):
        engine.submit(Sequence(Request(id, [id % 90 + 1] * 12, sampling=GREEDY, max_tokens=1)))
        engine.step()
        if collector.num_tokens[1] > num_tokens:
            gaps.append(backend.now_s - last_s)
            num_tokens, last_s = collector.num_tokens[1], backend.now_s
        if 2 in collector.finish:
            break
    assert collector.text[2] == text_of(alone(prompt, 1))
    took_s = last_s - began_s
    if is_causal:
        assert max(gaps) < 0.65 + 0.1, "a tile is the largest part"
    else:
        assert sorted(gaps)[-2] < 0.45, "all steps but one are as beside any prompt"
        assert 2.0 <= max(gaps) < 2.2
        assert len(gaps) > max(gaps) / 0.3, "the streams got as many tokens before as beside parts of a prompt"
    assert took_s < 40, "it does not wait for ever"
    assert sum(id in collector.finish for id in range(3, 200)) > 3, "nor do those that come meanwhile"


def test_a_context_that_shifts_drops_whole_pictures_only() -> None:
    backend, collector = FakeBackend(num_slots=1, slot_capacity=40, batch_capacity=16), Collector()
    engine = build_engine(backend, collector, context_shift=True)
    prompt, spans = illustrated([*range(1, 21)], [(6, 1), (12, 3)])
    sequence = Sequence(
        Request(1, prompt, spans=spans, sampling=GREEDY, max_tokens=30, shift=Shift(keep=8, discard=12))
    )
    engine.submit(sequence)
    drain(engine)
    keep, end = spans[0].start, spans[1].end
    tokens, count = list(prompt), 0
    while count < 30:
        tokens += alone(tokens, 1)
        count += 1
        if len(tokens) == 40:
            dropped = end if count < 10 else 20
            break
    assert collector.finish[1].usage.completion_tokens == 30
    assert not any(token < 0 for token in sequence.progress.tokens[keep : keep + 6])
    assert dropped == end
    assert not sequence.progress.spans


class Watched(NumpySampler):
    """Refuses what would write before a row of logits."""

    def sample(self, rows: Many[Row], params: Many[SamplerParams], *, threads: int | None = None) -> list[SampledToken]:
        for each in params:
            ids = [*each.counts, *each.bias, *each.lessened, *(() if each.repeated is None else each.repeated)]
            assert all(token >= 0 for token in ids)
        return super().sample(rows, params, threads=threads)


@given(
    tokens=st.lists(st.integers(1, 4), min_size=1, max_size=40),
    pictures=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5)), min_size=1, max_size=6),
    last_n=st.sampled_from([-1, 0, 3, 20]),
    shifts=st.booleans(),
)
def test_no_media_row_is_taken_for_a_token(
    tokens: list[int], pictures: list[tuple[int, int]], last_n: int, shifts: bool
) -> None:
    """By penalties, DRY, guesses from the text, scores of the prompt, and after a shift."""
    backend, collector = FakeBackend(num_slots=2, slot_capacity=100, batch_capacity=16), Collector()
    experience, scored = Experience(), dict[int, list[Any]]()

    def report(output: Any) -> None:
        collector(output)
        for id, delta in output.deltas:
            scored.setdefault(id, []).extend(delta.prompt_logprobs)

    engine = build_engine(backend, report, sampler=Watched(), context_shift=shifts, proposers=Proposers(Speculator()))
    prompt, spans = illustrated(tokens, pictures)
    dry = DrySampling(multiplier=1.0, base=1.75, allowed_length=2, penalty_last_n=last_n, sequence_breakers=("\n",))
    for id, sampling in enumerate(
        (
            ResolvedSampling(temperature=0, repeat_penalty=1.5, repeat_last_n=last_n, frequency_penalty=0.5, dry=dry),
            ResolvedSampling(temperature=0, presence_penalty=0.5),
        )
    ):
        engine.submit(
            Sequence(
                Request(
                    id,
                    prompt,
                    spans=spans,
                    sampling=sampling,
                    max_tokens=60,
                    reuse=Reuse(cache_prompt=not id),
                    reported=ReportOptions(logprobs=1, prompt_logprobs=2) if id else ReportOptions(),
                ),
                dry=None if sampling.dry is None else Dry(dry, backend.token_bytes, prompt),
                guesser=Guesser(Speculative(), experience),
            )
        )
    drain(engine)
    assert set(collector.finish) == {0, 1}
    assert [each.token for each in scored[1]] == [max(token, -1) for token in prompt]
    known = [not math.isnan(each.logprob) for each in scored[1]]
    assert known == [token >= 0 and place > 0 for place, token in enumerate(prompt)]


def test_what_stands_behind_a_picture_is_scored_by_its_last_row() -> None:
    backend, scored = FakeBackend(num_slots=1, slot_capacity=100, batch_capacity=16), list[Any]()
    engine = build_engine(backend, lambda output: scored.extend(delta.prompt_logprobs for _, delta in output.deltas))
    prompt, spans = illustrated([1, 2, 3, 4], [(2, 3)])
    likeliest = alone(prompt[: spans[0].end], 1)[0]
    prompt[spans[0].end] = likeliest
    engine.submit(
        Sequence(
            Request(
                1,
                prompt,
                spans=spans,
                sampling=GREEDY,
                max_tokens=1,
                reported=ReportOptions(logprobs=0, prompt_logprobs=1),
            )
        )
    )
    drain(engine)
    each = [one for scores in scored for one in scores]
    row = np.zeros(97)
    row[0] = 1
    assert each[spans[0].end].logprob == pytest.approx(1 - np.log(np.exp(row).sum()))
