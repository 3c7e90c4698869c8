"""When to retry, and how fast to go."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.registry.fetch.pacing import Backoff, Retries, Retryable, TokenBucket, is_retryable, retry_after_s

chances = st.floats(0, 1, exclude_max=True)


@given(st.integers(1, 10_000), chances)
def test_pauses_double_up_to_a_limit_and_are_spread(failures: int, chance: float) -> None:
    longest = min(16.0, 2.0 ** min(failures - 1, 100))
    assert longest / 2 <= Backoff().pause_s(failures, chance=chance) <= longest


@given(st.floats(0, 1e9), chances)
def test_a_server_may_ask_for_more_time_but_not_for_all_of_it(asked_s: float, chance: float) -> None:
    pause_s = Backoff(max_retry_after_s=60).pause_s(1, retry_after_s=asked_s, chance=chance)
    assert max(0.5, min(asked_s, 60.0)) <= pause_s <= max(1.0, min(asked_s, 60.0))


NOW = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("Sun, 22 Nov 2026 12:00:30 GMT", 30.0),
        ("Sun, 22 Nov 2026 12:00:30 -0000", 30.0),
        ("Sun, 22 Nov 2026 11:00:00 GMT", 0.0),
        ("-5", None),
        ("soon", None),
        ("9" * 100, None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, NOW) == seconds


@given(st.text(max_size=80))
def test_no_retry_after_makes_reading_it_fail(value: str) -> None:
    found = retry_after_s(value, NOW)
    assert found is None or found >= 0


@given(st.floats(0.1, 900), chances)
def test_the_last_attempt_of_an_outage_is_at_the_end_of_the_patience(patience_s: float, chance: float) -> None:
    retries = Retries(Backoff(), limit_s=30, patience_s=patience_s)
    elapsed_s, tried_s = 0.0, 0.0
    while True:
        pause_s = retries.pause_s(Retryable("down", is_outage=True), elapsed_s, chance)
        if pause_s is None:
            break
        elapsed_s = tried_s = elapsed_s + pause_s
    assert tried_s == pytest.approx(patience_s)


def test_a_server_that_asks_for_more_than_the_remaining_time_is_not_asked_again() -> None:
    retries = Retries(Backoff(), limit_s=30, patience_s=60)
    assert retries.pause_s(Retryable("busy", is_outage=True, retry_after_s=40), 10, 0.5) == 40
    assert retries.pause_s(Retryable("busy", is_outage=True, retry_after_s=40), 50, 0.5) is None


def test_what_the_server_means_is_not_tried_again() -> None:
    assert [status for status in (400, 401, 403, 404, 410, 416, 451, 501) if is_retryable(status)] == []
    assert all(is_retryable(status) for status in (408, 429, 500, 502, 503, 504))


@given(st.lists(st.integers(1, 10_000_000), min_size=1, max_size=50))
def test_the_bandwidth_limit_holds_whatever_is_taken_at_once(taken: list[int]) -> None:
    now = 100.0
    bucket = TokenBucket(1_000_000, lambda: now)
    for size in taken:
        now += bucket.take(size)
    assert now - 100.0 == pytest.approx(sum(taken) / 1_000_000, rel=1e-6)


def test_unused_bandwidth_is_not_saved_up() -> None:
    now = 0.0
    bucket = TokenBucket(1_000_000, lambda: now)
    now = 3600.0
    assert bucket.take(10_000_000) == pytest.approx(9.75)
