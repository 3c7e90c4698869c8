"""Probabilities behind all filters are those that tokens are drawn with."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.engine.sampling.draws import as_drawn
from localllm.engine.sampling.sampler import SamplerParams, sample

ROW = np.array([2.0, 1.0, 0.5, 0.0, -1.0, -3.0], np.float32)


def test_without_filters_they_are_the_models_own() -> None:
    told = as_drawn(ROW, SamplerParams(num_top=6), sample(ROW, SamplerParams(num_top=6)))
    whole = np.log(np.exp(ROW.astype(np.float64)).sum())
    assert [token for token, _ in told.top] == [0, 1, 2, 3, 4, 5]
    assert [logprob for _, logprob in told.top] == pytest.approx(list(ROW - whole), abs=1e-5)


def test_what_a_filter_takes_away_is_not_among_them_and_the_rest_adds_up() -> None:
    params = SamplerParams(top_k=3, temperature=0.7, bias={0: -math.inf}, num_top=20)
    told = as_drawn(ROW, params, sample(ROW, params))
    assert [token for token, _ in told.top] == [1, 2, 3]
    assert sum(math.exp(logprob) for _, logprob in told.top) == pytest.approx(1)
    greedy = SamplerParams(temperature=0, num_top=3)
    assert as_drawn(ROW, greedy, sample(ROW, greedy)).top == ((0, 0.0),)


@given(
    seed=st.integers(0, 2**32),
    top_k=st.integers(0, 6),
    top_p=st.floats(0.1, 1),
    min_p=st.floats(0, 0.5),
    typical_p=st.floats(0.2, 1),
    xtc=st.sampled_from([0.0, 0.5, 1.0]),
    mirostat=st.sampled_from([0, 1, 2]),
    temperature=st.floats(0.2, 2),
)
def test_whatever_is_drawn_was_among_what_could_be(
    seed: int, top_k: int, top_p: float, min_p: float, typical_p: float, xtc: float, mirostat: int, temperature: float
) -> None:
    params = SamplerParams(
        seed=seed,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        typical_p=typical_p,
        xtc_probability=xtc,
        mirostat=mirostat,
        temperature=temperature,
        num_top=6,
    )
    told = as_drawn(ROW, params, sample(ROW, params))
    assert math.isfinite(told.logprob)
    assert dict(told.top)[told.token] == told.logprob
    assert sum(math.exp(logprob) for _, logprob in told.top) == pytest.approx(1)


def test_tokens_come_as_often_as_is_told() -> None:
    """4,000 draws: a share is off by more than 0.04 once in some million runs."""
    params = SamplerParams(top_k=4, top_p=0.95, temperature=0.8, num_top=6)
    told = dict(as_drawn(ROW, params, sample(ROW, params)).top)
    drawn: Counter[int] = Counter()
    for number in range(4000):
        params.draw = number
        drawn[sample(ROW, params).token] += 1
    for token, logprob in told.items():
        assert drawn[token] / 4000 == pytest.approx(math.exp(logprob), abs=0.04)
    assert set(drawn) <= set(told)
