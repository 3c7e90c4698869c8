"""The number of threads: soon as good as the best constant one, whatever else runs; cheaply and with few changes."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from localllm.engine.threads.governor import LOGITS_A_THREAD, Governor, sampler_threads
from localllm.engine.threads.spare_cores import CoreUsage, SpareCores
from localllm.engine.threads.team import Clocks, Team
from localllm.engine.threads.trials import Trials

LOOK_S = 0.1


class Machine(NamedTuple):
    """What a step takes: `parallel` of its work is divided among the threads, each of which adds `overhead`."""

    num_cpus: int
    step_s: float
    parallel: float
    overhead: float = 0.0
    lost: float = 2.5
    """A thread without a core of its own makes the step so many times longer."""

    def seconds(self, threads: int, load: float) -> float:
        without = max(0.0, threads - max(0.0, self.num_cpus - load))
        quiet_s = self.step_s * (1 - self.parallel + self.parallel / threads + self.overhead * (threads - 1))
        return quiet_s * (1 + self.lost * without)

    def best_s(self, load: float) -> float:
        return min(self.seconds(threads, load) for threads in range(1, self.num_cpus + 1))


class Run:
    """Steps of one kind, on a machine, for as long as there is the same other work."""

    def __init__(self, machine: Machine, *, knows: bool = True, noise: float = 0.03, seed: int = 0) -> None:
        self.governor = Governor(machine.num_cpus)
        self.now_s = 0.0
        self.threads: list[int] = []
        self._machine, self._knows, self._noise = machine, knows, noise
        self._random = random.Random(seed)
        self._looked_s = self._others_s = self._wanted_s = self._had_s = 0.0

    def go(self, load: float, num_steps: int) -> float:
        """How many times as long these steps took as with the best constant number of threads."""
        best_s = taken_s = 0.0
        best_step_s = self._machine.best_s(load)
        self.threads = []
        for _ in range(num_steps):
            threads = self.governor.threads(1)
            noise = 1 + abs(self._random.gauss(0, self._noise))
            seconds = self._machine.seconds(threads, load) * noise
            best_s += best_step_s * noise
            taken_s += seconds
            self.threads.append(threads)
            self._spend(threads, load, seconds)
            self.governor.observe(1, threads, seconds)
        return taken_s / best_s

    def settle(self, load: float) -> None:
        """1,000 steps, and 6 s: cores that come free are not taken at once."""
        until_s = self.now_s + 6
        self.go(load, 1000)
        while self.now_s < until_s:
            self.go(load, 100)

    def _spend(self, threads: int, load: float, seconds: float) -> None:
        shared = max(0.0, min(threads + load - self._machine.num_cpus, load))
        self.now_s += seconds
        self._wanted_s += threads * seconds
        self._had_s += (threads - shared / 2) * seconds
        self._others_s += (load - shared / 2) * seconds
        if self.now_s - self._looked_s >= LOOK_S:
            others_s = max(0.0, self._others_s + self._random.gauss(0, 0.005)) if self._knows else None
            self.governor.used(
                CoreUsage(self.now_s - self._looked_s, others_s, self._wanted_s, self._had_s), self.now_s
            )
            self._looked_s, self._others_s, self._wanted_s, self._had_s = self.now_s, 0.0, 0.0, 0.0


def changes(threads: Sequence[int]) -> int:
    return sum(one != other for one, other in itertools.pairwise(threads))


machines = st.builds(
    Machine,
    num_cpus=st.sampled_from([1, 2, 4, 8, 16, 64]),
    step_s=st.sampled_from([0.003, 0.015, 0.2]),
    parallel=st.sampled_from([0.0, 0.3, 0.7, 0.95]),
    overhead=st.sampled_from([0.0, 0.02]),
    lost=st.sampled_from([3.0, 10.0, 80.0]),
)


@settings(max_examples=25, deadline=None)
@given(machine=machines, busy=st.lists(st.integers(0, 4), min_size=1, max_size=4), seed=st.integers(0, 99))
@example(machine=Machine(2, 0.015, 0.9, lost=80.0), busy=[0, 1, 2, 1, 0], seed=0)
@example(machine=Machine(8, 0.003, 0.95, lost=3.0), busy=[3, 0, 4, 0], seed=0)
@example(machine=Machine(64, 0.003, 0.95, lost=3.0), busy=[3], seed=1)
def test_soon_as_good_as_the_best_constant_number_and_it_stays_so(machine: Machine, busy: list[int], seed: int) -> None:
    run = Run(machine, seed=seed)
    for load in busy:
        run.settle(load)
        assert run.go(load, 1000) < 1.2, f"beside {load} busy processes"
        assert changes(run.threads) <= 2 * 10, "a trial is two changes, and each comes twice as late"


@pytest.mark.parametrize("load", [0.0, 0.2, 0.5, 0.8, 1.0, 1.5, 2.0])
def test_nothing_oscillates_in_steady_conditions(load: float) -> None:
    run = Run(Machine(2, 0.015, 0.9), noise=0.2)
    run.go(load, 1000)
    run.go(load, 4000)
    assert changes(run.threads) <= 20


def test_a_tiny_model_soon_gets_the_one_thread_that_suits_it() -> None:
    run = Run(Machine(8, 0.0005, 0.3, overhead=0.2))
    run.go(0, 150)
    run.go(0, 100)
    assert run.threads.count(1) > 80, "the rest are trials"


def test_a_core_is_given_up_within_a_tenth_of_a_second_and_taken_back_within_one() -> None:
    run = Run(Machine(2, 0.015, 0.9, lost=10.0))
    run.go(0, 300)
    assert run.threads[-1] == 2
    began_s = run.now_s
    while run.governor.threads(1) == 2:
        run.go(1, 1)
    assert run.now_s - began_s < 0.4
    run.go(1, 300)
    began_s = run.now_s
    while run.governor.threads(1) == 1:
        run.go(0, 1)
    assert run.now_s - began_s < 1


def test_one_busy_process_takes_one_core_of_many() -> None:
    room = SpareCores(16, 16)
    for look in range(20):
        taken = 0.5 if room.threads == 16 else 1.0  # it shares a core with one of ours
        wanted_s, lacked_s = room.threads * 0.1, 0.05 if room.threads == 16 else 0.0
        room.observe(CoreUsage(0.1, taken * 0.1, wanted_s, wanted_s - lacked_s), look * 0.1)
    assert room.threads == 15


def test_threads_that_wait_for_a_disk_are_not_taken_for_threads_without_a_core() -> None:
    room = SpareCores(4, 4)
    for look in range(50):
        room.observe(CoreUsage(0.1, 0.002, 0.4, 0.04), look * 0.1)
        assert room.threads == 4


def test_where_the_system_says_nothing_of_others_more_threads_are_tried_ever_more_seldom() -> None:
    run = Run(Machine(2, 0.015, 0.9, lost=3.0), knows=False)
    run.go(1, 3000)
    assert run.go(1, 4000) < 1.1
    assert changes(run.threads) <= 30
    run.go(0, 3000)
    assert run.threads[-1] == 2


def test_other_conditions_repeat_a_lost_trial_only_if_the_steps_changed_too() -> None:
    """Every client that started cost answers of 100 tokens two steps of twice the time."""
    trials = Trials()

    def num_tried(seconds: dict[int, float]) -> int:
        num = 0
        for step in range(1000):
            if step % 50 == 0:
                trials.retry()
            threads = trials.threads(2)
            trials.observe(threads, seconds[threads], 2)
            num += threads == 1
        return num

    assert num_tried({1: 0.070, 2: 0.040}) < 8, "each trial comes twice as late as the one before"
    assert num_tried({1: 0.070, 2: 0.080}) > 800


def test_one_slow_step_changes_nothing() -> None:
    governor = Governor(4)
    counts = []
    for step in range(400):
        threads = governor.threads(1)
        counts.append(threads)
        governor.observe(1, threads, (0.02 if threads == 4 else 0.03) * (50 if step % 40 == 39 else 1))
    assert counts.count(4) > 360


def test_steps_that_move_cells_too_are_not_compared() -> None:
    """Every step with fewer threads seems free; but all of them did something else as well."""
    governor = Governor(4)
    for _ in range(400):
        threads = governor.threads(1)
        governor.observe(1, threads, 0.001 if threads < 4 else 1.0, is_comparable=threads == 4)
    assert governor.threads(1) == 4


class Time:
    """Clocks that a test moves."""

    def __init__(self, machine: float | None = 0.0) -> None:
        self.now = self.process = self.helpers = self.borrowers = 0.0
        self.machine = machine
        self.runnable: int | None = None

    def clocks(self) -> Clocks:
        return Clocks(
            lambda: self.now,
            lambda: self.process,
            lambda: self.helpers,
            lambda: self.machine,
            lambda: self.runnable,
            borrowers=lambda: self.borrowers,
        )

    def step(
        self, team: Team, *, num_tokens: int = 1, others: float = 0.0, helpers: float = 0.0, borrowers: float = 0.0
    ) -> int:
        """10 ms, beside so many busy cores of other processes, of threads of this one, and of those that borrow."""
        threads = team.begin(num_tokens)
        self.now += 0.01
        self.helpers += 0.01 * helpers
        self.borrowers += 0.01 * borrowers
        self.process += 0.01 * (threads + helpers)
        if self.machine is not None:
            self.machine += 0.01 * (threads + helpers + others + borrowers)
        team.end(0.01)
        return threads


@pytest.mark.parametrize("kind", ["others", "helpers"])
def test_other_processes_count_and_so_do_this_ones_threads_that_do_not_compute(kind: str) -> None:
    time = Time()
    team = Team(Governor(4), time.clocks())
    assert [time.step(team, num_tokens=500) for _ in range(100)] == [4] * 100
    for _ in range(100):
        time.step(team, num_tokens=500, **{kind: 1.0})
    assert team.num_threads == 3


@pytest.mark.parametrize(
    ("most", "best", "is_alone", "lent", "kept"),
    [
        (1, None, False, 1, 1),
        (2, None, False, 1, 1),
        (2, None, True, 2, 1),
        (8, None, False, 4, 4),
        (8, 2, False, 6, 2),
        (8, 6, False, 4, 4),
        (8, 2, True, 8, 2),
    ],
)
def test_work_beside_streams_gets_the_cores_that_they_do_not_need_but_half_and_alone_all(
    most: int, best: int | None, is_alone: bool, lent: int, kept: int
) -> None:
    governor = Governor(most, first=best)
    before = governor.threads(1)
    assert governor.lend(is_alone=is_alone) == lent
    assert (governor.threads(1), governor.threads(500)) == (kept, kept)
    governor.take_back()
    assert (governor.threads(1), governor.threads(500)) == (before, most)


def test_what_is_lent_is_not_taken_for_other_programs_and_is_back_at_once() -> None:
    time = Time()
    team = Team(Governor(4), time.clocks())
    for _ in range(50):
        time.step(team, num_tokens=500)
    with team.lend(is_alone=False) as lent:
        assert [time.step(team, num_tokens=500, borrowers=lent) for _ in range(100)] == [2] * 100
    assert [time.step(team, num_tokens=500) for _ in range(100)] == [4] * 100


def test_what_ran_while_the_engine_was_idle_counts_before_its_first_step() -> None:
    time = Time()
    team = Team(Governor(2), time.clocks())
    time.step(team)
    time.now += 3
    time.machine = 3.0
    assert team.begin(1) == 1


def test_what_ran_while_the_engine_was_idle_and_has_ended_does_not_count() -> None:
    """Else whoever asks after a compilation gets his first tokens from one core."""
    time = Time()
    team = Team(Governor(2), time.clocks())
    time.step(team)
    time.now, time.machine, time.runnable = time.now + 3, 6.0, 1
    assert team.begin(500) == 2
    time.now, time.machine, time.runnable = time.now + 3, 12.0, 3
    assert team.begin(500) == 1, "it still runs"


def test_an_agents_tool_that_has_ended_does_not_count() -> None:
    """Tools compute for some tenths of a second between two requests, and the next one follows at once."""
    time = Time()
    team = Team(Governor(2), time.clocks())
    for _ in range(20):
        time.step(team)
    assert time.machine is not None
    time.now, time.machine, time.runnable = time.now + 0.2, time.machine + 0.25, 1
    assert team.begin(500) == 2


def test_cores_that_were_given_up_a_moment_ago_may_soon_be_free_again_and_later_they_are_not_hoped_for() -> None:
    time = Time()
    team = Team(Governor(2), time.clocks())
    time.step(team)
    assert not team.may_soon_grow()
    time.now, time.machine = time.now + 3, 3.0
    assert team.may_soon_grow(), "looked at before the step is planned, not only when it begins"
    assert time.step(team, num_tokens=500, others=1.0) == 1
    for _ in range(150):
        time.step(team, num_tokens=500, others=1.0)
    assert team.num_threads == 1
    assert not team.may_soon_grow()


def test_who_hands_a_request_over_is_not_taken_for_other_work() -> None:
    time, waited = Time(), 0.0

    def wait(seconds: float) -> None:
        nonlocal waited
        waited += seconds
        time.runnable = 2 if waited < 0.001 else 1

    team = Team(Governor(2), dataclasses.replace(time.clocks(), wait=wait))
    time.step(team)
    time.now, time.machine, time.runnable = time.now + 3, 3.0, 3
    assert team.begin(500) == 2
    assert 0 < waited < 0.005


def test_a_long_step_is_no_idle_time() -> None:
    time = Time()
    team = Team(Governor(2), time.clocks())
    time.step(team)
    time.runnable = 1
    team.begin(500)
    time.now, time.process, time.machine = time.now + 3, time.process + 3, 6.0
    team.end(3)
    time.now += 0.2
    assert team.begin(500) == 1, "another process took half of it"


def test_reading_what_others_use_takes_a_bounded_share_of_the_time() -> None:
    time, readings = Time(), 0

    def slow() -> float:
        nonlocal readings
        readings += 1
        time.now += 0.005
        return 0.0

    team = Team(Governor(2), Clocks(lambda: time.now, lambda: 0.0, lambda: 0.0, slow))
    for _ in range(1000):
        time.step(team)
    assert readings * 0.005 < 0.01 * time.now


def test_where_a_gpu_computes_no_team_of_all_cores_is_woken_to_draw_a_few_tokens() -> None:
    time = Time()
    offloaded = Team(Governor(16), time.clocks(), is_offloaded=True)
    assert offloaded.sampler_threads(1, 152_000) == 1
    assert offloaded.sampler_threads(8, 32_000) == 1
    assert offloaded.sampler_threads(8, 152_000) == 8 * 152_000 // LOGITS_A_THREAD == 3
    on_cpu = Team(Governor(16), time.clocks())
    threads = on_cpu.begin(1)
    assert on_cpu.sampler_threads(1, 152_000) == threads, "another number would end threads that the next step needs"


@given(st.integers(1, 256), st.integers(1, 300_000), st.integers(1, 64))
def test_no_more_threads_draw_than_there_are_rows(num_rows: int, vocabulary: int, most: int) -> None:
    assert 1 <= sampler_threads(num_rows, vocabulary, most) <= min(num_rows, most)


def test_prompts_may_have_more_threads_than_answers_or_fewer() -> None:
    for small, batch in ((2, 4), (4, 2)):
        governor = Governor(small, most_batch=batch, num_cpus=4)
        assert (governor.threads(1), governor.threads(512)) == (small, batch)
        assert governor.most == 4
        for _ in range(500):
            threads = governor.threads(1)
            assert threads <= small
            governor.observe(1, threads, 1 / threads)
        assert governor.threads(1) == small
        assert governor.threads(33) == batch
