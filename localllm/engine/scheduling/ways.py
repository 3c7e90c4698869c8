"""The ways in which a waiting sequence can start, and the cheapest of them: in which slot, and from what.

Pure: looks at what is where, changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Many
from types import MappingProxyType
from typing import NamedTuple

from localllm.engine.cache.hostcache import HostEntry
from localllm.engine.cache.operations import Copy, Operation, Restore, Rewind, Truncate
from localllm.engine.cache.residency import CachedPrefixes, Residency, needed_to_cut
from localllm.engine.requests.sequence import Sequence
from localllm.kvdisk.entry import DiskEntry

LOSS = 0.1
"""Cost of losing a token of an idle slot, in tokens to compute: the probability that somebody comes back for it."""
TOKENS_RESTORED = 256
"""Tokens of an entry restored in the time that computing one takes (benchmarks/log/kv.md#moves)."""
MIN_RESTORE_COST = 4
"""Cost of the shortest restore, in tokens to compute."""


class Way(NamedTuple):
    """One way to start a prompt: in which slot, with how many cached tokens, and where these come from."""

    slot: int
    num_cached: int
    source: int | None = None
    """Slot to copy the prefix from first; None: nothing is copied."""
    entry: HostEntry | DiskEntry | None = None
    """Entry to restore first; None: nothing is restored."""

    @property
    def is_held(self) -> bool:
        """Whether the slot already holds the prefix."""
        return self.source is None and self.entry is None

    @property
    def restored_tokens(self) -> int:
        """Number of restored tokens, possibly more than the prompt can start from."""
        return 0 if self.entry is None else len(self.entry.tokens)


def cheapest(
    residency: Residency,
    found: CachedPrefixes,
    entries: Many[HostEntry | DiskEntry],
    num_prompt: int,
    free: Many[int],
    apart: Mapping[int, int] = MappingProxyType({}),
) -> Way:
    """The cheapest way to start a prompt in one of the free slots; `found.saved` refers to `entries`.

    Costs, in tokens to compute: uncached tokens of the prompt, the copy or the restore, and what the slot loses. Among
    equals the slot that is least `apart` from others with which the sequence is computed, then the least recently used
    one, then the lowest.
    """

    def cost(way: Way) -> tuple[float, int, int, int]:
        held = residency.held[way.slot]
        lost = held.length - (way.num_cached if way.is_held else 0)
        moving = 0 if way.entry is None else restore_cost(way.entry)
        if way.source is not None:
            moving = residency.copy_cost(residency.held[way.source].length)
        return num_prompt - way.num_cached + moving + LOSS * lost, apart.get(way.slot, 0), held.used_at, way.slot

    ways = [Way(slot, found.held[slot]) for slot in free]
    source = max(range(len(found.lent)), key=found.lent.__getitem__)
    if found.lent[source] > residency.copy_cost(residency.held[source].length):
        ways += [Way(slot, found.lent[source], source=source) for slot in free if slot != source]
    best = max(range(len(found.saved)), key=found.saved.__getitem__, default=None)
    if best is not None and found.saved[best] > restore_cost(entries[best]):
        ways += [Way(slot, found.saved[best], entry=entries[best]) for slot in free]
    return min(ways, key=cost)


def restore_cost(entry: HostEntry | DiskEntry) -> int:
    """Cost of a restore in tokens to compute. The whole entry is restored, however little of it is used."""
    return max(MIN_RESTORE_COST, len(entry.tokens) // TOKENS_RESTORED)


def steps(way: Way, sequence: Sequence, residency: Residency, *, can_rewind: bool) -> list[Operation]:
    """Operations that make the slot hold the beginning of the prompt and no more. An entry on disk must be loaded
    first."""
    slot, num_cached, source, entry = way
    made: list[Operation] = []
    least: int | None = None
    if source is not None:
        giver = residency.held[source]
        length, checkpoints = num_cached if can_rewind else giver.length, giver.checkpoints
        made.append(Copy(source, slot, length, sequence.request.domain))
    elif entry is not None:
        assert isinstance(entry, HostEntry), "an entry that is not loaded"
        length, checkpoints = len(entry.tokens), entry.checkpoints
        made.append(Restore(slot, entry, sequence.request.domain))
    else:
        held = residency.held[slot]
        length, checkpoints, least = held.length, held.checkpoints, held.least
    if num_cached < length:
        if least is None:  # it already holds no more than is needed to continue
            least = 0 if can_rewind else length
        checkpoint = needed_to_cut(num_cached, least, checkpoints)
        made.append(Truncate(slot, num_cached) if checkpoint is None else Rewind(slot, checkpoint))
    return made
