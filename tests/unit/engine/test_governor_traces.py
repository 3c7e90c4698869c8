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

from localllm.engine.threads.governor import Governor
from localllm.engine.threads.team import Clocks, Team

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
        self._now = self._process = self._machine = self._siblings = 0.0
        clocks = Clocks(
            lambda: self._now,
            lambda: self._process,
            lambda: 0.0,
            lambda: self._machine,
            siblings=lambda: self._siblings,
        )
        self._team = Team(Governor(2), clocks)

    def rest(self, condition: str, seconds: float, *, siblings: float) -> None:
        """No step for so long, while a process of ours computes with both threads as it does under this condition:
        `siblings` of its CPU time is known to be that.
        """
        wall, process, machine = (sum(step[place] for step in TRACES[condition]["2"]) for place in (1, 2, 3))
        self._now += seconds
        self._machine += machine / wall * seconds
        self._siblings += process / wall * seconds * siblings

    def go(self, condition: str, seconds: float, *, siblings: float = 0.0) -> list[Step]:
        """Steps for so long beside that work; recorded ones come again where there are too few. `siblings`: the part
        of others' CPU time that is known to be that of processes of ours.
        """
        recorded = {int(threads): itertools.cycle(steps) for threads, steps in TRACES[condition].items()}
        end_s, steps = self._now + seconds, list[Step]()
        while self._now < end_s:
            threads = self._team.begin(1)
            step_s, wall_s, process_s, machine_s = (UNIT_S * each for each in next(recorded[threads]))
            self._now += wall_s
            self._process += process_s
            self._machine += machine_s
            self._siblings += (machine_s - process_s) * siblings
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


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.floats(0.02, 0.4), st.floats(0.02, 0.45)), min_size=10, max_size=60))
def test_two_of_ours_by_turns_have_all_cores_each(turns: list[tuple[float, float]]) -> None:
    """Several times a second, so that neither is idle for long enough to forget what it saw of the other."""
    replay = Replay()
    replay.go(QUIET, 3)
    steps = []
    for ours_s, theirs_s in turns:
        replay.rest(QUIET, theirs_s, siblings=1.0)
        steps += replay.go(QUIET, ours_s)
    assert slowdown(steps, QUIET) < 1.05


def test_an_unknown_program_by_turns_takes_cores_away_which_is_why_ours_are_told_apart() -> None:
    replay = Replay()
    replay.go(QUIET, 3)
    steps = []
    for _ in range(60):
        replay.rest(QUIET, 0.2, siblings=0.0)
        steps += replay.go(QUIET, 0.2)
    assert slowdown(steps, QUIET) > 1.3


@pytest.mark.parametrize("condition", ["1 busy", "2 busy"])
def test_two_of_ours_at_once_share_the_cores(condition: str) -> None:
    replay = Replay()
    replay.go(QUIET, 5)
    steps = replay.go(condition, 20, siblings=1.0)
    first = next(place for place, step in enumerate(steps) if step.threads == 1)
    assert first <= 2 or steps[first].now_s - steps[0].now_s < 0.5
    assert {step.threads for step in steps[first:]} == {1}


def test_cores_that_one_of_ours_took_ever_again_are_used_soon_after_each_time() -> None:
    """Of another program it would be learned that it comes back, and cores be left to it for up to half a minute."""
    replay = Replay()
    replay.go(QUIET, 5)
    for _ in range(12):
        replay.go("1 busy", 1, siblings=1.0)
        steps = replay.go(QUIET, 2)
        back = next(step.now_s for step in steps if step.threads == 2)
        assert back - steps[0].now_s < 1
    for _ in range(12):
        replay.go("1 busy", 1)
        steps = replay.go(QUIET, 2)
    assert {step.threads for step in steps} == {1}, "another program's"


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["1 busy", "1 niced"]), st.booleans()), min_size=2, max_size=6))
def test_a_program_beside_ours_is_given_its_core_whoever_of_ours_runs(periods: list[tuple[str, bool]]) -> None:
    """Turns beside another program, which is no sibling: what is ours hides nothing of it."""
    replay = Replay()
    replay.go(QUIET, 3)
    for condition, rests in periods:
        if rests:
            replay.rest(QUIET, 0.3, siblings=1.0)
        steps = replay.go(condition, 5)
        first = next(place for place, step in enumerate(steps) if step.threads == 1)
        assert {step.threads for step in steps[first:]} == {1}
