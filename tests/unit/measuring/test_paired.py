"""Gains from times: what any statistic of them has to hold, whatever the times are."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.measuring.paired import DISTURBED_FACTOR, Confidence, disturbance, gain_of, usual_s

SECONDS = st.lists(st.floats(1e-6, 100), min_size=1, max_size=60)
SAMPLES = st.lists(st.floats(-0.2, 0.2), min_size=2, max_size=30)


@given(SECONDS, st.sampled_from([0.25, 0.5, 2.0, 1024.0]), st.randoms(use_true_random=False))
def test_another_unit_or_order_of_the_times_changes_nothing(
    seconds: list[float], factor: float, order: random.Random
) -> None:
    other = [each * factor for each in seconds]
    order.shuffle(other)
    assert usual_s(other) == usual_s(seconds) * factor
    assert disturbance(other) == disturbance(seconds)


@given(SECONDS)
def test_the_usual_pass_is_one_that_was_measured_and_near_the_fastest(seconds: list[float]) -> None:
    assert usual_s(seconds) in seconds
    assert min(seconds) <= usual_s(seconds) <= DISTURBED_FACTOR * min(seconds)
    assert disturbance(seconds) >= 0


@given(
    st.floats(1e-6, 100),
    st.lists(st.floats(1.0, 1e4), min_size=2, max_size=59),
    st.lists(st.floats(1.0, 1.001), min_size=1, max_size=20),
)
def test_passes_that_something_held_up_do_not_count(true_s: float, held_up: list[float], quiet: list[float]) -> None:
    """A quarter of the passes and one more were quiet, as many others as you like were slower by any factor."""
    quiet = [*quiet, *[1.0] * (len(held_up) // 3 + 1)]
    assert usual_s([true_s * factor for factor in held_up + quiet]) <= true_s * 1.001 * (1 + 1e-12)


@given(SAMPLES, st.sampled_from(["likely", "sure"]), st.floats(0.5, 2))
def test_what_is_faster_one_way_round_is_slower_the_other(
    samples: list[float], confidence: Confidence, factor: float
) -> None:
    gain, other = gain_of(samples, confidence), gain_of([-each for each in samples], confidence)
    assert gain.mean == -other.mean
    assert gain.half_width == pytest.approx(other.half_width)
    assert not (gain.is_above(factor) and gain.is_below(factor))
    if abs(gain.low - math.log(factor)) > 1e-9:
        assert gain.is_above(factor) is other.is_below(1 / factor)


@given(SAMPLES)
def test_more_certainty_needs_wider_bounds_and_equal_samples_are_not_believed_to_be_exact(samples: list[float]) -> None:
    likely, sure = gain_of(samples, "likely"), gain_of(samples, "sure")
    assert likely.mean == sure.mean == pytest.approx(sum(samples) / len(samples))
    assert 0 < likely.half_width < sure.half_width


def test_one_sample_says_nothing() -> None:
    assert gain_of([0.5], "likely").low == -math.inf
    assert not gain_of([], "likely").is_above(1e-9)


@pytest.mark.parametrize(("confidence", "share"), [("likely", 0.05), ("sure", 0.005)])
@pytest.mark.parametrize("num_pairs", [2, 4, 12])
def test_of_equally_fast_ways_one_is_found_faster_as_seldom_as_the_confidence_says(
    confidence: Confidence, share: float, num_pairs: int
) -> None:
    """4,000 draws: 0.05 +- 0.0035 and 0.005 +- 0.0011; five standard deviations off in fewer than one of a million."""
    draw = random.Random(num_pairs)
    found = sum(gain_of([draw.gauss(0, 0.05) for _ in range(num_pairs)], confidence).is_above(1.0) for _ in range(4000))
    assert abs(found / 4000 - share) < 5 * math.sqrt(share * (1 - share) / 4000)
