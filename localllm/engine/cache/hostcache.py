"""Main memory behind the slots: KV that had to leave its slot, until it is asked for again or the room is needed.

Bounded in bytes; the entry that was used longest ago is evicted. Knows tokens and opaque states, nothing of slots or
backends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import State
from localllm.engine.cache.checkpoints import Checkpoint, num_bytes
from localllm.engine.cache.domain import COMMON, Domain
from localllm.engine.cache.reusable import reusable


class Entry:
    """What one slot held; constant but for `number`, equal to itself only. Its state lives as long as it does."""

    def __init__(
        self,
        tokens: npt.NDArray[np.int32],
        state: State,
        checkpoints: tuple[Checkpoint, ...] = (),
        domain: Domain = COMMON,
    ) -> None:
        self.tokens = tokens
        """int32 [length]."""
        self.state = state
        self.checkpoints = checkpoints
        self.domain = domain
        self.number = 0
        """`HostCache.changes` when it came there."""

    @property
    def states(self) -> Iterator[State]:
        yield self.state
        yield from (checkpoint.state for checkpoint in self.checkpoints)


class HostCache:
    """The least recently used first; `max_bytes` 0 keeps nothing."""

    def __init__(self, max_bytes: int, *, can_rewind: bool = True) -> None:
        self.max_bytes = max_bytes
        self._can_rewind = can_rewind
        self.changes = 0
        """Grows whenever an entry comes or goes."""
        self._entries: list[Entry] = []

    @property
    def num_bytes(self) -> int:
        return self.bytes_with(())

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)

    def bytes_with(self, others: Iterable[State]) -> int:
        """What the entries occupy together with states that somebody else holds."""
        return num_bytes(others, *(entry.states for entry in self._entries))

    def serves(self, entry: Entry, tokens: npt.NDArray[np.int32], domain: Domain) -> bool:
        """Whether an entry can be made to hold exactly these tokens, and is of that domain."""
        return self.usable(entry, tokens, domain) == len(tokens) and entry.domain == domain

    def usable(self, entry: Entry, tokens: npt.NDArray[np.int32], domain: Domain) -> int:
        """How many of these tokens, from the first, an entry can be made to hold; none in another domain."""
        return reusable(
            tokens,
            domain,
            tokens=entry.tokens,
            of=entry.domain,
            least=0 if self._can_rewind else len(entry.tokens),
            checkpoints=(checkpoint.length for checkpoint in entry.checkpoints),
        )

    def holds(self, tokens: npt.NDArray[np.int32], domain: Domain) -> bool:
        """Whether any entry can be made to hold exactly these tokens."""
        return any(self.serves(entry, tokens, domain) for entry in self._entries)

    def make_room(self, num_bytes: int, others: Iterable[State] = ()) -> None:
        """Before a state of so many bytes is saved, evict what would have to go afterwards: its memory serves the new.

        For a state that never fits nothing goes.
        """
        others = tuple(others)
        while self._entries and num_bytes <= self.max_bytes < num_bytes + self.bytes_with(others):
            del self._entries[0]
            self.changes += 1

    def add(self, new: Entry, others: Iterable[State] = (), wanted: Iterable[Entry] = ()) -> None:
        """It replaces those that it can serve as. Evicts what no longer fits, beside `others`: itself, if need be.

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
        """Evict until the rest fits, together with states that somebody else holds."""
        others = tuple(others)
        while self._entries and self.bytes_with(others) > self.max_bytes:
            del self._entries[0]
            self.changes += 1

    def used(self, entry: Entry) -> None:
        """It was just restored."""
        if entry in self._entries:
            self._entries.remove(entry)
            self._entries.append(entry)
