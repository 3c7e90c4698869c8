"""What a request that computed no numbers leaves in the KV cache is made harmless. Knows nothing of requests."""

from __future__ import annotations

from localllm.engine.backend import Backend
from localllm.engine.scheduling.scheduler import Scheduler
from localllm.engine.sequence import Sequence


def scrub(backend: Backend, scheduler: Scheduler) -> list[Sequence]:
    """NaN in cells that nobody has any more would spoil other answers, since 0 times NaN is NaN.

    Only a cache without any tokens can be cleaned where it is unified: returns those that have to be computed from
    their beginning there, each alone, so that one that spoils the cache again is known.
    """
    started_over: list[Sequence] = []
    if backend.num_cells is not None:
        started_over = scheduler.running
        busy = {scheduler.forget(sequence) for sequence in started_over}
        for slot in range(backend.num_slots):
            backend.truncate(slot, 0)
            if slot not in busy:
                scheduler.residency.truncated(slot, 0)
    backend.scrub()
    return started_over
