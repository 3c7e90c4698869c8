"""The number of threads: soon as good as the best constant one, whatever else runs; cheaply and with few changes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from localllm.engine.scheduling.governor import Governor
from localllm.engine.scheduling.room import Usage

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
        self.threads = []
        for _ in range(num_steps):
            threads = self.governor.threads(1)
            noise = 1 + abs(self._random.gauss(0, self._noise))
            seconds = self._machine.seconds(threads, load) * noise
            best_s += self._machine.best_s(load) * noise
            taken_s += seconds
            self.threads.append(threads)
            self._spend(threads, load, seconds)
            self.governor.observe(1, threads, seconds)
        return taken_s / best_s

    def _spend(self, threads: int, load: float, seconds: float) -> None:
        shared = max(0.0, min(threads + load - self._machine.num_cpus, load))
        self.now_s += seconds
        self._wanted_s += threads * seconds
        self._had_s += (threads - shared / 2) * seconds
        self._others_s += (load - shared / 2) * seconds
        if self.now_s - self._looked_s >= LOOK_S:
            others_s = max(0.0, self._others_s + self._random.gauss(0, 0.005)) if self._knows else None
            self.governor.used(Usage(self.now_s - self._looked_s, others_s, self._wanted_s, self._had_s), self.now_s)
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
def test_soon_as_good_as_the_best_constant_number_and_it_stays_so(machine: Machine, busy: list[int], seed: int) -> None:
    run = Run(machine, seed=seed)
    for load in busy:
        settling = max(1000, int(6 / machine.step_s))
        run.go(load, settling)
        assert run.go(load, 1000) < 1.2, f"beside {load} busy processes"
        assert changes(run.threads) <= 2 * 8, "a trial is two changes, and each comes twice as late"


@pytest.mark.parametrize("load", [0.0, 0.2, 0.5, 0.8, 1.0, 1.5, 2.0])
def test_nothing_oscillates_in_steady_conditions(load: float) -> None:
    run = Run(Machine(2, 0.015, 0.9), noise=0.2)
    run.go(load, 1000)
    run.go(load, 4000)
    assert changes(run.threads) <= 20
