"""The ways in which a waiting sequence can begin, and which is the cheapest: in which slot, and from what.

Pure: looks at what is where, changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from typing import NamedTuple

from localllm.engine.cache.hostcache import Entry
from localllm.engine.cache.operations import Copy, Operation, Restore, Rewind, Truncate
from localllm.engine.cache.residency import Found, Residency, needed_to_cut
from localllm.engine.sequence import Sequence
from localllm.kvdisk.entry import Entry as DiskEntry

LOSS = 0.1
"""Cost of losing a token of an idle slot, in tokens to compute: how likely somebody comes back for it."""
TOKENS_RESTORED = 256
"""So many of an entry are restored in the time that one takes to compute (LOG.md, "Moves")."""
LEAST_RESTORE = 4
"""Cost of the shortest restore, in tokens to compute."""


class Way(NamedTuple):
    """Into that slot, where so much of the prompt is then: held, copied from a slot, or restored."""

    slot: int
    num_cached: int
    source: int | None = None
    """The slot to copy from first."""
    entry: Entry | DiskEntry | None = None
    """What to restore first."""

    @property
    def is_held(self) -> bool:
        """Whether the slot holds it already."""
        return self.source is None and self.entry is None

    @property
    def restored_tokens(self) -> int:
        """Tokens of what is restored, more than it may start from perhaps."""
        return 0 if self.entry is None else len(self.entry.tokens)


def cheapest(
    residency: Residency, found: Found, entries: Many[Entry | DiskEntry], num_prompt: int, free: Many[int]
) -> Way:
    """Of all ways to start a prompt in one of the free slots; `found.saved` is of `entries`.

    Costs, in tokens to compute: those of the prompt that are in no cache, the copy or the restore, and what the slot
    loses. Among equals the slot that was used longest ago, then the lowest.
    """

    def cost(way: Way) -> tuple[float, int, int]:
        held = residency.held[way.slot]
        lost = held.length - (way.num_cached if way.is_held else 0)
        moving = 0 if way.entry is None else restore_cost(way.entry)
        if way.source is not None:
            moving = residency.copy_cost(residency.held[way.source].length)
        return num_prompt - way.num_cached + moving + LOSS * lost, held.used_at, way.slot

    ways = [Way(slot, found.held[slot]) for slot in free]
    source = max(range(len(found.lent)), key=found.lent.__getitem__)
    if found.lent[source] > residency.copy_cost(residency.held[source].length):
        ways += [Way(slot, found.lent[source], source=source) for slot in free if slot != source]
    best = max(range(len(found.saved)), key=found.saved.__getitem__, default=None)
    if best is not None and found.saved[best] > restore_cost(entries[best]):
        ways += [Way(slot, found.saved[best], entry=entries[best]) for slot in free]
    return min(ways, key=cost)


def restore_cost(entry: Entry | DiskEntry) -> int:
    """In tokens to compute: all of it is restored, however little of it is used."""
    return max(LEAST_RESTORE, len(entry.tokens) // TOKENS_RESTORED)


def steps(way: Way, sequence: Sequence, residency: Residency, *, can_rewind: bool) -> list[Operation]:
    """What makes the slot hold the beginning of the prompt and no more. An entry of the disk has to be loaded first."""
    slot, num_cached, source, entry = way
    made: list[Operation] = []
    least: int | None = None
    if source is not None:
        giver = residency.held[source]
        length, checkpoints = num_cached if can_rewind else giver.length, giver.checkpoints
        made.append(Copy(source, slot, length, sequence.domain))
    elif entry is not None:
        assert isinstance(entry, Entry), "an entry that is not loaded"
        length, checkpoints = len(entry.tokens), entry.checkpoints
        made.append(Restore(slot, entry, sequence.domain))
    else:
        held = residency.held[slot]
        length, checkpoints, least = held.length, held.checkpoints, held.least
    if num_cached < length:
        if least is None:  # as it comes, it is no more than what is needed to go on
            least = 0 if can_rewind else length
        checkpoint = needed_to_cut(num_cached, least, checkpoints)
        made.append(Truncate(slot, num_cached) if checkpoint is None else Rewind(slot, checkpoint))
    return made
