"""The KV cache of all slots, and the main memory and disk behind it: one owner.

Every change to a slot is carried out on the backend and recorded here, in the same place; the rule for pending
copies is also checked here. Decides nothing: what to do arrives as a list of operations or as one of the methods below.
Knows nothing of sequences.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from typing import NamedTuple

from localllm.engine.backend import KvCells, Segment
from localllm.engine.cache.checkpoints import Checkpoint
from localllm.engine.cache.domain import Domain
from localllm.engine.cache.hostcache import HostCache, HostEntry
from localllm.engine.cache.operations import Assign, Compact, Copy, Operation, Restore, Rewind, Save, Truncate
from localllm.engine.cache.pending_copies import PendingCopies
from localllm.engine.cache.residency import Residency
from localllm.engine.cache.tiers import DiskTier, OpenDisk
from localllm.engine.media import Extent


class Tiers(NamedTuple):
    """What is kept of conversations beside the cells of their slots."""

    ram_bytes: int = 0
    """Main memory for conversations that lost their slots, and for checkpoints."""
    most_checkpoints: int = 8
    """Per conversation, where the memory cannot rewind without them."""
    open_disk: OpenDisk | None = None


SLOTS_ONLY = Tiers()


class KvCache:
    """Used by the engine's thread. Any thread may read `residency` and `host`; only this class changes them."""

    def __init__(self, cells: KvCells, tiers: Tiers = SLOTS_ONLY, disk: DiskTier | None = None) -> None:
        """Empties every slot."""
        num_cells, slot_capacity, can_rewind = cells.num_cells, cells.slot_capacity, cells.can_rewind
        if num_cells is not None and num_cells < slot_capacity:
            raise ValueError(f"{num_cells} cells for slots of {slot_capacity} tokens")
        self._cells = cells
        self.num_slots = cells.num_slots
        self.slot_capacity = slot_capacity
        self.can_rewind = can_rewind
        self.max_rollback = cells.max_rollback
        self.rolls_back_equals = cells.rolls_back_equals
        self.is_unified = num_cells is not None
        self.wants_dense = cells.wants_dense
        self.most_checkpoints = 0 if can_rewind or not tiers.ram_bytes else tiers.most_checkpoints
        """0: none are made."""
        self.residency = Residency(
            num_slots=cells.num_slots, slot_capacity=slot_capacity, can_rewind=can_rewind, num_cells=num_cells
        )
        self.host = HostCache(tiers.ram_bytes, can_rewind=can_rewind)
        self.disk = disk
        # In a unified cache slots share cells; a memory that needs checkpoints is copied through a saved state.
        self.pending = PendingCopies(are_deferred=can_rewind and num_cells is None)
        for slot in range(cells.num_slots):
            cells.truncate(slot, 0)

    # ---- what the scheduler decided

    def apply(self, operations: Many[Operation]) -> None:
        """Carry out operations in order and record each. Raises `AssertionError` for a forbidden one."""
        wanted = [operation.entry for operation in operations if isinstance(operation, Restore)]
        for operation in operations:
            match operation:
                case Save(slot):
                    self._save(slot, wanted)
                case Copy(source, slot, length, domain):
                    self._copy(source, slot, length, domain)
                case Restore(slot, entry, domain):
                    self._restore(slot, entry, domain)
                case Rewind(slot, checkpoint):
                    self._rewind(slot, checkpoint)
                case Truncate(slot, length):
                    self._truncate(slot, length)
                case Assign(slot, domain):
                    self.residency.given(slot, domain)
                    self.residency.changed(slot)
                case Compact(slots):
                    self._compact(slots)

    # ---- a step

    def begin_step(self) -> None:
        """A batch is about to be decoded. What counts of it is then recorded by `written`, and the rest is cut."""
        self.pending.clear()

    def computed(self, slot: int) -> int:
        """Tokens in the slot as the backend counts them: after a decode that ended early, more than is recorded."""
        return self._cells.length(slot)

    def written(self, slot: int, start: int, tokens: Many[int]) -> None:
        """Those tokens were computed at `start`, right after what the slot held."""
        self.residency.written(slot, start, tokens)

    def began(self, slot: int, start: int, extent: Extent | None) -> None:
        """What was `written` at `start` is rows of that extent; None: of one that may be cut anywhere."""
        if extent is not None and extent.start == start:
            self.residency.began(slot, extent)

    def cut(self, slot: int, length: int | None = None) -> int:
        """Roll back: the slot keeps its first `length` tokens, or as many of them as its memory can go back to.

        Returns how many. None: all that were `written`; what a decode computed after them is removed in any case. The
        content of a memory that cannot rewind is unknown after a failed decode: cut it to 0.
        """
        held = self.residency.held[slot].length
        if not self.can_rewind:
            self.residency.can_be_cut(slot, self._cells.least(slot))
        length = self.residency.nearest(slot, held if length is None else min(length, held))
        checkpoint = self.residency.way_back(slot, length)
        self.apply([Truncate(slot, length) if checkpoint is None else Rewind(slot, checkpoint)])
        return length

    def undo(self, segments: Many[Segment]) -> bool:
        """After a failed decode of these: whether their slots hold the same as before. If not, cut them to 0.

        A recurrent state is changed in place, so its content is unknown then.
        """
        return not self.wants_dense and all(self.cut(segment.slot) == segment.start for segment in segments)

    def checkpoint(self, slot: int) -> None:
        """Make a checkpoint of what the slot holds now; it is kept as long as main memory has room for it."""
        assert self.pending.can_save(slot), f"a checkpoint of slot {slot}, whose cells are yet to be copied"
        self.residency.checkpointed(slot, self._cells.checkpoint(slot), self.most_checkpoints)
        self.trim()

    def shift(self, slot: int, keep: int, drop: int) -> None:
        """Remove `drop` tokens from the slot after its first `keep`."""
        assert self.pending.can_write(slot), f"slot {slot} is shifted while a copy is pending"
        self._cells.shift(slot, keep, drop)
        self.residency.shifted(slot, keep, drop)

    def scrub(self) -> None:
        """Zero the memory after every slot's tokens, after a decode; in a unified cache only if all slots are empty."""
        self._cells.scrub()

    def learn_least(self) -> None:
        """Ask the backend how far slots can be cut: as a sliding window moves, that changes with every step."""
        if not self.can_rewind:
            for slot in range(self.num_slots):
                self.residency.can_be_cut(slot, self._cells.least(slot))

    # ---- main memory

    def save(self, slot: int) -> HostEntry:
        """All that a slot holds, including its checkpoints, as an entry; the slot keeps it."""
        assert self.pending.can_save(slot), f"slot {slot} is saved, whose cells are still to be copied"
        held = self.residency.held[slot]
        assert held.sound == held.length, f"slot {slot} is saved, which was shifted"
        return HostEntry(held.tokens.copy(), self._cells.save(slot), held.checkpoints, held.domain, held.extents)

    def can_park(self, slot: int) -> bool:
        """Whether main memory has room for all that a slot holds, beside what is pinned there."""
        return self.host.can_pin(self._cells.state_bytes(slot), self.residency.held[slot].checkpoints)

    def park(self, slot: int) -> HostEntry | None:
        """Pin all that a slot holds in main memory; None: there is no room. The slot keeps it until it is reused."""
        self.residency.changed(slot)
        if not self.can_park(slot):
            return None
        self.host.make_room(self._cells.state_bytes(slot), self.residency.states)
        entry = self.save(slot)
        self.host.pin(entry)
        self.trim()
        return entry

    def unpark(self, entry: HostEntry, *, is_restored: bool) -> None:
        """Its sequence needs it no longer. Unless a slot holds it again, others may use it from now on."""
        self.host.unpin(entry)
        if not is_restored:
            self.host.add(entry, self.residency.states)

    def trim(self) -> None:
        """Evict until entries and checkpoints fit into main memory."""
        self.host.trim(self.residency.states)
        while self.num_bytes > self.host.max_bytes and self.residency.forget_a_checkpoint():
            continue

    @property
    def num_bytes(self) -> int:
        """Main memory that entries and checkpoints occupy."""
        return self.host.bytes_with(self.residency.states)

    def check_integrity(self) -> None:
        """Every slot holds what is recorded of it. Raises `AssertionError`."""
        for slot, held in enumerate(self.residency.held):
            length = self._cells.length(slot)
            assert length == held.length, f"slot {slot} holds {length} tokens, not {held.length}"
            assert held.sound <= held.length, f"slot {slot} is sound beyond its end"
        if self.residency.pool is not None:
            self.residency.pool.check_integrity([held.length for held in self.residency.held])

    # ---- one operation each

    def _save(self, slot: int, wanted: Many[HostEntry]) -> None:
        """`wanted` entries are about to be restored: others are evicted before them."""
        for entry in wanted:
            self.host.used(entry)
        self.host.make_room(self._cells.state_bytes(slot), self.residency.states)
        entry = self.save(slot)
        self.host.add(entry, self.residency.states, wanted)
        if self.disk is not None:
            self.disk.store(entry)

    def _copy(self, source: int, slot: int, length: int, domain: Domain) -> None:
        assert self.residency.held[source].domain == domain, "a copy of another domain's prefix"
        assert length <= self.residency.held[source].length, f"slot {source} has no {length} tokens to copy"
        self._cells.copy(source, slot, length)
        self.pending.add(source, slot)
        self.residency.copied(source, slot, length)

    def _restore(self, slot: int, entry: HostEntry, domain: Domain) -> None:
        assert entry.domain == domain, "an entry of another domain"
        assert self.pending.can_write(slot), f"slot {slot} is restored while a copy is pending"
        self._cells.restore(slot, entry.state, len(entry.tokens), entry.extents)
        self.residency.restored(slot, entry.tokens, entry.checkpoints, entry.domain, entry.extents)
        self.host.used(entry)
        if entry.checkpoints:
            self.trim()

    def _rewind(self, slot: int, checkpoint: Checkpoint) -> None:
        assert self.pending.can_write(slot), f"slot {slot} goes back while a copy is pending"
        self._cells.rewind(slot, checkpoint.state, checkpoint.length)
        self.residency.truncated(slot, checkpoint.length)

    def _truncate(self, slot: int, length: int) -> None:
        self._cells.truncate(slot, length)
        self.residency.truncated(slot, length)

    def _compact(self, slots: tuple[int, ...]) -> None:
        """Each is saved and restored, and so takes the first free cells."""
        for slot in slots:
            assert self.pending.can_save(slot), f"slot {slot} is saved, whose cells are still to be copied"
            assert self.pending.can_write(slot), f"slot {slot} is restored while a copy is pending"
            held = self.residency.held[slot]
            self._cells.restore(slot, self._cells.save(slot), held.length, held.extents)
        if self.residency.pool is not None:
            self.residency.pool.compacted()
