"""KV that had to leave its slot, kept in main memory until it is asked for again or the room is needed.

Bounded in bytes; what was used longest ago goes first. Knows tokens and opaque states, nothing of slots or backends.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from localllm.engine.residency import common_prefix


class Entry:
    """What one slot held: its tokens, int32 [length], and the backend's state of them once that is saved."""

    def __init__(self, tokens: npt.NDArray[np.int32]) -> None:
        self.tokens = tokens
        self.state: bytes = b""


class HostCache:
    """The least recently used first; `max_bytes` 0 keeps nothing."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._entries: list[Entry] = []

    @property
    def num_bytes(self) -> int:
        return sum(len(entry.state) for entry in self._entries)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)

    def holds(self, tokens: npt.NDArray[np.int32]) -> bool:
        """Whether all of these tokens are the beginning of an entry."""
        return any(common_prefix(tokens, entry.tokens) == len(tokens) for entry in self._entries)

    def reserve(self, tokens: npt.NDArray[np.int32]) -> Entry:
        """A new entry, to be filled before anything else happens; it replaces those that are its beginning."""
        self._entries = [entry for entry in self._entries if common_prefix(tokens, entry.tokens) < len(entry.tokens)]
        self._entries.append(entry := Entry(tokens))
        return entry

    def fill(self, entry: Entry, state: bytes) -> None:
        """Give a reserved entry its state, and drop the oldest ones that no longer fit beside it, or itself."""
        entry.state = state
        while self.num_bytes > self.max_bytes:
            del self._entries[0]

    def used(self, entry: Entry) -> None:
        """It was just restored."""
        if entry in self._entries:
            self._entries.remove(entry)
            self._entries.append(entry)
