"""The distinct tokens of a window that moves on, against the whole window looked at again."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Request
from localllm.engine.sampling.distinct import Distinct
from localllm.types import ResolvedSampling


@given(
    prompt=st.lists(st.integers(0, 9), max_size=30),
    generated=st.lists(st.integers(0, 9), max_size=30),
    last_n=st.sampled_from([-1, 0, 1, 2, 7, 100]),
)
def test_they_are_those_of_the_last_tokens(prompt: list[int], generated: list[int], last_n: int) -> None:
    distinct = Distinct(prompt, last_n)
    tokens = list(prompt)
    for token in [None, *generated]:
        if token is not None:
            distinct.append(token)
            tokens.append(token)
        window = tokens if last_n < 0 else tokens[len(tokens) - min(last_n, len(tokens)) :]
        assert sorted(distinct.tokens().tolist()) == sorted(set(window))


@pytest.mark.parametrize("last_n", [-1, 60_000])
def test_a_step_behind_a_long_prompt_costs_as_much_as_behind_a_short_one(last_n: int) -> None:
    """Looking at all of the longer one again takes 1,000 times as long; what a long one holds is not copied either."""

    def least_s(num_tokens: int) -> float:
        sampling = ResolvedSampling(repeat_penalty=1.1, repeat_last_n=last_n)
        sequence = Sequence(Request(1, range(num_tokens), sampling=sampling))
        times = []
        for token in range(50):
            started = time.perf_counter()
            sequence.append(token)
            sequence.sampler_params()
            times.append(time.perf_counter() - started)
        return min(times)

    assert least_s(50_000) < 50 * least_s(50)
