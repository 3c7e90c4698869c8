"""How many connections a download settles on, over simulated networks: no sockets, no clock."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.registry.fetch.width import Width

TICK_S = 0.05
MB = 1e6
Rate = Callable[[int], float]
"""Number of connections -> their total bytes/s."""


class Simulation:
    """A download over a network with this rate; new connections deliver after a round trip or two."""

    def __init__(self, rate: Rate, most: int = 8, noise: float = 0.0) -> None:
        self.width = Width(most)
        self.rate = rate
        self.now = 0.0
        self.num_bytes = 0.0
        self.seen: list[int] = []
        self._noise = noise
        self._random = random.Random(1)

    def run(self, seconds: float, *, is_limited: bool = False) -> None:
        for _ in range(int(seconds / TICK_S)):
            connections = self.width.connections
            self.now += TICK_S
            self.num_bytes += self.rate(connections) * TICK_S * (1 + self._noise * self._random.uniform(-1, 1))
            self.width.observe(self.now, int(self.num_bytes), connections, is_limited=is_limited)
            self.seen.append(self.width.connections)


def limited_each(each: float, total: float = 1e12) -> Rate:
    return lambda connections: min(total, connections * each)


def test_where_one_connection_has_all_there_is_it_stays_alone_nearly_all_the_time() -> None:
    simulation = Simulation(lambda connections: 1e9 / (1 + 0.1 * (connections - 1)))
    simulation.run(60)
    assert simulation.seen.count(1) > 0.9 * len(simulation.seen)
    assert max(simulation.seen) == 2


def test_where_each_connection_is_limited_all_are_used_within_three_seconds() -> None:
    simulation = Simulation(limited_each(40 * MB))
    simulation.run(3)
    assert simulation.width.connections == 8
    simulation.run(60)
    assert simulation.seen.count(8) > 0.8 * len(simulation.seen)


def test_no_more_than_allowed_are_used() -> None:
    simulation = Simulation(limited_each(40 * MB), most=3)
    simulation.run(30)
    assert max(simulation.seen) == 3


def test_a_network_that_changes_is_noticed() -> None:
    simulation = Simulation(lambda _: 100 * MB)
    simulation.run(15)
    assert simulation.width.connections == 1
    simulation.rate = limited_each(20 * MB)
    simulation.run(60)
    assert simulation.width.connections == 8


def test_what_was_right_once_and_is_too_many_now_becomes_fewer() -> None:
    simulation = Simulation(limited_each(20 * MB))
    simulation.run(5)
    simulation.rate = lambda connections: 100 * MB / (1 + 0.2 * (connections - 1))
    simulation.run(60)
    assert simulation.width.connections == 1


@pytest.mark.parametrize("seconds", [5, 100])
def test_a_bandwidth_limit_or_a_hash_that_is_behind_asks_for_no_more(seconds: float) -> None:
    simulation = Simulation(limited_each(40 * MB))
    simulation.run(seconds, is_limited=True)
    assert simulation.width.connections == 1


@given(
    each=st.floats(1 * MB, 2000 * MB),
    total=st.floats(1 * MB, 1250 * MB),
    cost=st.floats(0, 0.3),
    noise=st.sampled_from([0.0, 0.03]),
)
def test_on_any_network_the_rate_is_nearly_the_best_one(each: float, total: float, cost: float, noise: float) -> None:
    def rate(connections: int) -> float:
        return min(total, connections * each) / (1 + cost * (connections - 1))

    simulation = Simulation(rate, noise=noise)
    simulation.run(60)
    best = max(rate(connections) for connections in (1, 2, 4, 8))
    assert simulation.num_bytes / 60 >= 0.75 * best
    assert simulation.num_bytes / 60 >= 0.9 * rate(1)
