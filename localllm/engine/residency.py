"""What every slot's KV cache holds, and where a new prompt finds most of itself computed already.

Slots keep what they computed when their sequence is over, until another sequence needs the room. A prompt starts from
the longest prefix that any slot holds, a running one's too: in that slot, or from a copy. Pure bookkeeping and policy:
knows nothing of the backend that moves the cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

LOSS = 0.1
"""What losing a token of an idle slot costs, in tokens to compute: how likely somebody comes back for it."""


RESTORING = 16
"""What bringing a state back from main memory costs, in tokens to compute: 3 ms for 1,000 tokens of a 193 M model."""


class Placement(NamedTuple):
    """Where a sequence goes, and what of its prompt is there then: held, copied from a slot, or restored."""

    slot: int
    num_cached: int
    source: int | None = None
    """The slot to copy from first."""
    restored: int | None = None
    """The number of the saved state to put into the slot first."""


class Residency:
    """The token ids in the KV of every slot, and when each slot was last used."""

    def __init__(self, *, num_slots: int, slot_capacity: int, can_rewind: bool) -> None:
        self.copy_tokens = max(32, slot_capacity // 128)
        """What a copy costs, in tokens to compute: it moves the whole slot, and everybody waits.

        28 ms at 8,192 tokens of a 193 M model, which computes 40 tokens in that time.
        """
        self._cells = np.zeros((num_slots, slot_capacity), np.int32)
        self._lengths = [0] * num_slots
        self._used = [0] * num_slots
        self._now = 0
        self._can_rewind = can_rewind

    def tokens(self, slot: int) -> npt.NDArray[np.int32]:
        """The ids in that slot, a view of shape (length,)."""
        return self._cells[slot, : self._lengths[slot]]

    def written(self, slot: int, start: int, tokens: Sequence[int]) -> None:
        """Those tokens were computed; they continue what the slot held."""
        assert start == self._lengths[slot], "a gap or an overlap"
        end = start + len(tokens)
        self._cells[slot, start:end] = tokens
        self._lengths[slot] = end

    def truncated(self, slot: int, length: int) -> None:
        """The slot holds no more than its first `length` tokens."""
        self._lengths[slot] = min(length, self._lengths[slot])

    def copied(self, source: int, slot: int, length: int) -> None:
        """The slot holds the first `length` tokens of another."""
        self._cells[slot, :length] = self._cells[source, :length]
        self._lengths[slot] = length

    def restored(self, slot: int, tokens: npt.NDArray[np.int32]) -> None:
        """The slot holds exactly those tokens, from a saved state."""
        self._cells[slot, : len(tokens)] = tokens
        self._lengths[slot] = len(tokens)

    def is_elsewhere(self, slot: int) -> bool:
        """Whether another slot begins with all that this one holds."""
        tokens = self.tokens(slot)
        others = (other for other in range(len(self._lengths)) if other != slot)
        return any(common_prefix(tokens, self.tokens(other)) == len(tokens) for other in others)

    def used(self, slots: Iterable[int]) -> None:
        """Those slots were just used; all others are older."""
        self._now += 1
        for slot in slots:
            self._used[slot] = self._now

    def shared(self, prompt: npt.NDArray[np.int32]) -> list[int]:
        """Per slot, how many tokens at its beginning can be used for the prompt; see `usable`."""
        return [self.usable(self.tokens(slot), prompt) for slot in range(len(self._lengths))]

    def usable(self, held: npt.NDArray[np.int32], prompt: npt.NDArray[np.int32]) -> int:
        """How much of what a cache holds a prompt can start from: never all of the prompt.

        The last token of a prompt is always computed: its logits are what the answer begins with. A memory that cannot
        lose its last tokens is used whole or not at all.
        """
        common = common_prefix(held, prompt[:-1])
        return common if self._can_rewind or common == len(held) else 0

    def place(
        self, shared: Sequence[int], num_prompt: int, free: Sequence[int], saved: Sequence[int] = ()
    ) -> Placement:
        """The cheapest way to start a prompt in one of the free slots.

        `shared` is what `shared(prompt)` said, `saved` how much of every saved state is usable. Costs, in tokens to
        compute: those of the prompt that are in no cache, the copy, and what the slot loses. Among equals the slot that
        was used longest ago, then the lowest.
        """

        def cost(option: Placement) -> tuple[float, int, int]:
            held = option.source is None and option.restored is None
            lost = self._lengths[option.slot] - (option.num_cached if held else 0)
            moving = 0 if held else self.copy_tokens if option.restored is None else RESTORING
            return num_prompt - option.num_cached + moving + LOSS * lost, self._used[option.slot], option.slot

        options = [Placement(slot, shared[slot]) for slot in free]
        best = max(range(len(shared)), key=shared.__getitem__)
        if self._can_rewind and shared[best] > self.copy_tokens:
            options += [Placement(slot, shared[best], source=best) for slot in free if slot != best]
        if saved and max(saved) > RESTORING:
            entry = max(range(len(saved)), key=saved.__getitem__)
            options += [Placement(slot, saved[entry], restored=entry) for slot in free]
        return min(options, key=cost)


def common_prefix(one: npt.NDArray[np.int32], other: npt.NDArray[np.int32]) -> int:
    """How many tokens two sequences begin alike with."""
    length = min(len(one), len(other))
    differs = one[:length] != other[:length]
    first = int(differs.argmax()) if length else 0
    return first if length and differs[first] else length
