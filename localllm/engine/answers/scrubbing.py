"""Cleans the KV cache after a request whose logits were not finite numbers. Knows nothing of how that was noticed."""

from __future__ import annotations

from localllm.engine.cache.kvcache import KvCache
from localllm.engine.requests.sequence import Sequence
from localllm.engine.scheduling.scheduler import Scheduler


def scrub(kv: KvCache, scheduler: Scheduler) -> list[Sequence]:
    """NaN in unused cells would spoil other answers, since 0 times NaN is NaN.

    A unified cache can only be cleaned when it holds no tokens: returns the sequences that then have to be computed
    from their beginning, each alone, so that one that spoils the cache again is identified.
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
