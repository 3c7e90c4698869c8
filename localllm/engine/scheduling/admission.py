"""How a waiting sequence gets into a slot: what of its prompt is where, what is saved first, who waits for whom.

A burst of prompts that begin alike computes their beginning once: a sequence whose prefix a running one is just
computing waits for it. Pure policy; the only writer of `Residency` at admission.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from typing import NamedTuple

from localllm.engine.cache.checkpoints import Checkpoint
from localllm.engine.cache.hostcache import Entry, HostCache
from localllm.engine.cache.residency import Found, Placement, Residency, common_prefix
from localllm.engine.cache.tiers import WORTH_READING, WORTH_SAVING, DiskTier
from localllm.engine.scheduling.waits import MAX_READING_S, Leader, WaitMemory, Waits
from localllm.engine.sequence import Sequence
from localllm.kvdisk.entry import Entry as DiskEntry

WORTH_WAITING = 32
"""Tokens that a running sequence must be about to compute, at least, for one that shares them to wait for them."""

MAX_LEADERS = 8
"""A sequence waits for the prefixes of so many others at most, one after the other: each may be cancelled."""
IDLE_CELLS = 256
"""More than so many of a unified cache an idle slot gives up when another begins: every step looks at all cells."""


class Emptying(NamedTuple):
    """An idle slot has to give its cells to others."""

    slot: int
    save: Entry | None
    """Where to save first what it holds."""


class Admission(NamedTuple):
    """A sequence that was just given a slot, and how the slot is made to hold the beginning of its prompt, in order."""

    sequence: Sequence
    slot: int
    emptied: list[Emptying]
    """Before anything else; but `source`, if it is among them, is saved then and emptied after the copy."""
    save: Entry | None
    """Where to save what the slot holds."""
    source: int | None
    """The slot to copy from, `num_copied` tokens."""
    num_copied: int
    restore: Entry | None
    """What to restore."""
    checkpoint: Checkpoint | None
    """What to go back to; None: cut to `num_cached` as it is."""
    num_cached: int
    """What to keep of it."""


class Way(NamedTuple):
    """How a sequence may begin."""

    placement: Placement
    restore: Entry | None
    """What to restore."""
    on_disk: DiskEntry | None
    """What to restore once that is read."""

    @property
    def restored_tokens(self) -> int:
        """Tokens of what is restored, more than it may start from perhaps."""
        whole = self.restore or self.on_disk
        return 0 if whole is None else len(whole.tokens)


class Admitter:
    """Puts sequences into free slots, each where most of its prompt is in the KV cache already."""

    def __init__(
        self,
        residency: Residency,
        host: HostCache,
        *,
        can_rewind: bool,
        most_checkpoints: int,
        slot_capacity: int,
        disk: DiskTier | None,
    ) -> None:
        """`most_checkpoints`: 0 if none are made."""
        self.residency = residency
        self.host = host
        self._can_rewind = can_rewind
        self._slot_capacity = slot_capacity
        self.disk = disk
        self.memory = WaitMemory(residency, host, disk)
        self._most_checkpoints = most_checkpoints

    def admit(
        self,
        sequence: Sequence,
        free: Many[int],
        running: Many[Sequence],
        admitted: Many[Admission],
        now_s: float,
    ) -> Admission | Waits:
        """Into one of the free slots, or why not, which is remembered."""
        found = self._found(sequence)
        seen = self.memory.seen(sequence, found, running)
        leader = self._leader(sequence, found, running)
        if leader is not None:
            return self.memory.waits_for_prefix(sequence, leader, seen)
        num_cached = self._place(sequence, found, free, admitted).num_cached
        on_disk, is_reading = self._on_disk(sequence, num_cached, now_s)
        way = self._way(sequence, found, on_disk, free, admitted)
        if not self._has_room(sequence, way, running):
            return self.memory.waits_for_room(sequence, seen)
        if way.on_disk is not None and self.disk is not None:
            if is_reading:
                if sequence.reading_since_s is None:
                    sequence.reading_since_s = now_s
                return self.memory.waits_for_disk(sequence, way.on_disk, seen)
            brought = self.disk.take(way.on_disk)
            if brought is None:  # gone for good
                way = self._way(sequence, found, None, free, admitted)
                if not self._has_room(sequence, way, running):
                    return self.memory.waits_for_room(sequence, seen)
            else:
                way = way._replace(restore=brought)
        return self._enter(sequence, way, self._make_room(sequence, way, free, running))

    def _way(
        self,
        sequence: Sequence,
        found: Found,
        on_disk: DiskEntry | None,
        free: Many[int],
        admitted: Many[Admission],
    ) -> Way:
        """The cheapest way in, an entry of the disk included."""
        entries: list[Entry | DiskEntry] = list(self.host.entries)
        if on_disk is not None and self.disk is not None:
            usable = self.disk.usable(on_disk, sequence.prompt[:-1], sequence.domain)
            found = found._replace(saved=[*found.saved, usable])
            entries.append(on_disk)
        placement = self._place(sequence, found, free, admitted)
        chosen = None if placement.restored is None else entries[placement.restored]
        if isinstance(chosen, DiskEntry):
            return Way(placement, None, chosen)
        return Way(placement, chosen, None)

    def _place(self, sequence: Sequence, found: Found, free: Many[int], admitted: Many[Admission]) -> Placement:
        placement = self.residency.place(found, sequence.num_prompt, free)
        if placement.restored is not None and any(placement.slot == other.source for other in admitted):
            # A copy from that slot is still to come: its cells move with the next decode.
            return self.residency.place(found._replace(saved=()), sequence.num_prompt, free)
        return placement

    def _on_disk(self, sequence: Sequence, num_cached: int, now_s: float) -> tuple[DiskEntry | None, bool]:
        """What the disk has of its prompt, if that is much more than there is in memory, and whether it is being read.

        What was waited for too long is used only if it is there by now.
        """
        if self.disk is None or not sequence.cache_prompt:
            return None, False
        entry, usable = self.disk.best(sequence)
        if entry is None or usable - num_cached < WORTH_READING:
            return None, False
        status = self.disk.status(entry)
        since_s = sequence.reading_since_s
        is_too_late = status == "reading" and since_s is not None and now_s - since_s >= MAX_READING_S
        return None if status == "gone" or is_too_late else entry, status == "reading"

    def _needed(self, sequence: Sequence, way: Way, running: Many[Sequence]) -> tuple[dict[int, int], int]:
        """Of a unified cache: slot -> tokens that have to stay there, and the cells that are needed besides.

        What a request may yet need is set aside when it enters: a cache that is full makes others wait, and nobody who
        runs ever finds it full.
        """
        slot, num_cached, source, _ = way.placement
        kept = {other.slot: other.num_computed for other in running if other.slot is not None}
        needed = self._limit(sequence)
        if way.restored_tokens:  # all of it is there for a moment
            needed = max(needed, way.restored_tokens)
        else:
            giver = slot if source is None else source
            kept[giver] = max(kept.get(giver, 0), num_cached)
            needed -= num_cached
        return kept, needed + self._promised(running)

    def _has_room(self, sequence: Sequence, way: Way, running: Many[Sequence]) -> bool:
        """Whether all that run can end beside it, once idle slots are emptied; if not, somebody has to end first."""
        pool = self.residency.pool
        if pool is None:
            return True
        kept, needed = self._needed(sequence, way, running)
        return pool.num_of(kept.items()) + needed <= pool.num_cells

    def _make_room(self, sequence: Sequence, way: Way, free: Many[int], running: Many[Sequence]) -> list[Emptying]:
        """In a unified cache that has room: the idle slots to empty, so that all that run can end."""
        pool = self.residency.pool
        if pool is None:
            return []
        slot, num_cached, source, _ = way.placement
        kept, needed = self._needed(sequence, way, running)
        used = pool.num_used - pool.num_alone(slot, kept.get(slot, 0))
        emptied = []
        idle_slots = self.residency.idle_first(other for other in free if other != slot)
        for idle in sorted(idle_slots, key=lambda idle: idle == source):  # the source last, and after the copy
            alone = pool.num_alone(idle, num_cached if idle == source else 0)
            if used + needed > pool.num_cells or (alone > IDLE_CELLS and self.host.max_bytes):
                used -= alone
                emptied.append(Emptying(idle, self.worth_saving(idle, kept=0)))
                if idle != source:
                    self.residency.truncated(idle, 0)
        return emptied

    def room_for(self, slot: int, num_tokens: int, free: Many[int], running: Many[Sequence]) -> list[int] | None:
        """As `_make_room`, for an idle slot that is given so many tokens in the place of all that it holds."""
        pool = self.residency.pool
        if pool is None:
            return []
        needed = num_tokens + self._promised(running)
        kept = ((other.slot, other.num_computed) for other in running if other.slot is not None)
        if pool.num_of(kept) + needed > pool.num_cells:
            return None
        emptied: list[int] = []
        for idle in self.residency.idle_first(other for other in free if other != slot):
            if pool.num_used_without([slot, *emptied]) + needed <= pool.num_cells:
                break
            emptied.append(idle)
        return emptied

    def _promised(self, running: Many[Sequence]) -> int:
        """Cells of a unified cache that those who run may yet need."""
        return sum(self._limit(other) - other.num_computed for other in running)

    def _limit(self, sequence: Sequence) -> int:
        """Tokens that it may hold at most."""
        if sequence.max_tokens is None:
            return self._slot_capacity
        return min(sequence.num_prompt + sequence.max_tokens, self._slot_capacity)

    def worth_saving(self, slot: int, kept: int) -> Entry | None:
        """A place in main memory for what the slot is about to lose, if that is much and nowhere else."""
        tokens, domain = self.residency.tokens(slot), self.residency.domain(slot)
        if self.host.max_bytes == 0 or len(tokens) - kept < WORTH_SAVING or self.host.holds(tokens, domain):
            return None
        if self.residency.is_elsewhere(slot):
            return None
        return self.host.reserve(tokens.copy(), self.residency.checkpoints[slot], domain)

    def _found(self, sequence: Sequence) -> Found:
        """How many tokens of its prompt each slot holds, and each saved state."""
        if not sequence.cache_prompt:
            nothing = [0] * len(self.residency.checkpoints)
            return Found(nothing, nothing, [0] * len(self.host.entries))
        saved = [self.host.usable(entry, sequence.prompt[:-1], sequence.domain) for entry in self.host.entries]
        return self.residency.found(sequence.prompt, sequence.domain)._replace(saved=saved)

    def _leader(self, sequence: Sequence, found: Found, running: Many[Sequence]) -> Leader | None:
        """A running sequence that is about to compute so much more of this prompt that a copy of it pays.

        Where that needs a checkpoint, it is asked to make one where the two part. The one that it has waited for
        already comes first.
        """
        if not sequence.cache_prompt or not (self._can_rewind or self._most_checkpoints):
            return None
        has_patience = len(sequence.leaders) < MAX_LEADERS
        most = sequence.num_prompt - 1
        before = None if sequence.wait is None or sequence.wait.leader is None else sequence.wait.leader.sequence
        for leader in sorted(running, key=lambda other: other is not before):
            if leader.domain == sequence.domain and leader.num_computed < min(leader.num_prompt, most):
                common = common_prefix(sequence.prompt[:most], leader.prompt)
                if not self._can_rewind:
                    common = min(common, leader.num_prompt - 1)
                lent = (tokens for slot, tokens in enumerate(found.lent) if slot != leader.slot)
                elsewhere = max((*found.saved, *lent), default=0)
                worth = max(WORTH_WAITING, self.residency.copy_cost(leader.num_prompt) if self._can_rewind else 0)
                is_known = has_patience or leader.id in sequence.leaders
                if is_known and leader.num_computed < common and common - elsewhere > worth:
                    sequence.leaders.add(leader.id)
                    if not self._can_rewind:
                        leader.pause_at(common)
                    return Leader(leader, common, worth)
        return None

    def _enter(self, sequence: Sequence, way: Way, emptied: list[Emptying]) -> Admission:
        residency, (slot, num_cached, source, _), restore = self.residency, way.placement, way.restore
        save = self.worth_saving(slot, kept=0 if source is not None or restore is not None else num_cached)
        num_copied = 0
        if source is not None:
            num_copied = num_cached if self._can_rewind else len(residency.tokens(source))
            residency.copied(source, slot, num_copied)
            if any(idle.slot == source for idle in emptied):
                residency.truncated(source, 0)
        elif restore is not None:
            residency.restored(slot, restore.tokens, restore.checkpoints, restore.domain)
            self.host.used(restore)
        checkpoint = residency.way_back(slot, num_cached)
        residency.truncated(slot, num_cached)
        residency.given(slot, sequence.domain)
        residency.changed(slot)
        sequence.wait = None
        sequence.slot = slot
        sequence.num_computed = sequence.num_cached = num_cached
        return Admission(sequence, slot, emptied, save, source, num_copied, restore, checkpoint, num_cached)
