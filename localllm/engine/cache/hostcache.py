"""Main memory behind the slots: KV that had to leave its slot, kept until it is needed again or its room is.

Bounded in bytes; the least recently used entry is evicted. Pinned entries, those of requests that gave up their slots,
count, but are neither evicted nor used for other prompts. Knows tokens and opaque states, nothing of slots or backends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import State
from localllm.engine.cache.checkpoints import Checkpoint, num_bytes
from localllm.engine.cache.domain import COMMON, Domain
from localllm.engine.cache.reusable import reusable
from localllm.engine.media import Extent


class HostEntry:
    """What one slot held; immutable except for `number`, compared by identity. Its state lives as long as the entry."""

    def __init__(
        self,
        tokens: npt.NDArray[np.int32],
        state: State,
        checkpoints: tuple[Checkpoint, ...] = (),
        domain: Domain = COMMON,
        extents: tuple[Extent, ...] = (),
    ) -> None:
        self.tokens = tokens
        """int32 [length]."""
        self.state = state
        self.checkpoints = checkpoints
        self.domain = domain
        self.extents = extents
        self.number = 0
        """Value of `HostCache.changes` when it was added."""

    @property
    def states(self) -> Iterator[State]:
        yield self.state
        yield from (checkpoint.state for checkpoint in self.checkpoints)


class HostCache:
    """Ordered with the least recently used first; `max_bytes` 0 keeps nothing."""

    def __init__(self, max_bytes: int, *, can_rewind: bool = True) -> None:
        self.max_bytes = max_bytes
        self._can_rewind = can_rewind
        self.changes = 0
        """Grows whenever an entry is added or removed."""
        self._entries: list[HostEntry] = []
        self.pinned: list[HostEntry] = []

    @property
    def num_bytes(self) -> int:
        return self.bytes_with(())

    @property
    def entries(self) -> tuple[HostEntry, ...]:
        return tuple(self._entries)

    def bytes_with(self, others: Iterable[State]) -> int:
        """Bytes that the entries occupy together with states held elsewhere."""
        return num_bytes(others, *(entry.states for entry in (*self.pinned, *self._entries)))

    def serves(self, entry: HostEntry, tokens: npt.NDArray[np.int32], domain: Domain) -> bool:
        """Whether an entry can be cut to exactly these tokens and is of that domain."""
        return self.usable(entry, tokens, domain) == len(tokens) and entry.domain == domain

    def usable(self, entry: HostEntry, tokens: npt.NDArray[np.int32], domain: Domain) -> int:
        """How many of these tokens, from the first, an entry can be cut to; 0 in another domain."""
        return reusable(
            tokens,
            domain,
            tokens=entry.tokens,
            of=entry.domain,
            least=0 if self._can_rewind else len(entry.tokens),
            checkpoints=(checkpoint.length for checkpoint in entry.checkpoints),
            extents=entry.extents,
        )

    def holds(self, tokens: npt.NDArray[np.int32], domain: Domain) -> bool:
        """Whether any entry can be cut to exactly these tokens."""
        return any(self.serves(entry, tokens, domain) for entry in (*self.pinned, *self._entries))

    def can_pin(self, size: int, checkpoints: Iterable[Checkpoint]) -> bool:
        """Whether a state of that size and its checkpoints fit beside what is pinned already."""
        pinned = num_bytes((checkpoint.state for checkpoint in checkpoints), *(entry.states for entry in self.pinned))
        return pinned + size <= self.max_bytes

    def pin(self, entry: HostEntry) -> None:
        self.pinned.append(entry)

    def unpin(self, entry: HostEntry) -> None:
        self.pinned.remove(entry)

    def make_room(self, num_bytes: int, others: Iterable[State] = ()) -> None:
        """Before a state of `num_bytes` is saved, evict what would have to go afterwards, so that its memory is reused.

        Evicts nothing for a state that would never fit.
        """
        others = tuple(others)
        while self._entries and num_bytes <= self.max_bytes < num_bytes + self.bytes_with(others):
            del self._entries[0]
            self.changes += 1

    def add(self, new: HostEntry, others: Iterable[State] = (), wanted: Iterable[HostEntry] = ()) -> None:
        """Replaces the entries it can stand in for. Evicts what no longer fits beside `others`: itself, if need be.

        `wanted` entries count as used after it.
        """
        self._entries = [entry for entry in self._entries if not self.serves(new, entry.tokens, entry.domain)]
        self._entries.append(new)
        self.changes += 1
        new.number = self.changes
        for entry in wanted:
            self.used(entry)
        self.trim(others)

    def trim(self, others: Iterable[State] = ()) -> None:
        """Evict until the rest fits together with states held elsewhere."""
        others = tuple(others)
        while self._entries and self.bytes_with(others) > self.max_bytes:
            del self._entries[0]
            self.changes += 1

    def used(self, entry: HostEntry) -> None:
        """It was just restored."""
        if entry in self._entries:
            self._entries.remove(entry)
            self._entries.append(entry)
