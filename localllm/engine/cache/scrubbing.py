"""What a request that computed no numbers leaves in the KV cache is made harmless. Knows nothing of requests."""

from __future__ import annotations

from localllm.engine.cache.kvcache import KvCache
from localllm.engine.scheduling.scheduler import Scheduler
from localllm.engine.sequence import Sequence


def scrub(kv: KvCache, scheduler: Scheduler) -> list[Sequence]:
    """NaN in cells that nobody has any more would spoil other answers, since 0 times NaN is NaN.

    Only a cache without any tokens can be cleaned where it is unified: returns those that have to be computed from
    their beginning there, each alone, so that one that spoils the cache again is known.
    """
    started_over: list[Sequence] = []
    if kv.is_unified:
        started_over = scheduler.running
        for sequence in started_over:
            scheduler.forget(sequence)
        for slot in range(kv.num_slots):
            kv.cut(slot, 0)
    kv.scrub()
    return started_over
