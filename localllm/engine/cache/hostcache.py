"""KV that had to leave its slot, kept in main memory until it is asked for again or the room is needed.

Bounded in bytes; what was used longest ago goes first. Knows tokens and opaque states, nothing of slots or backends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import State
from localllm.engine.cache.checkpoints import Checkpoint, num_bytes, restart
from localllm.engine.cache.domain import COMMON, Domain
from localllm.engine.cache.residency import common_prefix


class Entry:
    """What one slot held: its tokens, int32 [length], and the backend's state of them once that is saved."""

    def __init__(
        self, tokens: npt.NDArray[np.int32], checkpoints: tuple[Checkpoint, ...] = (), domain: Domain = COMMON
    ) -> None:
        self.tokens = tokens
        self.checkpoints = checkpoints
        self.domain = domain
        self.state: State = b""
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
        return entry.domain == domain and self.usable(entry, tokens, domain) == len(tokens)

    def usable(self, entry: Entry, tokens: npt.NDArray[np.int32], domain: Domain) -> int:
        """How many of these tokens, from the first, an entry can be made to hold; none in another domain."""
        if entry.domain != domain:
            return 0
        least = 0 if self._can_rewind else len(entry.tokens)
        return restart(common_prefix(entry.tokens, tokens), least, entry.checkpoints)

    def holds(self, tokens: npt.NDArray[np.int32], domain: Domain) -> bool:
        """Whether any entry can be made to hold exactly these tokens."""
        return any(self.serves(entry, tokens, domain) for entry in self._entries)

    def reserve(
        self, tokens: npt.NDArray[np.int32], checkpoints: tuple[Checkpoint, ...] = (), domain: Domain = COMMON
    ) -> Entry:
        """A new entry, to be filled before anything else happens; it replaces those that it can serve as."""
        new = Entry(tokens, checkpoints, domain)
        self._entries = [entry for entry in self._entries if not self.serves(new, entry.tokens, entry.domain)]
        self._entries.append(new)
        self.changes += 1
        new.number = self.changes
        return new

    def make_room(self, num_bytes: int, others: Iterable[State] = ()) -> None:
        """Before a state of so many bytes is saved: what would have to go afterwards goes now, and its memory serves.

        The newest entry is the reserved one; of a state that never fits nothing else goes.
        """
        others = tuple(others)
        while len(self._entries) > 1 and num_bytes <= self.max_bytes < num_bytes + self.bytes_with(others):
            del self._entries[0]
            self.changes += 1

    def fill(self, entry: Entry, state: State, others: Iterable[State] = ()) -> None:
        """Give a reserved entry its state, and drop the oldest ones that no longer fit beside it, or itself."""
        entry.state = state
        self.trim(others)

    def trim(self, others: Iterable[State] = ()) -> None:
        """Drop the oldest entries until the rest fits, together with states that somebody else holds."""
        others = tuple(others)
        while self._entries and self.bytes_with(others) > self.max_bytes:
            del self._entries[0]
            self.changes += 1

    def used(self, entry: Entry) -> None:
        """It was just restored."""
        if entry in self._entries:
            self._entries.remove(entry)
            self._entries.append(entry)
