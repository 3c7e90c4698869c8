"""When a worker is given up: pure counting, no clock and no process."""

from __future__ import annotations

import pytest

from localllm.supervisor.heartbeat import BEATS, MAX_INTERVAL_S, Heartbeat
from localllm.worker.messages import Pong


def heartbeat(worker_timeout_s: float = 10.0, step_timeout_s: float = 100.0) -> Heartbeat:
    return Heartbeat(worker_timeout_s=worker_timeout_s, step_timeout_s=step_timeout_s)


def answered(heart: Heartbeat, *, is_busy: bool = False, num_advances: int = 0) -> None:
    ping = heart.next_ping()
    assert ping is not None
    heart.take(Pong(ping.number, is_busy, num_advances))


def test_a_process_that_answers_nothing_is_given_up_after_its_time_and_not_before() -> None:
    heart = heartbeat()
    assert heart.beat() is None
    assert heart.next_ping() is not None
    for _ in range(BEATS - 1):
        assert heart.beat() is None
        assert heart.next_ping() is None, "one question at a time: it does not read them"
    assert heart.beat() == "it did not answer for 10 s (worker_timeout_s)"


def test_an_answer_begins_the_time_anew() -> None:
    heart = heartbeat()
    for _ in range(50):
        for _ in range(BEATS - 1):
            assert heart.beat() is None
        if not heart.is_silent:
            answered(heart)


def test_a_machine_that_was_suspended_adds_one_beat_whatever_the_clock_says() -> None:
    heart = heartbeat(worker_timeout_s=30.0)
    heart.next_ping()
    assert heart.beat() is None, "the beat after a night of sleep is one beat"
    assert heart.is_silent


def test_an_engine_that_is_busy_has_to_get_on() -> None:
    heart = heartbeat(worker_timeout_s=10.0, step_timeout_s=20.0)
    reasons = []
    for _ in range(2 * BEATS + 1):
        answered(heart, is_busy=True, num_advances=7)
        reasons.append(heart.beat())
    assert reasons[-2] == "a step of the model did not end within 20 s (step_timeout_s)"
    assert not any(reasons[:-2])


@pytest.mark.parametrize("is_busy", [True, False])
def test_an_engine_that_gets_on_or_has_nothing_to_do_is_left_alone(is_busy: bool) -> None:
    heart = heartbeat(worker_timeout_s=10.0, step_timeout_s=5.0)
    for step in range(1000):
        answered(heart, is_busy=is_busy, num_advances=step if is_busy else 0)
        assert heart.beat() is None


def test_requests_have_to_be_taken_or_refused() -> None:
    heart = heartbeat(worker_timeout_s=10.0, step_timeout_s=20.0)
    reasons = []
    for beat in range(5 * BEATS):
        answered(heart)
        reasons.append(heart.beat(has_unprepared=True))
        if beat < 3 * BEATS:
            heart.prepared()
    assert not any(reasons[: 5 * BEATS - 1])
    assert reasons[-1] == "it neither accepted nor rejected a request for 20 s (step_timeout_s)"


@pytest.mark.parametrize("silent", [True, False])
def test_without_a_time_nothing_is_given_up(silent: bool) -> None:
    heart = heartbeat(0.0, 0.0)
    assert not heart.is_needed
    for _ in range(10_000):
        if silent:
            heart.next_ping()
        else:
            answered(heart, is_busy=True)
        assert heart.beat() is None


def test_it_is_not_asked_more_often_than_it_has_to_be() -> None:
    assert heartbeat(30.0, 600.0).interval_s == 3.0
    assert heartbeat(0.0, 600.0).interval_s == MAX_INTERVAL_S
