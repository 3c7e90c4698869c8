"""The cost of one `plan()` while many requests wait: the scheduler alone, without backend and arithmetic.

    python -m benchmarks.plan_cost

256 requests of 8,000 tokens wait for a prefix that one of 8 slots computes, or have nothing in common; main memory has
24 conversations of that length. Prints the median and maximum milliseconds of a step.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.results import save
from benchmarks.step_overhead import NoArithmetic
from localllm.engine.cache.hostcache import HostEntry
from localllm.engine.cache.kvcache import KvCache, Tiers
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Request
from localllm.engine.scheduling.cost import ASSUMED_TOKEN_S, StepCost
from localllm.engine.scheduling.drafting import Drafter
from localllm.engine.scheduling.pace import StepBudget
from localllm.engine.scheduling.rows import assumed_cost
from localllm.engine.scheduling.scheduler import Scheduler
from localllm.types import ResolvedSampling

GREEDY = ResolvedSampling(temperature=0)
LENGTH = 8_000
NUM_WAITING = 256
NUM_SLOTS = 8
NUM_SAVED = 24
STEPS = 200


class Layout(NoArithmetic):
    """A backend that computes nothing."""

    slot_capacity = 16_384

    def __init__(self, num_cells: int | None) -> None:
        self.num_slots = NUM_SLOTS
        self.num_cells = num_cells


def scheduler(num_cells: int | None) -> Scheduler:
    """A scheduler whose main memory is full."""
    kv = KvCache(Layout(num_cells), Tiers(NUM_SAVED))
    drafter = Drafter(
        slot_capacity=Layout.slot_capacity,
        max_rows=512,
        max_rollback=0,
        layout="partitioned",
        cost=assumed_cost,
        weighs_one_row=lambda _: False,
    )
    made = Scheduler(kv, drafter, batch_capacity=512)
    for number in range(NUM_SAVED):
        tokens = np.arange(LENGTH, dtype=np.int32)
        tokens[number + 1 :] += 7
        kv.host.add(HostEntry(tokens, b"1"))
    return made


def request(id: int, tokens: list[int], max_tokens: int = 256) -> Sequence:
    return Sequence(Request(id, tokens, sampling=GREEDY, max_tokens=max_tokens))


def step(made: Scheduler, budget: int) -> float:
    """Plan a step of about `budget` tokens and mark it as computed; returns the milliseconds of planning."""
    seconds = budget * ASSUMED_TOKEN_S
    started_s = time.perf_counter()
    plan = made.next_tokens(0.0) or made.plan(StepBudget(seconds, seconds, StepCost()), now_s=0.0)
    took_s = time.perf_counter() - started_s
    for segment, sequence in zip(plan.segments, plan.sequences, strict=True):
        made.commit(segment, sequence)
        if segment.num_outputs:
            sequence.append(1)
            if sequence.progress.num_generated >= 256:
                made.remove(sequence)
    return 1000 * took_s


def one_prefix(num_streams: int, num_cells: int | None) -> Iterator[float]:
    """All requests wait for one sequence's prefix, beside some streams; other slots are free."""
    made = scheduler(num_cells)
    for id in range(num_streams):
        made.add(request(id, [id + 2] * 100))
    for _ in range(4):
        step(made, 512)
    prefix = [1] * LENGTH
    for id in range(NUM_WAITING + 1):
        made.add(request(1000 + id, [*prefix, id + 2]))
    for number in range(STEPS):
        took = step(made, 32)
        if number > 8:
            yield took


def different(num_cells: int | None) -> Iterator[float]:
    """All prompts have nothing in common."""
    made = scheduler(num_cells)
    for id in range(NUM_WAITING):
        made.add(request(id, [id + 2] * LENGTH))
    for number in range(STEPS):
        took = step(made, 512)
        if number > 8:
            yield took


def main() -> None:
    rows = {
        "one prefix, 7 slots free": one_prefix(0, None),
        "one prefix, 4 streams": one_prefix(4, None),
        "one prefix, 4 streams, unified": one_prefix(4, 65_536),
        "different prompts": different(None),
        "different prompts, unified, room for 7 of 8": different(65_536),
    }
    results = {}
    for name, took in rows.items():
        times = sorted(took)
        results[name] = {"median_ms": round(statistics.median(times), 3), "longest_ms": round(times[-1], 3)}
        print(f"{name:45} {results[name]['median_ms']:8.3f} {results[name]['longest_ms']:8.3f}")
    save("plan_cost", results)


if __name__ == "__main__":
    main()
