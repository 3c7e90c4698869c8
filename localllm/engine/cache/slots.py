"""What clients do to a slot by its number: take what it holds, give it something, empty it.

Called on the engine's thread between two steps, when no copy is pending. A slot that computes a request is left alone.
What a slot loses to a restore goes to main memory, as at an admission. Knows nothing of files.
"""

from __future__ import annotations

from collections.abc import Callable

from localllm.engine.backend import Backend
from localllm.engine.cache.hostcache import Entry
from localllm.engine.scheduling.scheduler import Scheduler
from localllm.errors import InvalidParameter, SlotBusy, SlotNotFound


class ClientSlots:
    """The slots of one engine."""

    def __init__(self, scheduler: Scheduler, backend: Backend, save: Callable[[Entry | None, int], None]) -> None:
        """`save` fills an entry of main memory with what a slot holds."""
        self._scheduler = scheduler
        self._backend = backend
        self._save = save

    def take(self, slot: int) -> Entry:
        """All that an idle slot holds, its checkpoints included; it keeps it.

        Raises `SlotNotFound`, `SlotBusy`, and `InvalidParameter` where it holds nothing.
        """
        self._check_idle(slot)
        residency = self._scheduler.residency
        tokens = residency.tokens(slot)
        if len(tokens) == 0:
            raise InvalidParameter(f"slot {slot} holds nothing yet; there is nothing to save", param="id_slot")
        assert residency.sound(slot) == len(tokens), "an idle slot holds nothing that was shifted"
        entry = Entry(tokens.copy(), residency.checkpoints[slot], residency.domain(slot))
        entry.state = self._backend.save(slot)
        return entry

    def put(self, slot: int, entry: Entry) -> None:
        """Make an idle slot hold exactly this, in its domain. In a unified cache others that are idle make room.

        Raises `SlotNotFound`, `InvalidParameter` for too many tokens, `SlotBusy`, also where those that run need the
        room.
        """
        self._check_idle(slot)
        scheduler, residency, num_tokens = self._scheduler, self._scheduler.residency, len(entry.tokens)
        if num_tokens > scheduler.slot_capacity:
            raise InvalidParameter(
                f"{num_tokens} tokens were saved and a slot holds {scheduler.slot_capacity}", param="filename"
            )
        emptied = scheduler.make_room(slot, num_tokens)
        if emptied is None:
            raise SlotBusy(f"the {num_tokens} tokens fit beside what runs only when some of that has ended; try again")
        for idle in emptied:
            self._empty(idle)
        self._save(scheduler.worth_saving(slot), slot)
        self._backend.restore(slot, entry.state, num_tokens)
        residency.restored(slot, entry.tokens, entry.checkpoints, entry.domain)
        residency.used([slot])
        scheduler.trim()

    def erase(self, slot: int) -> int:
        """Empty an idle slot; how many tokens it held. Copies elsewhere, in memory or on the disk, stay.

        Raises `SlotNotFound`, `SlotBusy`.
        """
        self._check_idle(slot)
        num_tokens = len(self._scheduler.residency.tokens(slot))
        self._backend.truncate(slot, 0)
        self._scheduler.residency.truncated(slot, 0)
        return num_tokens

    def _empty(self, slot: int) -> None:
        self._save(self._scheduler.worth_saving(slot), slot)
        self._backend.truncate(slot, 0)
        self._scheduler.residency.truncated(slot, 0)

    def _check_idle(self, slot: int) -> None:
        num_slots = self._backend.num_slots
        if not 0 <= slot < num_slots:
            raise SlotNotFound(f"there is no slot {slot}; the model has {num_slots}, from 0 on", param="id_slot")
        if any(sequence.slot == slot for sequence in self._scheduler.running):
            raise SlotBusy(f"slot {slot} is answering a request; try again when that has ended", param="id_slot")
