"""How a waiting sequence gets into a slot: where its prompt is cached, what is saved first, which sequence waits.

A burst of prompts with a common prefix computes it once: a sequence waits while a running one computes its prefix. Pure
policy: the result is a list of operations for `KvCache.apply`.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Many
from typing import NamedTuple

from localllm.engine.cache.hostcache import HostEntry
from localllm.engine.cache.kvcache import KvCache
from localllm.engine.cache.operations import Assign, Operation, Restore, Save, Truncate
from localllm.engine.cache.residency import CachedPrefixes
from localllm.engine.cache.tiers import MIN_READ_TOKENS, MIN_SAVED_TOKENS
from localllm.engine.requests.sequence import Sequence
from localllm.engine.scheduling.adapter_turns import apart_from_others
from localllm.engine.scheduling.waits import MAX_READING_S, Leader, WaitMemory, Waits
from localllm.engine.scheduling.ways import Way, cheapest, steps
from localllm.kvdisk.entry import DiskEntry
from localllm.kvdisk.prefix import common_prefix

MIN_AWAITED_TOKENS = 32
"""Minimum number of shared tokens that a running sequence must be about to compute for another to wait for them."""

WAITING_SLACK = 1
"""Shared tokens that a sequence computes itself rather than wait for another step: eight that compute one more each
take about as long as a pass for one."""
MAX_LEADERS = 8
"""Maximum number of prefixes that a sequence waits for, one after the other: each leader may be cancelled."""
IDLE_CELLS = 256
"""Cells of a unified cache above which an idle slot is emptied when a sequence enters: every step reads all cells."""


class Entering(NamedTuple):
    """A sequence may enter a slot, which holds this much of its prompt once the operations are carried out."""

    slot: int
    num_cached: int
    operations: list[Operation]


class NeededCells(NamedTuple):
    """Cells that a unified cache must provide."""

    stays: dict[int, int]
    """Slot -> tokens that must stay there."""
    num_more: int
    """Number of further cells needed."""


class Admitter:
    """Finds the slot where most of a sequence's prompt is already in the KV cache."""

    def __init__(self, kv: KvCache) -> None:
        self._kv = kv
        self.memory = WaitMemory(kv)

    def admit(self, sequence: Sequence, free: Many[int], running: Many[Sequence], now_s: float) -> Entering | Waits:
        """How the sequence enters one of the free slots (the wanted one, if it is free), or why it waits, which is
        remembered."""
        if sequence.progress.state is not None:
            return self._resuming(sequence, sequence.progress.state, free, running)
        found = self._found(sequence)
        seen = self.memory.seen(sequence, found, running)
        leader = self._leader(sequence, found, running)
        if leader is not None:
            return self.memory.waits_for_prefix(sequence, leader, seen)
        apart = apart_from_others(sequence, free, running)
        num_cached = self._way(sequence, found, None, free, apart).num_cached
        on_disk, is_reading = self._on_disk(sequence, num_cached, now_s)
        way = self._way(sequence, found, on_disk, free, apart)
        if not self._has_room(sequence, way, running):
            return self.memory.waits_for_room(sequence, seen)
        if isinstance(way.entry, DiskEntry):
            assert self._kv.disk is not None
            if is_reading:
                sequence.progress.waiting.read(way.entry, now_s)
                return self.memory.waits_for_disk(sequence, way.entry, seen)
            entry = self._kv.disk.load(way.entry)
            way = self._way(sequence, found, None, free, apart) if entry is None else way._replace(entry=entry)
            if entry is None and not self._has_room(sequence, way, running):  # the disk entry is gone for good
                return self.memory.waits_for_room(sequence, seen)
        return Entering(way.slot, way.num_cached, self._operations(sequence, way, free, running))

    def _resuming(
        self, sequence: Sequence, state: HostEntry, free: Many[int], running: Many[Sequence]
    ) -> Entering | Waits:
        """How a parked sequence enters again: from its own state only, so that it goes on exactly as it stopped."""
        slots = [slot for slot in free if self._kv.pending.can_write(slot)]
        if not slots:
            return "for a copy"
        held = self._kv.residency.held
        slot = min(slots, key=lambda slot: (held[slot].length, held[slot].used_at, slot))
        way = Way(slot, len(state.tokens), entry=state)
        if not self._has_room(sequence, way, running):
            return self.memory.waits_for_room(sequence, self.memory.seen(sequence, self._found(sequence), running))
        return Entering(slot, way.num_cached, self._operations(sequence, way, free, running))

    def to_restore(
        self, slot: int, entry: HostEntry, free: Many[int], running: Many[Sequence]
    ) -> list[Operation] | None:
        """Operations that replace an idle slot's content by an entry; None: running sequences need the room."""
        stays = {other.slot: other.progress.num_computed for other in running if other.slot is not None}
        needed = NeededCells(stays, len(entry.tokens) + self._promised(running))
        if not self._fits(needed):
            return None
        operations = self._empty(self._in_the_way(slot, needed.num_more, free))
        if self.is_worth_saving(slot, after=operations):
            operations.append(Save(slot))
        return [*operations, Restore(slot, entry, entry.domain)]

    def _in_the_way(self, slot: int, num_needed: int, free: Many[int]) -> list[int]:
        """In a unified cache: idle slots to empty so that `num_needed` tokens fit, other than that slot."""
        pool = self._kv.residency.pool
        if pool is None:
            return []
        cuts = {slot: 0}
        for idle in self._kv.residency.idle_first(other for other in free if other != slot):
            if pool.num_with(cuts) + num_needed <= pool.num_cells:
                break
            cuts[idle] = 0
        return list(cuts)[1:]

    def is_worth_saving(self, slot: int, kept: int = 0, after: Many[Operation] = ()) -> bool:
        """Whether the slot is about to lose much that exists nowhere else, once `after` is carried out."""
        residency, host, held = self._kv.residency, self._kv.host, self._kv.residency.held[slot]
        if host.max_bytes == 0 or held.length - kept < MIN_SAVED_TOKENS or host.holds(held.tokens, held.domain):
            return False
        saved = {operation.slot for operation in after if isinstance(operation, Save)}
        lost = {operation.slot for operation in after if isinstance(operation, Truncate)} - saved
        others = (other for other in range(residency.num_slots) if other != slot and other not in lost)
        return not any(residency.serves(other, held.tokens, held.domain) for other in others)

    def _operations(self, sequence: Sequence, way: Way, free: Many[int], running: Many[Sequence]) -> list[Operation]:
        """In a unified cache idle slots make room first, except that a copy's source is emptied after the copy."""
        emptied = self._emptied(way, self._needed(sequence, way, running), free)
        operations = self._empty([slot for slot in emptied if slot != way.source])
        if way.source in emptied and self.is_worth_saving(way.source, after=operations):
            operations.append(Save(way.source))
        if self.is_worth_saving(way.slot, way.num_cached if way.is_held else 0, operations):
            operations.append(Save(way.slot))
        operations += steps(way, sequence, self._kv.residency, can_rewind=self._kv.can_rewind)
        if way.source in emptied:
            operations.append(Truncate(way.source, 0))
        return [*operations, Assign(way.slot, sequence.request.domain)]

    def _empty(self, slots: Many[int]) -> list[Operation]:
        """Save what is worth it, one slot after the other, so that of two with the same content one is saved."""
        operations: list[Operation] = []
        for slot in slots:
            if self.is_worth_saving(slot, after=operations):
                operations.append(Save(slot))
            operations.append(Truncate(slot, 0))
        return operations

    def _way(
        self,
        sequence: Sequence,
        found: CachedPrefixes,
        on_disk: DiskEntry | None,
        free: Many[int],
        apart: Mapping[int, int],
    ) -> Way:
        """The cheapest way in, including an entry on disk."""
        entries: list[HostEntry | DiskEntry] = list(self._kv.host.entries)
        wanted_slot, num_prompt = sequence.request.reuse.wanted_slot, sequence.progress.num_prompt
        free = free if wanted_slot is None else [wanted_slot]
        if on_disk is not None and self._kv.disk is not None:
            usable = self._kv.disk.usable(on_disk, sequence.progress.prompt[:-1], sequence.request.domain)
            found = found._replace(saved=[*found.saved, usable])
            entries.append(on_disk)
        way = cheapest(self._kv.residency, found, entries, num_prompt, free, apart)
        if way.entry is not None and not self._kv.pending.can_write(way.slot):
            return cheapest(self._kv.residency, found._replace(saved=()), (), num_prompt, free, apart)
        return way

    def _on_disk(self, sequence: Sequence, num_cached: int, now_s: float) -> tuple[DiskEntry | None, bool]:
        """What the disk has of its prompt, if that is much more than memory has, and whether it is still being read.

        After too long a wait it is used only if it has been read by now.
        """
        disk = self._kv.disk
        if disk is None or not sequence.request.reuse.cache_prompt:
            return None, False
        entry, usable = disk.best(sequence.progress.prompt, sequence.request.domain, sequence=sequence)
        if entry is None or usable - num_cached < MIN_READ_TOKENS:
            return None, False
        status = disk.status(entry)
        since_s = sequence.progress.waiting.reading_since_s
        is_too_late = status == "reading" and since_s is not None and now_s - since_s >= MAX_READING_S
        return None if status == "gone" or is_too_late else entry, status == "reading"

    def _needed(self, sequence: Sequence, way: Way, running: Many[Sequence]) -> NeededCells:
        """What a request may still need is reserved when it enters.

        So a full cache makes others wait, and no running sequence ever finds it full.
        """
        cuts = {other.slot: other.progress.num_computed for other in running if other.slot is not None}
        count = self._limit(sequence)
        if way.restored_tokens:  # all of it exists for a moment
            count = max(count, way.restored_tokens)
        else:
            giver = way.slot if way.source is None else way.source
            cuts[giver] = max(cuts.get(giver, 0), way.num_cached)
            count -= way.num_cached
        return NeededCells(cuts, count + self._promised(running))

    def _has_room(self, sequence: Sequence, way: Way, running: Many[Sequence]) -> bool:
        """Whether all running sequences can finish beside it, once idle slots are emptied; if not, it waits."""
        return self._fits(self._needed(sequence, way, running))

    def _fits(self, needed: NeededCells) -> bool:
        """Whether the needed cells exist once all idle slots are emptied."""
        pool = self._kv.residency.pool
        return pool is None or pool.num_of(needed.stays.items()) + needed.num_more <= pool.num_cells

    def _emptied(self, way: Way, needed: NeededCells, free: Many[int]) -> list[int]:
        """In a unified cache that has room: the idle slots to empty so that all running sequences can finish.

        A copy's source comes last.
        """
        pool = self._kv.residency.pool
        if pool is None:
            return []
        cuts = {way.slot: needed.stays.get(way.slot, 0)}
        used = pool.num_with(cuts)
        emptied = []
        idle_slots = self._kv.residency.idle_first(slot for slot in free if slot != way.slot)
        for idle in sorted(idle_slots, key=lambda idle: idle == way.source):
            then = pool.num_with({**cuts, idle: way.num_cached if idle == way.source else 0})
            is_full = used + needed.num_more > pool.num_cells
            if is_full or (used - then > IDLE_CELLS and self._kv.host.max_bytes):
                cuts[idle] = way.num_cached if idle == way.source else 0
                used = then
                emptied.append(idle)
        return emptied

    def _promised(self, running: Many[Sequence]) -> int:
        """Cells of a unified cache that running sequences may still need."""
        return sum(self._limit(other) - other.progress.num_computed for other in running)

    def _limit(self, sequence: Sequence) -> int:
        """Maximum number of tokens that the sequence may hold."""
        capacity = self._kv.slot_capacity
        most = sequence.request.max_tokens
        return capacity if most is None else min(sequence.progress.num_prompt + most, capacity)

    def _found(self, sequence: Sequence) -> CachedPrefixes:
        """Number of tokens of the prompt that each slot and each saved state holds."""
        if not sequence.request.reuse.cache_prompt:
            nothing = [0] * self._kv.num_slots
            return CachedPrefixes(nothing, nothing, [0] * len(self._kv.host.entries))
        prompt, domain, host = sequence.progress.prompt, sequence.request.domain, self._kv.host
        saved = [host.usable(entry, prompt[:-1], domain) for entry in host.entries]
        return self._kv.residency.found(prompt, domain)._replace(saved=saved)

    def _leader(self, sequence: Sequence, found: CachedPrefixes, running: Many[Sequence]) -> Leader | None:
        """A running sequence about to compute so much more of this prompt that waiting for a copy pays.

        Where that needs a checkpoint, it is asked to make one where the two diverge. A leader that the sequence has
        already waited for comes first.
        """
        can_rewind = self._kv.can_rewind
        if not sequence.request.reuse.cache_prompt or not (can_rewind or self._kv.most_checkpoints):
            return None
        progress, waiting = sequence.progress, sequence.progress.waiting
        has_patience = len(waiting.leaders) < MAX_LEADERS
        slack = WAITING_SLACK if can_rewind else 0  # elsewhere only the checkpoint made there helps
        most = min(progress.num_prompt, len(progress.prompt)) - 1
        before = None if waiting.wait is None or waiting.wait.leader is None else waiting.wait.leader.sequence
        for leader in sorted(running, key=lambda other: other is not before):
            of = leader.progress
            if leader.request.domain == sequence.request.domain and of.num_computed < min(of.num_prompt, most):
                common = common_prefix(progress.prompt[:most], of.prompt)
                common = of.spans.outside(common) if of.spans else common
                if not can_rewind:
                    common = min(common, of.num_prompt - 1)
                lent = (tokens for slot, tokens in enumerate(found.lent) if slot != leader.slot)
                elsewhere = max((*found.saved, *lent), default=0)
                worth = max(MIN_AWAITED_TOKENS, self._kv.residency.copy_cost(of.num_prompt) if can_rewind else 0)
                is_known = has_patience or leader.id in waiting.leaders
                if is_known and of.num_computed < common - slack and common - elsewhere > worth:
                    waiting.leaders.add(leader.id)
                    if not can_rewind:
                        of.pause_at(common)
                    return Leader(leader, common, worth, slack)
        return None
