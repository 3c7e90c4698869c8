"""Twelve chats over eight slots on a virtual clock, beside llama-server's policy on steps of the same cost.

What is asserted are policies only: a step takes what a formula says, and nothing else takes any time.
"""

from __future__ import annotations

import statistics

import pytest

from benchmarks.virtual_chats import CPUS, Workload, ours, theirs

SEEDS = range(4)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(
    ("shortest", "longest", "least"),
    [
        (24, 24, 0.92),  # the other's answers then begin and end in step, for which its streams stop for seconds
        (12, 36, 0.99),
        (4, 80, 1.02),
    ],
)
def test_chats_are_as_fast_as_with_whole_batches_and_their_streams_flow(
    cpu: str, shortest: int, longest: int, least: float
) -> None:
    workload, cost = Workload(shortest, longest), CPUS[cpu]
    mine = [ours(cost, workload, seed) for seed in SEEDS]
    other = [theirs(cost, workload, seed) for seed in SEEDS]
    rate, other_rate = (statistics.mean(each.tokens_per_s for each in found) for found in (mine, other))
    assert rate >= least * other_rate
    gap, other_gap = (statistics.median(each.longest_gap_s for each in found) for found in (mine, other))
    assert gap <= 0.6
    assert gap <= other_gap / 4
    assert all(each.num_tokens == its.num_tokens for each, its in zip(mine, other, strict=True))


def test_what_happens_on_the_virtual_clock_repeats() -> None:
    workload, cost = Workload(4, 12, turns=2), CPUS["AVX2"]
    assert ours(cost, workload, 1) == ours(cost, workload, 1)
    assert ours(cost, workload, 1) != ours(cost, workload, 2)
