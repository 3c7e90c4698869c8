"""Copies whose cells have not moved yet: llama.cpp moves them at the beginning of the next decode.

Until then the destination slot still has its old cells, so a state saved of it would contain those, and anything
written into either slot by hand would be copied or overwritten. Knows nothing of backends.
"""

from __future__ import annotations


class PendingCopies:
    """Copies since the last decode."""

    def __init__(self, *, are_deferred: bool) -> None:
        """`are_deferred`: False where a backend copies at once."""
        self.any = False
        """Whether anything was copied, deferred or not."""
        self._are_deferred = are_deferred
        self._sources: set[int] = set()
        self._targets: set[int] = set()

    def add(self, source: int, slot: int) -> None:
        self.any = True
        if self._are_deferred:
            self._sources.add(source)
            self._targets.add(slot)

    def clear(self) -> None:
        """A decode has moved the cells."""
        if self.any:
            self.any = False
            self._sources.clear()
            self._targets.clear()

    def can_save(self, slot: int) -> bool:
        """Whether the slot's cells are those that it is recorded to hold."""
        return slot not in self._targets

    def can_write(self, slot: int) -> bool:
        """Whether a state may be written into the slot."""
        return slot not in self._targets and slot not in self._sources
