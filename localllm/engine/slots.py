"""What clients do to a slot by its number: save what it holds, restore something into it, erase it.

Called on the engine's thread between two steps, when no copy is pending. A slot that is computing a request is left
alone. What a slot loses to a restore goes to main memory, as at an admission. Knows nothing of files.
"""

from __future__ import annotations

from localllm.engine.cache.hostcache import HostEntry
from localllm.engine.cache.kvcache import KvCache
from localllm.engine.scheduling.scheduler import Scheduler
from localllm.errors import InvalidParameter, SlotBusy, SlotNotFound


class ClientSlots:
    """The slots of one engine."""

    def __init__(self, kv: KvCache, scheduler: Scheduler) -> None:
        self._kv = kv
        self._scheduler = scheduler

    def save(self, slot: int) -> HostEntry:
        """All that an idle slot holds, including its checkpoints, as an entry; the slot keeps it.

        Raises `SlotNotFound`, `SlotBusy`, and `InvalidParameter` where it holds nothing.
        """
        self._check_idle(slot)
        if self._kv.residency.held[slot].length == 0:
            raise InvalidParameter(f"slot {slot} holds nothing yet; there is nothing to save", param="id_slot")
        return self._kv.save(slot)

    def restore(self, slot: int, entry: HostEntry) -> None:
        """Make an idle slot hold exactly this entry, in its domain. In a unified cache other idle slots make room.

        Raises `SlotNotFound`, `InvalidParameter` for too many tokens, `SlotBusy`, also where running sequences need the
        room.
        """
        self._check_idle(slot)
        num_tokens, capacity = len(entry.tokens), self._kv.slot_capacity
        if num_tokens > capacity:
            raise InvalidParameter(f"{num_tokens} tokens were saved, but a slot holds {capacity}", param="filename")
        operations = self._scheduler.to_restore(slot, entry)
        if operations is None:
            raise SlotBusy(f"no room for the {num_tokens} tokens beside the running requests; try again later")
        self._kv.apply(operations)
        self._kv.residency.used([slot])
        self._kv.trim()

    def erase(self, slot: int) -> int:
        """Empty an idle slot; returns how many tokens it held. Copies elsewhere, in memory or on disk, stay.

        Raises `SlotNotFound`, `SlotBusy`.
        """
        self._check_idle(slot)
        num_tokens = self._kv.residency.held[slot].length
        self._kv.cut(slot, 0)
        return num_tokens

    def _check_idle(self, slot: int) -> None:
        num_slots = self._kv.num_slots
        if not 0 <= slot < num_slots:
            raise SlotNotFound(f"there is no slot {slot}; the model has {num_slots}, counted from 0", param="id_slot")
        if any(sequence.slot == slot for sequence in self._scheduler.running):
            raise SlotBusy(f"slot {slot} is answering a request; try again when it has ended", param="id_slot")
