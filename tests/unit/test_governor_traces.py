"""The number of threads on a real machine: steps recorded there with each number, replayed as they are asked for.

`thread_traces.json` is what `benchmarks.thread_traces` wrote on two cores of a server CPU: one stream of 193 M
parameters, alone and beside processes that never rest, in sessions of their own, as they come and niced. Beside one of
them a step with two threads takes up to a hundred times as long as with one. `now and then` was to be quiet, and for a
third of a second something else ran.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localllm.engine.scheduling.governor import Governor
from localllm.engine.team import Clocks, Team

UNIT_S = 1e-4
QUIET, GUSTS = "quiet", "now and then"
TRACES: dict[str, dict[str, list[list[int]]]] = json.loads(
    Path(__file__).with_name("thread_traces.json").read_text("ascii")
)
"""Condition -> threads -> steps: the step alone, from end to end of steps, its process's CPU time, everybody's."""
BUSY = sorted(set(TRACES) - {QUIET, GUSTS})
MOST_CHANGES = 2 * 7
"""In steady conditions, for so long as here: a trial is two changes, and each comes twice as late as the one before."""


class Step:
    """One that was computed: when it ended, with how many threads, and how long it took."""

    def __init__(self, now_s: float, threads: int, seconds: float) -> None:
        self.now_s, self.threads, self.seconds = now_s, threads, seconds


class Replay:
    """The machine of the traces; its clocks go as they went while the step at hand was recorded."""

    def __init__(self) -> None:
        self._now = self._process = self._machine = 0.0
        clocks = Clocks(lambda: self._now, lambda: self._process, lambda: 0.0, lambda: self._machine)
        self._team = Team(Governor(2), clocks)

    def go(self, condition: str, seconds: float) -> list[Step]:
        """Steps for so long beside that work; recorded ones come again where there are too few."""
        recorded = {int(threads): itertools.cycle(steps) for threads, steps in TRACES[condition].items()}
        end_s, steps = self._now + seconds, list[Step]()
        while self._now < end_s:
            threads = self._team.begin(1)
            step_s, wall_s, process_s, machine_s = (UNIT_S * each for each in next(recorded[threads]))
            self._now += wall_s
            self._process += process_s
            self._machine += machine_s
            self._team.end(step_s)
            steps.append(Step(self._now, threads, step_s))
        return steps


def changes(steps: list[Step]) -> int:
    return sum(one.threads != other.threads for one, other in itertools.pairwise(steps))


def best_s(condition: str) -> float:
    """A step with the better of both numbers."""
    return min(UNIT_S * sum(step[0] for step in steps) / len(steps) for steps in TRACES[condition].values())


def slowdown(steps: list[Step], condition: str) -> float:
    """How many times as long as with the better of both numbers."""
    return sum(step.seconds for step in steps) / (best_s(condition) * len(steps))


def test_on_a_quiet_machine_all_cores_compute() -> None:
    replay = Replay()
    replay.go(QUIET, 3)
    steps = replay.go(QUIET, 20)
    assert slowdown(steps, QUIET) < 1.03
    assert changes(steps) <= MOST_CHANGES


def test_short_work_of_others_ever_again_costs_little() -> None:
    """Each time it is tried anew which number is faster: at most twice a second, 4 % of the time in all."""
    replay = Replay()
    replay.go(GUSTS, 3)
    steps = replay.go(GUSTS, 30)
    assert slowdown(steps, GUSTS) < 1.04
    assert changes(steps) <= 2 * 2 * 30


@pytest.mark.parametrize("condition", BUSY)
def test_a_core_that_others_want_is_given_up_after_a_step_or_two_and_stays_given_up(condition: str) -> None:
    replay = Replay()
    replay.go(QUIET, 5)
    steps = replay.go(condition, 20)
    first = next(place for place, step in enumerate(steps) if step.threads == 1)
    assert first <= 2 or steps[first].now_s - steps[0].now_s < 0.5
    assert {step.threads for step in steps[first:]} == {1}
    assert slowdown(steps[first:], condition) < 1.05


@pytest.mark.parametrize("condition", BUSY)
def test_cores_that_are_free_again_are_used_within_a_second(condition: str) -> None:
    replay = Replay()
    replay.go(QUIET, 5)
    replay.go(condition, 10)
    steps = replay.go(QUIET, 10)
    back = next(step.now_s for step in steps if step.threads == 2)
    assert back - steps[0].now_s < 1
    settled = [step for step in steps if step.now_s > back]
    assert slowdown(settled, QUIET) < 1.05
    assert changes(settled) <= MOST_CHANGES


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(TRACES)), st.floats(0.5, 8)), min_size=2, max_size=8))
def test_nothing_oscillates_whatever_comes_and_goes_and_little_is_lost(periods: list[tuple[str, float]]) -> None:
    replay = Replay()
    lost_s = before_s = 0.0
    for condition, seconds in periods:
        steps = replay.go(condition, seconds)
        # A trial of the condition before may end in this one, and it is got used to.
        assert changes(steps) <= 4 + MOST_CHANGES + 4 * seconds * (condition == GUSTS)
        lost_s += (slowdown(steps, condition) - 1) * len(steps) * best_s(condition)
        # Until it is seen what others do: a second at the slower of both, or a step that was begun before.
        before_s += 1 + max(UNIT_S * step[0] for step in TRACES[condition]["2"])
    assert lost_s < 0.05 * sum(seconds for _, seconds in periods) + before_s
