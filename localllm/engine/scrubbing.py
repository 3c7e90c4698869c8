"""What a request that computed no numbers leaves in the KV cache is made harmless. Knows nothing of requests."""

from __future__ import annotations

from localllm.engine.backend import Backend
from localllm.engine.scheduler import Scheduler


def scrub(backend: Backend, scheduler: Scheduler) -> None:
    """NaN in cells that nobody has any more would spoil other answers, since 0 times NaN is NaN.

    In a unified cache the idle slots are emptied too: only a cache without any tokens can be cleaned there.
    """
    if backend.num_cells is not None:
        busy = {sequence.slot for sequence in scheduler.running}
        for slot in range(backend.num_slots):
            if slot not in busy:
                backend.truncate(slot, 0)
                scheduler.residency.truncated(slot, 0)
    backend.scrub()
