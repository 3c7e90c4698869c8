"""What a waiting sequence was found to wait for, and what would change that.

Looking at one means to compare its prompt with all that is cached, in each step, for everybody who waits. So an answer
is kept until something happens that may make it another one: a slot begins or ends, or holds something else than it
did and more than it computed since; main memory or the disk has something new; the leader has come far enough.
"""

from __future__ import annotations

from typing import Literal

from localllm.engine.sequence import Sequence
from localllm.kvdisk.entry import Entry as DiskEntry

Waits = Literal["for a prefix", "for room", "for the disk"]
"""What a sequence that does not enter waits for: what a running one is just computing, cells of a unified cache, or
what is being read."""


class Leader:
    """Who computes what a waiting sequence is to begin with."""

    def __init__(self, sequence: Sequence, until: int, worth: int) -> None:
        self.sequence = sequence
        self.until = until
        """So many tokens both have in common."""
        self.elsewhere = until - worth
        """As many tokens as that in another place are enough to begin with at once."""

    @property
    def is_at_work(self) -> bool:
        return self.sequence.slot is not None and self.sequence.num_computed < self.until


class Wait:
    """Mutable: what changed in vain is not looked at again."""

    def __init__(
        self,
        reason: Waits,
        *,
        residency_changes: int,
        host_changes: int,
        growing: tuple[int, ...],
        leader: Leader | None = None,
        disk_entries: tuple[DiskEntry, ...] = (),
        on_disk: DiskEntry | None = None,
    ) -> None:
        self.reason = reason
        self.residency_changes = residency_changes
        self.host_changes = host_changes
        self.growing = growing
        """Slots other than the leader's that hold nothing but a beginning of the prompt, and may come to hold more."""
        self.leader = leader
        self.disk_entries = disk_entries
        self.on_disk = on_disk
        """What is being read for it."""
