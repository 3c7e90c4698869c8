"""The vectors that NextN layers or drafts need, one for each of a slot's last tokens: a ring per slot.

    tokens in the slot   [0 .......... first ............ end)
    rows kept                          [first ........... end)

Moving a slot's tokens discards its rows; heads then resume after the next computed tokens. Knows nothing of llama.cpp.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

KEPT = 512
"""Rows kept per slot: how many tokens idle heads can catch up on."""


class NextRows:
    """For one context."""

    def __init__(self, slots: int, width: int, kept: int = KEPT) -> None:
        """`width`: numbers in a row."""
        self._rows = np.zeros((slots, kept, width), np.float32)
        self._kept = kept
        self._first, self._end = [0] * slots, [0] * slots

    def first(self, slot: int) -> int:
        """The position of the first row kept; the end of the slot if there is none."""
        return self._first[slot]

    def computed(self, slot: int, start: int, rows: npt.NDArray[np.float32]) -> None:
        """Store rows of the tokens from position `start` on, shape (count, width), and drop any after them."""
        end = start + len(rows)
        if not self._first[slot] <= start <= self._end[slot]:
            self._first[slot] = start
        if len(rows) == 1:  # faster
            self._rows[slot, start % self._kept] = rows[0]
        else:
            last = rows[-self._kept :]
            self._rows[slot, np.arange(end - len(last), end) % self._kept] = last
        self._end[slot] = end
        self._first[slot] = max(self._first[slot], end - self._kept)

    def cut(self, slot: int, length: int) -> None:
        """Drop the rows from position `length` on."""
        self._end[slot] = min(self._end[slot], length)
        self._first[slot] = min(self._first[slot], self._end[slot])

    def forget(self, slot: int, length: int) -> None:
        """Drop all rows: the slot now holds `length` other tokens."""
        self._first[slot] = self._end[slot] = length

    def row(self, slot: int, position: int) -> npt.NDArray[np.float32] | None:
        """The row of the token there, if it is known; a view that is valid until the next call of `computed`."""
        if not self._first[slot] <= position < self._end[slot]:
            return None
        row: npt.NDArray[np.float32] = self._rows[slot, position % self._kept]
        return row
