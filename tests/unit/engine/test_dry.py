"""The DRY penalty against a plain search for the longest repetition; llama.cpp's own is compared in tests/llama."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.engine.sampling.dry import Dry
from localllm.types import DrySampling

TEXTS = {1: b"a", 2: b"b", 3: b"c", 4: b"\n", 5: b"x\ny", 6: b"<", 7: b"br", 8: b">"}


def plainly(tokens: list[int], sampling: DrySampling) -> dict[int, float]:
    """For each token the longest end of the text that stood before that token already; nothing across a newline."""
    if sampling.penalty_last_n >= 0:
        tokens = tokens[max(0, len(tokens) - sampling.penalty_last_n) :]
    lengths: dict[int, int] = {}
    for at in range(1, len(tokens)):
        length = 0
        while (
            length < at and tokens[at - 1 - length] == tokens[-1 - length] and b"\n" not in TEXTS[tokens[-1 - length]]
        ):
            length += 1
        if b"\n" not in TEXTS[tokens[at]]:
            lengths[tokens[at]] = max(lengths.get(tokens[at], 0), length)
    return {
        token: sampling.multiplier * sampling.base ** (length - sampling.allowed_length)
        for token, length in lengths.items()
        if length >= sampling.allowed_length
    }


@given(
    tokens=st.lists(st.integers(1, 5), max_size=40),
    num_prompt=st.integers(0, 40),
    allowed=st.integers(1, 4),
    last_n=st.sampled_from([-1, 0, 1, 5, 17]),
)
def test_the_penalties_are_those_of_a_plain_search(
    tokens: list[int], num_prompt: int, allowed: int, last_n: int
) -> None:
    sampling = DrySampling(
        multiplier=0.8, base=1.5, allowed_length=allowed, penalty_last_n=last_n, sequence_breakers=("\n",)
    )
    dry = Dry(sampling, TEXTS.__getitem__, tokens[:num_prompt])
    for token in tokens[num_prompt:]:
        dry.append(token)
    assert dry.penalties() == pytest.approx(plainly(tokens, sampling))


@pytest.mark.parametrize("repeats", [[6, 7, 8], [1, 6, 7, 8], [6, 7, 8, 1]])
def test_a_breaker_that_is_several_tokens_breaks_too(repeats: list[int]) -> None:
    """`<br>`: nothing reaches from after it to before it, however its text was cut."""
    sampling = DrySampling(multiplier=1.0, allowed_length=1, sequence_breakers=("<br>",))
    dry = Dry(sampling, TEXTS.__getitem__, [*repeats, 2, *repeats])
    after = repeats[repeats.index(8) + 1 :]
    assert set(dry.penalties()) == ({2} if after else set())


def test_the_penalty_grows_with_the_repetition_and_stays_a_number() -> None:
    sampling = DrySampling(multiplier=1.0, base=2.0, allowed_length=2)
    short = Dry(sampling, TEXTS.__getitem__, [1, 2, 3, 1, 2])
    assert short.penalties() == {3: 1.0}
    longer = Dry(sampling, TEXTS.__getitem__, [1, 2, 1, 3, 2, 1, 2, 1])
    assert longer.penalties() == {3: 2.0, 2: 1.0}
    endless = Dry(sampling, TEXTS.__getitem__, [1] * 5000)
    assert 1e30 < endless.penalties()[1] < 3.5e38, "at most what a float32 holds"
    beyond = Dry(DrySampling(multiplier=100.0, base=100.0, allowed_length=1), TEXTS.__getitem__, [1] * 5000)
    assert np.float32(beyond.penalties()[1]) == np.finfo(np.float32).max


def test_one_token_over_and_over_costs_no_more_than_a_few_looks_at_the_text() -> None:
    """Every place repeats every other then, at any length: looked for length by length that took minutes a token."""

    def least_s(tokens: list[int]) -> float:
        sampling = DrySampling(multiplier=1.0, base=1.00001, allowed_length=1)
        dry = Dry(sampling, lambda _: b"a", tokens)
        times = []
        for _ in range(3):
            started = time.perf_counter()
            dry.append(1)
            dry.penalties()
            times.append(time.perf_counter() - started)
        return min(times)

    assert least_s([1] * 30_000) < 200 * least_s(list(range(2, 30_002)))
