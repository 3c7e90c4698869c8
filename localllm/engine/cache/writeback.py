"""Stores what slots hold on disk: when the engine is idle, and when the model is unloaded."""

from __future__ import annotations

from collections.abc import Callable

from localllm.engine.cache.kvcache import KvCache
from localllm.engine.cache.tiers import MIN_SAVED_TOKENS, DiskTier


class Writeback:
    """Used by the engine's thread, except for `flush`."""

    def __init__(self, kv: KvCache, disk: DiskTier) -> None:
        self._kv = kv
        self._disk = disk
        self._given: dict[int, tuple[int, int]] = {}
        """Slot -> the stamp of what was last stored of it."""

    def next(self, first: int = 0) -> int | None:
        """A slot, `first` or a later one, whose content is not on the disk and was not stored yet."""
        residency = self._kv.residency
        for slot in range(first, self._kv.num_slots):
            held = residency.held[slot]
            is_new = self._given.get(slot) != residency.stamp(slot)
            if is_new and held.length >= MIN_SAVED_TOKENS and not self._disk.stores(held.tokens, held.domain):
                return slot
        return None

    def store_next(self, first: int = 0) -> int | None:
        """Store one slot, `first` or a later one; None: there was none.

        A caller that stores all of them continues with the next higher slot: a slot that computes always has something
        new.
        """
        slot = self.next(first)
        if slot is not None:
            self._store(slot)
        return slot

    def store_while(self, is_quiet: Callable[[], bool]) -> None:
        """Store one slot after the other."""
        while is_quiet() and self.store_next() is not None:
            continue

    def flush(self) -> None:
        """Wait until what was stored is written; from any thread."""
        self._disk.flush()

    def store_all(self, on_stored: Callable[[], None] = lambda: None) -> None:
        """Store all slots; everything is on disk and the disk closed on return. `on_stored` is called after each."""
        while self.store_next() is not None:
            self._disk.flush()
            on_stored()
        self._disk.close()

    def _store(self, slot: int) -> None:
        held = self._kv.residency.held[slot]
        self._given[slot] = self._kv.residency.stamp(slot)
        if held.sound == held.length:  # a running one may have been shifted
            self._disk.store(self._kv.save(slot))
