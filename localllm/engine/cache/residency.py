"""What every slot's KV cache is recorded to hold, and how much of a prompt is there.

Slots keep what they computed after their sequence has ended, until another sequence needs the room. A prompt starts
from the longest prefix that any slot holds, including running ones: in that slot, or from a copy. A memory that cannot
drop its tail goes back to a checkpoint. Changed by `KvCache` only, which moves the cells in the same place; anyone may
read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import State
from localllm.engine.cache.checkpoints import Checkpoint, added, within
from localllm.engine.cache.domain import COMMON, Domain
from localllm.engine.cache.held import SlotRecord
from localllm.engine.cache.reusable import nearest, reusable
from localllm.engine.cache.unified_cells import CellPool
from localllm.engine.media import Extent
from localllm.engine.spans import begun

TOKENS_COPIED = 128
"""Tokens copied through a state in the time that computing one takes (benchmarks/log/kv.md#moves)."""
CELLS_COPIED = 256
"""Cells copied with a decode in that time."""
MIN_COPY_COST = 8
"""Cost of the shortest copy, in tokens to compute: all sequences wait for it, however little it moves."""


class CachedPrefixes(NamedTuple):
    """How many tokens of a prompt each place holds that it could start from."""

    held: Sequence[int]
    """Per slot, for a sequence that enters that slot."""
    lent: Sequence[int]
    """Per slot, for a sequence that enters another slot and copies."""
    saved: Sequence[int] = ()
    """Per entry in main memory."""


class Residency:
    """The token ids in the KV of every slot, its checkpoints, and when each slot was last used."""

    def __init__(self, *, num_slots: int, slot_capacity: int, can_rewind: bool, num_cells: int | None = None) -> None:
        """`num_cells`: of a unified cache, which all slots share; None: each slot has cells of its own."""
        self.copy_tokens = max(MIN_COPY_COST, slot_capacity // CELLS_COPIED) if num_cells is None else 0
        """Cost of copying all cells of a slot, in tokens to compute, while all sequences wait.

        In a unified cache nothing moves.
        """
        self.pool = None if num_cells is None else CellPool(num_cells, num_slots, slot_capacity)
        self.held = tuple(SlotRecord(slot, slot_capacity) for slot in range(num_slots))
        self.changes = 0
        """Grows whenever anything but a continuation happens to a slot."""
        self._now = 0
        self._can_rewind = can_rewind

    @property
    def num_slots(self) -> int:
        return len(self.held)

    def copy_cost(self, num_tokens: int) -> int:
        """Cost for a slot that holds `num_tokens`, in tokens to compute. Small contents are copied through a state,
        which is small, too."""
        return min(self.copy_tokens, max(MIN_COPY_COST, num_tokens // TOKENS_COPIED))

    # ---- what happened; called by `KvCache`, except for `used` and `changed`

    def given(self, slot: int, domain: Domain) -> None:
        """What is computed there from now on belongs to that domain; so must what it already holds."""
        held = self.held[slot]
        assert held.length == 0 or held.domain == domain, "a prefix of another domain"
        held.domain = domain

    def changed(self, slot: int) -> None:
        """It began or ended to run, or now holds something other than a continuation."""
        self.changes += 1
        self.held[slot].changed_at = self.changes

    def used(self, slots: Iterable[int]) -> None:
        """Those slots were just used; all others are older."""
        self._now += 1
        for slot in slots:
            self.held[slot].used_at = self._now

    def written(self, slot: int, start: int, tokens: Sequence[int]) -> None:
        """Those tokens were computed right after what the slot held."""
        held, count = self.held[slot], len(tokens)
        assert start == held.length, "a gap or an overlap"
        end = start + count
        if self.pool is not None:
            self.pool.extend(slot, count)
        if count == 1:
            held.row[start] = tokens[0]
        else:
            held.row[start:end] = tokens
        if held.sound == start:
            held.sound = end
        held.length = end
        if not self._can_rewind:
            held.least = end

    def began(self, slot: int, extent: Extent) -> None:
        """The first rows of an extent were just `written`."""
        self.held[slot].extents += (extent,)

    def truncated(self, slot: int, length: int) -> None:
        """The slot holds only its first `length` tokens."""
        held = self.held[slot]
        if length < held.length:
            if self.pool is not None:
                self.pool.cut(slot, length)
            self._now_holds(slot, length, min(length, held.sound), held.domain, held.checkpoints, held.extents)

    def shifted(self, slot: int, keep: int, drop: int) -> None:
        """The slot lost `drop` tokens after its first `keep`."""
        held = self.held[slot]
        length = held.length - drop
        held.row[keep:length] = held.row[keep + drop : held.length]
        kept = [one for one in held.extents if one.end <= keep]
        for one in held.extents:
            if one.start >= keep + drop:
                kept.append(one._replace(start=one.start - drop, end=one.end - drop))
        self._now_holds(slot, length, min(keep, held.sound), held.domain, held.checkpoints, kept)

    def copied(self, source: int, slot: int, length: int) -> None:
        """The slot holds the first `length` tokens of another."""
        if self.pool is not None:
            self.pool.cut(slot, 0)
            self.pool.share(source, slot, length)
        of = self.held[source]
        self.held[slot].row[:length] = of.row[:length]
        self._now_holds(slot, length, min(length, of.sound), of.domain, of.checkpoints, of.extents)

    def restored(
        self,
        slot: int,
        tokens: npt.NDArray[np.int32],
        checkpoints: Iterable[Checkpoint] = (),
        domain: Domain = COMMON,
        extents: Iterable[Extent] = (),
    ) -> None:
        """The slot holds exactly those tokens, from a saved state."""
        length = len(tokens)
        if self.pool is not None:
            self.pool.cut(slot, 0)
            self.pool.extend(slot, length)
        self.held[slot].row[:length] = tokens
        self._now_holds(slot, length, length, domain, checkpoints, extents)

    def checkpointed(self, slot: int, state: State, most: int) -> None:
        """A checkpoint of what the slot holds now was made; at most `most` are kept."""
        held = self.held[slot]
        held.checkpoints = added(held.checkpoints, Checkpoint(held.length, state), most)

    def can_be_cut(self, slot: int, least: int) -> None:
        """The backend reports that the slot can be cut to `least` tokens without a checkpoint."""
        self.held[slot].least = least

    def forget_a_checkpoint(self) -> bool:
        """Drop the first checkpoint of the least recently used slot that has any; whether there was one."""
        holders = [held for held in self.held if held.checkpoints]
        if not holders:
            return False
        oldest = min(holders, key=lambda held: held.used_at)
        oldest.checkpoints = oldest.checkpoints[1:]
        return True

    # ---- what there is

    @property
    def states(self) -> Iterator[State]:
        """States of all checkpoints."""
        return (checkpoint.state for held in self.held for checkpoint in held.checkpoints)

    def stamp(self, slot: int) -> tuple[int, int]:
        """Changes whenever the slot's content does."""
        return self.held[slot].used_at, self.held[slot].length

    def idle_first(self, slots: Iterable[int]) -> list[int]:
        """Those slots that hold something, least recently used first."""
        return sorted(
            (slot for slot in slots if self.held[slot].length), key=lambda slot: (self.held[slot].used_at, slot)
        )

    def found(self, prompt: npt.NDArray[np.int32], domain: Domain = COMMON) -> CachedPrefixes:
        """Per slot, how many tokens at its beginning can serve the prompt: never all of the prompt.

        Slots of another domain count as empty. The last token of a prompt is always computed, because the answer begins
        with its logits.
        """
        held = [self._reusable(slot, prompt[:-1], domain, self.held[slot].least) for slot in range(self.num_slots)]
        if self._can_rewind:
            return CachedPrefixes(held, held)
        return CachedPrefixes(held, [self.lent(slot, prompt, domain) for slot in range(self.num_slots)])

    def lent(self, slot: int, prompt: npt.NDArray[np.int32], domain: Domain) -> int:
        """As `found`, for one slot and a sequence that enters another."""
        return self._reusable(slot, prompt[:-1], domain, self._least_of_copy(slot))

    def serves(self, slot: int, tokens: npt.NDArray[np.int32], domain: Domain) -> bool:
        """Whether a copy of the slot can be cut to exactly these tokens."""
        return self._reusable(slot, tokens, domain, self._least_of_copy(slot)) == len(tokens)

    def nearest(self, slot: int, length: int) -> int:
        """The largest length up to `length` that the slot can be cut to."""
        held = self.held[slot]
        return nearest(length, held.least, (checkpoint.length for checkpoint in held.checkpoints), held.extents)

    def way_back(self, slot: int, length: int) -> Checkpoint | None:
        """The checkpoint needed to cut the slot to `length`; None: it can be cut without one."""
        held = self.held[slot]
        return needed_to_cut(length, held.least, held.checkpoints)

    def _reusable(self, slot: int, tokens: npt.NDArray[np.int32], domain: Domain, least: int) -> int:
        held = self.held[slot]
        return reusable(
            tokens,
            domain,
            tokens=held.row[: held.sound],
            of=held.domain,
            least=least,
            checkpoints=(checkpoint.length for checkpoint in held.checkpoints),
            extents=held.extents,
        )

    def _least_of_copy(self, slot: int) -> int:
        """A copy holds no more than is needed to continue."""
        return 0 if self._can_rewind else self.held[slot].length

    def _now_holds(
        self,
        slot: int,
        length: int,
        sound: int,
        domain: Domain,
        checkpoints: Iterable[Checkpoint],
        extents: Iterable[Extent],
    ) -> None:
        """Record content that is not a continuation."""
        held = self.held[slot]
        held.length, held.sound, held.domain = length, sound, domain
        held.checkpoints = within(checkpoints, length)
        held.extents = begun(extents, length)
        held.least = 0 if self._can_rewind else length
        self.changed(slot)


def needed_to_cut(length: int, least: int, checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """The checkpoint at `length`, unless a memory that can be cut to `least` tokens and more needs none."""
    if length == 0 or length >= least:
        return None
    return next(checkpoint for checkpoint in checkpoints if checkpoint.length == length)
