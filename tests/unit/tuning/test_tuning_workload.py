"""Runs that fit into a slot and into the time, with prompts that share nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.tuning.comparing import Rates
from localllm.tuning.workload import RUNS, SHALLOW, RequestTiming, Work, prompt_tokens, rates_of, work_for

TEXT = list(range(7000))


@given(st.floats(1, 1e5), st.floats(0.2, 1e4), st.integers(32, 65536), st.floats(1, 1e5))
def test_a_run_fits_into_a_slot_and_long_prompts_into_the_time(
    prompt: float, answer: float, ctx: int, total_s: float
) -> None:
    speed = Rates(prompt, answer)
    work = work_for(speed, ctx, total_s)
    assert 1 <= len(work.depths) <= 2
    assert work.answer >= 2
    assert max(work.depths) + work.answer <= ctx
    assert list(work.depths) == sorted(set(work.depths))
    if len(work.depths) > 1:
        assert work.seconds(speed) <= total_s / RUNS


def test_fast_models_get_a_long_prompt_and_answers_that_a_clock_can_time() -> None:
    assert work_for(Rates(8000, 1200), 8192, 180) == Work((SHALLOW, 4096), 256)
    assert work_for(Rates(600, 60), 8192, 180) == Work((SHALLOW, 512), 16)


def test_slow_models_get_a_question_and_a_short_answer() -> None:
    assert work_for(Rates(20, 4), 8192, 180) == Work((SHALLOW,), 16)


def test_prompts_begin_each_with_other_words() -> None:
    starts = {prompt_tokens(TEXT, 64, number, repeats=False)[:8] for number in range(200)}
    assert len(starts) == 200


@given(st.integers(8, 4096), st.integers(0, 1000))
def test_a_prompt_that_wants_its_text_back_says_the_beginning_again(depth: int, number: int) -> None:
    prompt = prompt_tokens(TEXT, depth, number, repeats=True)
    assert len(prompt) == depth == len(prompt_tokens(TEXT, depth, number, repeats=False))
    assert prompt[-(depth // 3) :] == prompt[: depth // 3]


def test_no_depth_counts_more_than_another() -> None:
    timed = [RequestTiming(100, 1.0, 10, 1.0), RequestTiming(4000, 10.0, 10, 4.0)]
    rates = rates_of(timed)
    assert (rates.prompt, rates.answer) == pytest.approx((200, 5))
