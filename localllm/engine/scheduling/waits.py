"""What a waiting sequence waits for, and whether that may have changed since it was determined.

Examining one means comparing its prompt with everything cached, in each step, for every waiting sequence. So a result
is kept until something happens that may change it: a slot begins or ends to run, or holds something other than a
continuation; main memory or the disk has something new; the leader has come far enough. Decides nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from typing import Literal, NamedTuple

from localllm.engine.cache.kvcache import KvCache
from localllm.engine.cache.residency import CachedPrefixes
from localllm.engine.requests.sequence import Sequence
from localllm.kvdisk.entry import DiskEntry
from localllm.kvdisk.prefix import common_prefix

MAX_READING_S = 10.0
"""The total time that a sequence waits for the disk before it computes what it could still load."""

Waits = Literal["for a prefix", "for room", "for the disk", "for a copy"]
"""What a sequence that does not enter waits for: a prefix that a running one is computing, cells of a unified cache,
something that is being read, or the next step, which completes copies between slots."""


class Leader(NamedTuple):
    """The running sequence that computes the prefix of a waiting one."""

    sequence: Sequence
    until: int
    """Length of the common prefix, in tokens."""
    worth: int
    """The sequence enters at once if fewer tokens of the prefix than this are missing elsewhere."""
    slack: int = 0
    """Number of the prefix's last tokens not waited for: computing so few costs less than another step."""

    @property
    def is_at_work(self) -> bool:
        return self.sequence.slot is not None and self.sequence.progress.num_computed < self.until - self.slack

    def serves(self, other: Sequence) -> bool:
        """Whether another sequence has the awaited prefix in common with it, too, so that it would wait as well."""
        if not other.request.reuse.cache_prompt or other.request.domain != self.sequence.request.domain:
            return False
        return common_prefix(other.progress.prompt[:-1], self.sequence.progress.prompt) >= self.until

    @property
    def elsewhere(self) -> int:
        """Number of tokens of the prefix in another place that suffices to enter at once."""
        return self.until - self.worth


def leaders_of(waiting: Many[Sequence]) -> list[Leader]:
    """The leaders of those that wait for prefixes."""
    waits = (one.progress.waiting.wait for one in waiting)
    return [wait.leader for wait in waits if wait is not None and wait.leader is not None]


class ExaminedState(NamedTuple):
    """State of the cache when a sequence was examined."""

    residency_changes: int
    host_changes: int
    disk_entries: tuple[DiskEntry, ...]
    growing: tuple[int, ...]
    """Slots that hold only a prefix of its prompt, and may come to hold more of it."""


class Wait(NamedTuple):
    """Result of examining a waiting sequence, and the state it is based on."""

    reason: Waits
    seen: ExaminedState
    leader: Leader | None = None
    on_disk: DiskEntry | None = None
    """The entry being read from the disk for the sequence."""


class WaitMemory:
    """Stores the result with each waiting sequence and decides whether it still holds."""

    def __init__(self, kv: KvCache) -> None:
        self._residency = kv.residency
        self._host = kv.host
        self._disk = kv.disk

    def seen(self, sequence: Sequence, found: CachedPrefixes, running: Many[Sequence]) -> ExaminedState:
        """State of the cache now; call this before the sequence is examined."""
        slots = (other.slot for other in running) if sequence.request.reuse.cache_prompt else ()
        growing = (slot for slot in slots if slot is not None and found.lent[slot] == self._residency.held[slot].length)
        entries = () if self._disk is None else self._disk.entries
        return ExaminedState(self._residency.changes, self._host.changes, entries, tuple(growing))

    def waits_for_prefix(self, sequence: Sequence, leader: Leader, seen: ExaminedState) -> Waits:
        others = tuple(slot for slot in seen.growing if slot != leader.sequence.slot)
        sequence.progress.waiting.wait = Wait("for a prefix", seen._replace(growing=others), leader=leader)
        return "for a prefix"

    def waits_for_room(self, sequence: Sequence, seen: ExaminedState) -> Waits:
        sequence.progress.waiting.wait = Wait("for room", seen)
        return "for room"

    def waits_for_disk(self, sequence: Sequence, on_disk: DiskEntry, seen: ExaminedState) -> Waits:
        sequence.progress.waiting.wait = Wait("for the disk", seen, on_disk=on_disk)
        return "for the disk"

    def still_waits(self, sequence: Sequence, now_s: float) -> Waits | None:
        """What it waits for, if a new examination would give the same result; None: it must be examined."""
        wait = sequence.progress.waiting.wait
        if wait is None:
            return None
        seen = wait.seen
        is_unchanged = seen.residency_changes == self._residency.changes and seen.host_changes == self._host.changes
        if wait.leader is not None:
            holds = wait.leader.is_at_work and self._is_nowhere_near(wait.leader, seen.growing)
            return (
                wait.reason if holds and (is_unchanged or self._is_nowhere_new(sequence, wait, wait.leader)) else None
            )
        if not is_unchanged or seen.growing or (self._disk is not None and seen.disk_entries is not self._disk.entries):
            return None
        if wait.on_disk is not None and self._disk is not None:
            is_late = now_s - (sequence.progress.waiting.reading_since_s or 0.0) >= MAX_READING_S
            return None if is_late or self._disk.status(wait.on_disk) != "reading" else wait.reason
        return wait.reason

    def _is_nowhere_near(self, leader: Leader, growing: tuple[int, ...]) -> bool:
        """Whether no growing slot has enough of the prompt by now for waiting to be pointless."""
        return not growing or all(self._residency.held[slot].length < leader.elsewhere for slot in growing)

    def _is_nowhere_new(self, sequence: Sequence, wait: Wait, leader: Leader) -> bool:
        """Whether nothing new has enough of it; then that is not checked again."""
        residency, host, seen, growing = self._residency, self._host, wait.seen, wait.seen.growing
        prompt, domain = sequence.progress.prompt, sequence.request.domain
        if seen.residency_changes != residency.changes:
            changed = [slot for slot, held in enumerate(residency.held) if held.changed_at > seen.residency_changes]
            lent = {slot: residency.lent(slot, prompt, domain) for slot in changed}
            if leader.sequence.slot in lent or max(lent.values()) >= leader.elsewhere:
                return False
            begun = [slot for slot in changed if lent[slot] == residency.held[slot].length]
            growing = (*(slot for slot in growing if slot not in lent), *begun)
        if seen.host_changes != host.changes:
            new = (entry for entry in host.entries if entry.number > seen.host_changes)
            if any(host.usable(entry, prompt[:-1], domain) >= leader.elsewhere for entry in new):
                return False
        seen = seen._replace(residency_changes=residency.changes, host_changes=host.changes, growing=growing)
        sequence.progress.waiting.wait = wait._replace(seen=seen)
        return True
