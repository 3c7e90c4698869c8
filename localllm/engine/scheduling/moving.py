"""Whether a running sequence should move to a lower slot, and whether a unified cache should be compacted.

llama.cpp computes only adjacent slots in one pass over the weights, so idle slots between busy ones cost something in
every step. In a unified cache every step reads all cells up to the last used one. Pure: decides, moves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from itertools import pairwise

from localllm.engine.cache.kvcache import KvCache
from localllm.engine.cache.operations import Compact, Operation
from localllm.engine.requests.sequence import Sequence
from localllm.engine.scheduling.ways import LOSS

STEPS_TO_COME = 128
"""Assumed number of tokens still to come of a request without a limit of its own."""
MOVING = 0.02
"""Cost of moving a token's cells to another slot by saving and restoring, in tokens to compute
(benchmarks/log/kv.md#what-a-save-costs)."""
PASS = 4
"""Cost of one more pass over all weights, in tokens to compute."""
SPARSE_CELLS = 1024
"""A unified cache is compacted when more than half of it, and more than this many cells, lie empty before its end."""


def pays(kv: KvCache, sequence: Sequence, free: int, busy: Many[int]) -> bool:
    """Whether the sequence in the last of the `busy` slots, ascending, should move to the `free` one below it."""
    most = sequence.request.max_tokens
    to_come = STEPS_TO_COME if most is None else most - sequence.progress.num_generated
    return _cost(kv, sequence, free) < _gain_a_step(kv, free, busy) * min(to_come, STEPS_TO_COME)


def compaction(kv: KvCache) -> list[Operation]:
    """Operations that compact a unified cache with many empty cells before its last used one."""
    residency, pool = kv.residency, kv.residency.pool
    if pool is None or pool.peak <= 2 * pool.num_used + SPARSE_CELLS or pool.is_shared:
        return []
    return [Compact(tuple(slot for slot in range(residency.num_slots) if residency.held[slot].length))]


def _cost(kv: KvCache, sequence: Sequence, free: int) -> float:
    """Cost of the move, in tokens to compute."""
    if kv.wants_dense:
        return MOVING * sequence.progress.num_computed
    return kv.residency.copy_cost(sequence.progress.num_computed) + LOSS * kv.residency.held[free].length


def _gain_a_step(kv: KvCache, free: int, busy: Many[int]) -> float:
    """Gain per step after the move, in tokens to compute."""
    if kv.wants_dense:
        return PASS
    if not kv.can_rewind or kv.is_unified:  # gaps are not filled
        return 0
    return _cost_of_gaps(busy) - _cost_of_gaps(sorted([*busy[:-1], free]))


def _cost_of_gaps(busy: Many[int]) -> int:
    """Cost per step of idle slots between busy ones, in tokens to compute: one each to fill them, or one more pass."""
    return sum(min(after - before - 1, PASS) for before, after in pairwise(busy))
