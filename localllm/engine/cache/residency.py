"""What every slot's KV cache holds, and where a new prompt finds most of itself computed already.

Slots keep what they computed when their sequence is over, until another sequence needs the room. A prompt starts from
the longest prefix that any slot holds, a running one's too: in that slot, or from a copy. A memory that cannot lose its
tail goes back to a checkpoint. Pure bookkeeping and policy: knows nothing of the backend that moves the cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import State
from localllm.engine.cache.cells import CellPool
from localllm.engine.cache.checkpoints import Checkpoint, added, restart, within
from localllm.engine.cache.domain import COMMON, Domain

LOSS = 0.1
"""What losing a token of an idle slot costs, in tokens to compute: how likely somebody comes back for it."""


RESTORING = 16
"""What bringing a state back from main memory costs, in tokens to compute: LOG.md, "What a save costs"."""
TOKENS_COPIED = 64
"""So many are copied through a state in the time that one takes to compute: LOG.md, "What a save costs"."""
LEAST_COPY = 8
"""In tokens to compute, of the shortest."""


class Placement(NamedTuple):
    """Where a sequence goes, and what of its prompt is there then: held, copied from a slot, or restored."""

    slot: int
    num_cached: int
    source: int | None = None
    """The slot to copy from first."""
    restored: int | None = None
    """The number of the saved state to put into the slot first."""


class Found(NamedTuple):
    """How many tokens of a prompt there are, per place, that it can start from."""

    held: Sequence[int]
    """Per slot, for a sequence that goes into it."""
    lent: Sequence[int]
    """Per slot, for one that goes elsewhere."""
    saved: Sequence[int] = ()
    """Per state in main memory."""


class Residency:
    """The token ids in the KV of every slot, where it can go back to, and when each slot was last used."""

    def __init__(self, *, num_slots: int, slot_capacity: int, can_rewind: bool, num_cells: int | None = None) -> None:
        """`num_cells`: of a unified cache, which all slots share; None: each has cells of its own."""
        self.copy_tokens = max(32, slot_capacity // 128) if num_cells is None else 0
        """What a copy of a full slot costs, in tokens to compute, while everybody waits; nothing moves in a unified
        cache. What a slot that holds little costs: `copy_cost`. Figures: LOG.md, "What a save costs".
        """
        self.pool = None if num_cells is None else CellPool(num_cells, num_slots, slot_capacity)
        self.checkpoints: list[tuple[Checkpoint, ...]] = [()] * num_slots
        self._cells = np.zeros((num_slots, slot_capacity), np.int32)
        self._lengths = [0] * num_slots
        self._least = [0] * num_slots
        """To which each slot can be cut as it is."""
        self._sound = [0] * num_slots
        """How many of each slot's first tokens are as if computed one after the other: after a shift not all are."""
        self.changes = 0
        """Grows whenever anything but a continuation happens to a slot."""
        self.changed_at = [0] * num_slots
        """`changes` when that last happened to each slot."""
        self._domains = [COMMON] * num_slots
        self._used = [0] * num_slots
        self._now = 0
        self._can_rewind = can_rewind

    @property
    def num_slots(self) -> int:
        return len(self._lengths)

    def tokens(self, slot: int) -> npt.NDArray[np.int32]:
        """The ids in that slot, a view of shape (length,)."""
        return self._cells[slot, : self._lengths[slot]]

    def domain(self, slot: int) -> Domain:
        """Whose that slot's tokens are."""
        return self._domains[slot]

    def given(self, slot: int, domain: Domain) -> None:
        """What is computed there from now on is that domain's; what it holds has to be so already."""
        assert self._lengths[slot] == 0 or self._domains[slot] == domain, "a prefix of another domain"
        self._domains[slot] = domain

    def length(self, slot: int) -> int:
        """Tokens in that slot."""
        return self._lengths[slot]

    def changed(self, slot: int) -> None:
        """It began or ended to run, or holds something else than what it went on with."""
        self.changes += 1
        self.changed_at[slot] = self.changes

    def written(self, slot: int, start: int, tokens: Sequence[int]) -> None:
        """Those tokens were computed; they continue what the slot held."""
        assert start == self._lengths[slot], "a gap or an overlap"
        end = start + len(tokens)
        if self.pool is not None:
            self.pool.extend(slot, len(tokens))
        if len(tokens) == 1:
            self._cells[slot, start] = tokens[0]
        else:
            self._cells[slot, start:end] = tokens
        self._now_holds(slot, end, sound=end if self._sound[slot] == start else self._sound[slot])

    def truncated(self, slot: int, length: int) -> None:
        """The slot holds no more than its first `length` tokens."""
        if length < self._lengths[slot]:
            if self.pool is not None:
                self.pool.cut(slot, length)
            self.checkpoints[slot] = within(self.checkpoints[slot], length)
            self._now_holds(slot, length, sound=min(length, self._sound[slot]))
            self.changed(slot)

    def shifted(self, slot: int, keep: int, drop: int) -> None:
        """The slot lost `drop` tokens after its first `keep`."""
        length = self._lengths[slot]
        self._cells[slot, keep : length - drop] = self._cells[slot, keep + drop : length]
        self._now_holds(slot, length - drop, sound=min(keep, self._sound[slot]))
        self.changed(slot)

    def sound(self, slot: int) -> int:
        """How many of its first tokens are of use to others."""
        return self._sound[slot]

    def copied(self, source: int, slot: int, length: int) -> None:
        """The slot holds the first `length` tokens of another."""
        if self.pool is not None:
            self.pool.cut(slot, 0)
            self.pool.share(source, slot, length)
        self._cells[slot, :length] = self._cells[source, :length]
        self.checkpoints[slot] = within(self.checkpoints[source], length)
        self._domains[slot] = self._domains[source]
        self._now_holds(slot, length, sound=min(length, self._sound[source]))
        self.changed(slot)

    def restored(
        self, slot: int, tokens: npt.NDArray[np.int32], checkpoints: Iterable[Checkpoint] = (), domain: Domain = COMMON
    ) -> None:
        """The slot holds exactly those tokens, from a saved state."""
        if self.pool is not None:
            self.pool.cut(slot, 0)
            self.pool.extend(slot, len(tokens))
        self._cells[slot, : len(tokens)] = tokens
        self.checkpoints[slot] = within(checkpoints, len(tokens))
        self._domains[slot] = domain
        self._now_holds(slot, len(tokens), sound=len(tokens))
        self.changed(slot)

    def checkpointed(self, slot: int, state: State, most: int) -> None:
        """What the slot holds now can be gone back to; at most so many such places are kept."""
        new = Checkpoint(self._lengths[slot], state)
        self.checkpoints[slot] = added(self.checkpoints[slot], new, most)

    def can_be_cut(self, slot: int, least: int) -> None:
        """The backend says that the slot can be cut to `least` tokens as it is."""
        self._least[slot] = least

    def forget_a_checkpoint(self) -> bool:
        """The first of the slot that was used longest ago; whether there was any."""
        slots = [slot for slot, checkpoints in enumerate(self.checkpoints) if checkpoints]
        if not slots:
            return False
        oldest = min(slots, key=self._used.__getitem__)
        self.checkpoints[oldest] = self.checkpoints[oldest][1:]
        return True

    @property
    def states(self) -> Iterator[State]:
        """Of all checkpoints."""
        return (checkpoint.state for checkpoints in self.checkpoints for checkpoint in checkpoints)

    def is_elsewhere(self, slot: int) -> bool:
        """Whether another slot can be made to hold all that this one holds."""
        tokens, domain = self.tokens(slot), self._domains[slot]
        others = (other for other in range(len(self._lengths)) if other != slot)
        return any(self._restart(other, tokens, domain, self._can_lend_from(other)) == len(tokens) for other in others)

    def stamp(self, slot: int) -> tuple[int, int]:
        """Changes with what the slot holds."""
        return self._used[slot], self._lengths[slot]

    def idle_first(self, slots: Iterable[int]) -> list[int]:
        """Those slots that hold something, the one first that was used longest ago."""
        return sorted((slot for slot in slots if self._lengths[slot]), key=lambda slot: (self._used[slot], slot))

    def used(self, slots: Iterable[int]) -> None:
        """Those slots were just used; all others are older."""
        self._now += 1
        for slot in slots:
            self._used[slot] = self._now

    def found(self, prompt: npt.NDArray[np.int32], domain: Domain = COMMON) -> Found:
        """Per slot, how many tokens at its beginning can be used for the prompt: never all of the prompt.

        Nothing of a slot of another domain.

        The last token of a prompt is always computed: its logits are what the answer begins with.
        """
        slots = range(len(self._lengths))
        held = [self._restart(slot, prompt[:-1], domain, self._least[slot]) for slot in slots]
        if self._can_rewind:
            return Found(held, held)
        return Found(held, [self.lent(slot, prompt, domain) for slot in slots])

    def lent(self, slot: int, prompt: npt.NDArray[np.int32], domain: Domain) -> int:
        """As `found`, of one slot, for a sequence that goes elsewhere."""
        return self._restart(slot, prompt[:-1], domain, self._can_lend_from(slot))

    def copy_cost(self, num_tokens: int) -> int:
        """What a copy of a slot that holds so much costs, in tokens to compute: little is copied through a state."""
        return min(self.copy_tokens, max(LEAST_COPY, num_tokens // TOKENS_COPIED))

    def way_back(self, slot: int, length: int) -> Checkpoint | None:
        """The checkpoint that is needed to cut what the slot holds to `length`; None: it can be cut as it is."""
        if length == 0 or length >= self._least[slot]:
            return None
        return next(checkpoint for checkpoint in self.checkpoints[slot] if checkpoint.length == length)

    def place(self, found: Found, num_prompt: int, free: Sequence[int]) -> Placement:
        """The cheapest way to start a prompt in one of the free slots.

        Costs, in tokens to compute: those of the prompt that are in no cache, the copy, and what the slot loses. Among
        equals the slot that was used longest ago, then the lowest.
        """

        def cost(option: Placement) -> tuple[float, int, int]:
            held = option.source is None and option.restored is None
            lost = self._lengths[option.slot] - (option.num_cached if held else 0)
            copied = 0 if option.source is None else self._lengths[option.source]
            moving = 0 if held else RESTORING if option.source is None else self.copy_cost(copied)
            return num_prompt - option.num_cached + moving + LOSS * lost, self._used[option.slot], option.slot

        options = [Placement(slot, found.held[slot]) for slot in free]
        best = max(range(len(found.lent)), key=found.lent.__getitem__)
        if found.lent[best] > self.copy_cost(self._lengths[best]):
            options += [Placement(slot, found.lent[best], source=best) for slot in free if slot != best]
        if found.saved and max(found.saved) > RESTORING:
            entry = max(range(len(found.saved)), key=found.saved.__getitem__)
            options += [Placement(slot, found.saved[entry], restored=entry) for slot in free]
        return min(options, key=cost)

    def _restart(self, slot: int, tokens: npt.NDArray[np.int32], domain: Domain, least: int) -> int:
        if self._domains[slot] != domain:
            return 0
        return restart(common_prefix(self.tokens(slot)[: self._sound[slot]], tokens), least, self.checkpoints[slot])

    def _can_lend_from(self, slot: int) -> int:
        """A copy holds no more than what is needed to go on."""
        return 0 if self._can_rewind else self._lengths[slot]

    def _now_holds(self, slot: int, length: int, *, sound: int) -> None:
        self._sound[slot] = sound
        self._lengths[slot] = length
        self._least[slot] = 0 if self._can_rewind else length


def common_prefix(one: npt.NDArray[np.int32], other: npt.NDArray[np.int32]) -> int:
    """How many tokens two sequences begin alike with."""
    length = min(len(one), len(other))
    differs = one[:length] != other[:length]
    first = int(differs.argmax()) if length else 0
    return first if length and differs[first] else length
