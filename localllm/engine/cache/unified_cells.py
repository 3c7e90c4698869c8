"""The cells of a unified KV cache: how many are in use and by which slots, given that slots share common prefixes.

Mirrors llama.cpp's bookkeeping for a cache that is one pool for all sequences, in numbers only: a computed token takes
a cell, a copied prefix takes none, and a cell is free when no slot has it any more. Knows nothing of tokens or
requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt


class CellPool:
    """Counts only; callers must never ask for more cells than are free."""

    def __init__(self, num_cells: int, num_slots: int, slot_capacity: int) -> None:
        self.num_cells = num_cells
        self.peak = 0
        """No cell at or above this index has been used since `compacted`."""
        self._holders = np.zeros(num_cells, np.int32)
        self._free = np.arange(num_cells, dtype=np.int32)[::-1].copy()
        """The first `num_free` of them are free."""
        self._num_free = num_cells
        self._cells = np.zeros((num_slots, slot_capacity), np.int32)
        self._lengths = [0] * num_slots

    @property
    def num_used(self) -> int:
        return self.num_cells - self._num_free

    def extend(self, slot: int, count: int) -> None:
        """The slot computed `count` more tokens."""
        assert count <= self._num_free, f"{count} cells of {self._num_free}"
        length = self._lengths[slot]
        taken = self._free[self._num_free - count : self._num_free]
        self._cells[slot, length : length + count] = taken
        self._holders[taken] = 1
        self._num_free -= count
        self._lengths[slot] = length + count
        self.peak = max(self.peak, self.num_used)

    def cut(self, slot: int, length: int) -> None:
        """The slot keeps only its first `length` tokens."""
        dropped = self._of(slot)[length:]
        self._holders[dropped] -= 1
        freed = dropped[self._holders[dropped] == 0]
        self._free[self._num_free : self._num_free + len(freed)] = freed
        self._num_free += len(freed)
        self._lengths[slot] = min(length, self._lengths[slot])

    def share(self, source: int, slot: int, length: int) -> None:
        """An empty slot also has the first `length` tokens of another."""
        assert self._lengths[slot] == 0
        shared = self._of(source)[:length]
        self._cells[slot, :length] = shared
        self._holders[shared] += 1
        self._lengths[slot] = length

    def num_of(self, slots: Iterable[tuple[int, int]]) -> int:
        """Cells that some slots use together, given as (slot, number of tokens)."""
        is_taken = np.zeros(self.num_cells, np.bool_)
        for slot, length in slots:
            is_taken[self._of(slot)[:length]] = True
        return int(np.count_nonzero(is_taken))

    def num_with(self, cuts: Mapping[int, int]) -> int:
        """Cells that would be in use if some slots were cut: slot -> length."""
        return self.num_of((slot, cuts.get(slot, length)) for slot, length in enumerate(self._lengths))

    def check_integrity(self, lengths: Sequence[int]) -> None:
        """Every slot has a cell for each of its tokens, with a correct number of holders. Raises `AssertionError`."""
        assert self._lengths == list(lengths), f"{self._lengths} cells of slots that hold {lengths} tokens"
        holders = np.zeros(self.num_cells, np.int32)
        for slot in range(len(lengths)):
            np.add.at(holders, self._of(slot), 1)
        assert (holders == self._holders).all(), "the counts of cells' holders are wrong"
        assert int(np.count_nonzero(holders)) == self.num_used, "cells were lost"

    @property
    def is_shared(self) -> bool:
        """Whether any cell has more than one holder."""
        return bool((self._holders > 1).any())

    def compacted(self) -> None:
        """All cells in use were moved to the beginning."""
        self.peak = self.num_used

    def _of(self, slot: int) -> npt.NDArray[np.int32]:
        return self._cells[slot, : self._lengths[slot]]
