"""The distinct tokens among the last ones of a growing text, at the same cost per token however many there are."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


class Distinct:
    """Distinct tokens among the last `last_n`; -1: among all."""

    def __init__(self, tokens: Sequence[int], last_n: int) -> None:
        recent = tokens if last_n < 0 else tokens[max(0, len(tokens) - last_n) :]
        self._last_n = last_n
        self._recent = [] if last_n < 0 else list(recent)
        """A ring buffer once it is full."""
        self._oldest = 0
        self._counts = Counter(recent)
        self._places = {token: place for place, token in enumerate(self._counts)}
        self._distinct = np.fromiter(self._counts, np.int32, len(self._counts))

    def copy(self) -> Distinct:
        """A copy that continues with other tokens."""
        other = copy.copy(self)
        other._recent = self._recent.copy()
        other._counts = self._counts.copy()
        other._places = self._places.copy()
        other._distinct = self._distinct.copy()
        return other

    def tokens(self) -> npt.NDArray[np.int32]:
        """In no particular order; valid until the next token."""
        return self._distinct[: len(self._places)]

    def append(self, token: int) -> None:
        if self._last_n == 0:
            return
        self._add(token)
        if self._last_n < 0:
            return
        if len(self._recent) < self._last_n:
            self._recent.append(token)
            return
        self._drop(self._recent[self._oldest])
        self._recent[self._oldest] = token
        self._oldest = (self._oldest + 1) % self._last_n

    def _add(self, token: int) -> None:
        self._counts[token] += 1
        if self._counts[token] > 1:
            return
        place = self._places[token] = len(self._places)
        if place == len(self._distinct):
            self._distinct = np.concatenate((self._distinct, np.zeros(place + 64, np.int32)))
        self._distinct[place] = token

    def _drop(self, token: int) -> None:
        self._counts[token] -= 1
        if self._counts[token]:
            return
        del self._counts[token]
        place = self._places.pop(token)
        last = len(self._places)
        if place < last:
            moved = int(self._distinct[last])
            self._distinct[place] = moved
            self._places[moved] = place
