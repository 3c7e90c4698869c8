"""How long to wait for a place in a full queue: as long as answers take, over the slots that make them."""

from __future__ import annotations

import pytest

from localllm.supervisor.waiting import QueueTimes
from localllm.types import Timings


def _wait_s(times: QueueTimes, slots: int) -> object:
    return times.full(num_waiting=3, max_waiting=3, slots=slots).details.get("retry_after_s")


def test_before_any_answer_nothing_is_promised() -> None:
    error = QueueTimes().full(num_waiting=3, max_waiting=3, slots=2)
    assert error.details == {"waiting": 3, "limit": 3}
    assert error.message == "3 requests are waiting already, of 3 that may (max_waiting); try again later"


def test_a_place_is_free_when_the_next_answer_ends_whatever_those_before_had_waited() -> None:
    times = QueueTimes()
    times.observe(Timings(queue_s=100.0, prefill_s=2.0, decode_s=6.0))
    assert _wait_s(times, slots=1) == 8.0
    assert _wait_s(times, slots=4) == 2.0


def test_the_newest_answers_count_for_most() -> None:
    times = QueueTimes()
    times.observe(Timings(0.0, 0.0, 100.0))
    for _ in range(30):
        times.observe(Timings(0.0, 0.0, 1.0))
    assert _wait_s(times, slots=1) == pytest.approx(1.0, abs=0.2)
