"""What every slot's KV cache holds, as believed, and what of a prompt is there.

Slots keep what they computed when their sequence is over, until another sequence needs the room. A prompt starts from
the longest prefix that any slot holds, a running one's too: in that slot, or from a copy. A memory that cannot lose its
tail goes back to a checkpoint. Changed by `KvCache` alone, which moves the cells in the same place; anybody may look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import State
from localllm.engine.cache.cells import CellPool
from localllm.engine.cache.checkpoints import Checkpoint, added, within
from localllm.engine.cache.domain import COMMON, Domain
from localllm.engine.cache.held import Held
from localllm.engine.cache.reusable import nearest, reusable

TOKENS_COPIED = 128
"""So many are copied through a state in the time that one takes to compute (LOG.md, "Moves")."""
CELLS_COPIED = 256
"""So many are copied with a decode in that time."""
LEAST_COPY = 8
"""Cost of the shortest copy, in tokens to compute: everybody waits for it, however little it moves."""


class Found(NamedTuple):
    """How many tokens of a prompt there are, per place, that it can start from."""

    held: Sequence[int]
    """Per slot, for a sequence that goes into it."""
    lent: Sequence[int]
    """Per slot, for one that goes elsewhere."""
    saved: Sequence[int] = ()
    """Per entry in main memory."""


class Residency:
    """The token ids in the KV of every slot, where it can go back to, and when each slot was last used."""

    def __init__(self, *, num_slots: int, slot_capacity: int, can_rewind: bool, num_cells: int | None = None) -> None:
        """`num_cells`: of a unified cache, which all slots share; None: each has cells of its own."""
        self.copy_tokens = max(LEAST_COPY, slot_capacity // CELLS_COPIED) if num_cells is None else 0
        """Cost of a copy of all cells of a slot, in tokens to compute, while everybody waits.

        In a unified cache nothing moves.
        """
        self.pool = None if num_cells is None else CellPool(num_cells, num_slots, slot_capacity)
        self.held = tuple(Held(slot, slot_capacity) for slot in range(num_slots))
        self.changes = 0
        """Grows whenever anything but a continuation happens to a slot."""
        self._now = 0
        self._can_rewind = can_rewind

    @property
    def num_slots(self) -> int:
        return len(self.held)

    def copy_cost(self, num_tokens: int) -> int:
        """Of a slot that holds so much, in tokens to compute: little is copied through a state, which is no larger."""
        return min(self.copy_tokens, max(LEAST_COPY, num_tokens // TOKENS_COPIED))

    def tokens(self, slot: int) -> npt.NDArray[np.int32]:
        """The ids in that slot, a view of shape (length,)."""
        return self.held[slot].tokens

    # ---- what happened; said by `KvCache`, but for `used` and `changed`

    def given(self, slot: int, domain: Domain) -> None:
        """What is computed there from now on is that domain's; what it holds has to be so already."""
        held = self.held[slot]
        assert held.length == 0 or held.domain == domain, "a prefix of another domain"
        held.domain = domain

    def changed(self, slot: int) -> None:
        """It began or ended to run, or holds something else than what it went on with."""
        self.changes += 1
        self.held[slot].changed_at = self.changes

    def used(self, slots: Iterable[int]) -> None:
        """Those slots were just used; all others are older."""
        self._now += 1
        for slot in slots:
            self.held[slot].used_at = self._now

    def written(self, slot: int, start: int, tokens: Sequence[int]) -> None:
        """Those tokens were computed; they continue what the slot held."""
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

    def truncated(self, slot: int, length: int) -> None:
        """The slot holds no more than its first `length` tokens."""
        held = self.held[slot]
        if length < held.length:
            if self.pool is not None:
                self.pool.cut(slot, length)
            self._now_holds(slot, length, min(length, held.sound), held.domain, held.checkpoints)

    def shifted(self, slot: int, keep: int, drop: int) -> None:
        """The slot lost `drop` tokens after its first `keep`."""
        held = self.held[slot]
        length = held.length - drop
        held.row[keep:length] = held.row[keep + drop : held.length]
        self._now_holds(slot, length, min(keep, held.sound), held.domain, held.checkpoints)

    def copied(self, source: int, slot: int, length: int) -> None:
        """The slot holds the first `length` tokens of another."""
        if self.pool is not None:
            self.pool.cut(slot, 0)
            self.pool.share(source, slot, length)
        of = self.held[source]
        self.held[slot].row[:length] = of.row[:length]
        self._now_holds(slot, length, min(length, of.sound), of.domain, of.checkpoints)

    def restored(
        self, slot: int, tokens: npt.NDArray[np.int32], checkpoints: Iterable[Checkpoint] = (), domain: Domain = COMMON
    ) -> None:
        """The slot holds exactly those tokens, from a saved state."""
        length = len(tokens)
        if self.pool is not None:
            self.pool.cut(slot, 0)
            self.pool.extend(slot, length)
        self.held[slot].row[:length] = tokens
        self._now_holds(slot, length, length, domain, checkpoints)

    def checkpointed(self, slot: int, state: State, most: int) -> None:
        """What the slot holds now can be gone back to; at most so many such places are kept."""
        held = self.held[slot]
        held.checkpoints = added(held.checkpoints, Checkpoint(held.length, state), most)

    def can_be_cut(self, slot: int, least: int) -> None:
        """The backend says that the slot can be cut to `least` tokens as it is."""
        self.held[slot].least = least

    def forget_a_checkpoint(self) -> bool:
        """The first of the slot that was used longest ago; whether there was any."""
        holders = [held for held in self.held if held.checkpoints]
        if not holders:
            return False
        oldest = min(holders, key=lambda held: held.used_at)
        oldest.checkpoints = oldest.checkpoints[1:]
        return True

    # ---- what there is

    @property
    def states(self) -> Iterator[State]:
        """Of all checkpoints."""
        return (checkpoint.state for held in self.held for checkpoint in held.checkpoints)

    def stamp(self, slot: int) -> tuple[int, int]:
        """Changes with what the slot holds."""
        return self.held[slot].used_at, self.held[slot].length

    def idle_first(self, slots: Iterable[int]) -> list[int]:
        """Those slots that hold something, the one first that was used longest ago."""
        return sorted(
            (slot for slot in slots if self.held[slot].length), key=lambda slot: (self.held[slot].used_at, slot)
        )

    def found(self, prompt: npt.NDArray[np.int32], domain: Domain = COMMON) -> Found:
        """Per slot, how many tokens at its beginning can be used for the prompt: never all of the prompt.

        Nothing of a slot of another domain. The last token of a prompt is always computed: its logits are what the
        answer begins with.
        """
        held = [self._reusable(slot, prompt[:-1], domain, self.held[slot].least) for slot in range(self.num_slots)]
        if self._can_rewind:
            return Found(held, held)
        return Found(held, [self.lent(slot, prompt, domain) for slot in range(self.num_slots)])

    def lent(self, slot: int, prompt: npt.NDArray[np.int32], domain: Domain) -> int:
        """As `found`, of one slot, for a sequence that goes elsewhere."""
        return self._reusable(slot, prompt[:-1], domain, self._least_of_copy(slot))

    def serves(self, slot: int, tokens: npt.NDArray[np.int32], domain: Domain) -> bool:
        """Whether a copy of the slot can be made to hold exactly these tokens."""
        return self._reusable(slot, tokens, domain, self._least_of_copy(slot)) == len(tokens)

    def nearest(self, slot: int, length: int) -> int:
        """The most tokens, but no more than `length`, that the slot can be cut to."""
        held = self.held[slot]
        return nearest(length, held.least, (checkpoint.length for checkpoint in held.checkpoints))

    def way_back(self, slot: int, length: int) -> Checkpoint | None:
        """The checkpoint that is needed to cut what the slot holds to `length`; None: it can be cut as it is."""
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
        )

    def _least_of_copy(self, slot: int) -> int:
        """A copy holds no more than what is needed to go on."""
        return 0 if self._can_rewind else self.held[slot].length

    def _now_holds(self, slot: int, length: int, sound: int, domain: Domain, checkpoints: Iterable[Checkpoint]) -> None:
        """Something else than what it went on with."""
        held = self.held[slot]
        held.length, held.sound, held.domain = length, sound, domain
        held.checkpoints = within(checkpoints, length)
        held.least = 0 if self._can_rewind else length
        self.changed(slot)


def needed_to_cut(length: int, least: int, checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """The checkpoint at `length`, unless what can be cut to `least` tokens and more needs none."""
    if length == 0 or length >= least:
        return None
    return next(checkpoint for checkpoint in checkpoints if checkpoint.length == length)
