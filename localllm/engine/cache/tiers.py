"""The disk behind main memory: conversations that outlive the model's process.

Connects `kvdisk`, which knows files, and the engine, which knows prompts. The engine never waits for the disk: entries
are read on a separate thread, and `wake` is called when one is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import State
from localllm.engine.cache.checkpoints import Checkpoint
from localllm.engine.cache.domain import Domain
from localllm.engine.cache.hostcache import HostEntry
from localllm.engine.cache.reusable import reusable
from localllm.engine.media import Extent
from localllm.kvdisk import cache, file
from localllm.kvdisk.entry import DiskEntry

MIN_SAVED_TOKENS = 64
"""The fewest tokens of a conversation worth storing (benchmarks/log/kv.md#what-a-save-costs)."""
MIN_READ_TOKENS = 64
"""A sequence waits for the disk only if at least this many tokens are there and nowhere else."""
INDEXED = min(MIN_SAVED_TOKENS, MIN_READ_TOKENS)
"""Length of the prefixes in the index."""
STORING_TIMEOUT_S = 30.0
"""Time for one conversation to be written when the model is unloaded."""

OpenDisk = Callable[[Callable[[DiskEntry], None]], cache.DiskCache]
"""Opens a disk cache, which calls its argument when it has read an entry."""


class DiskTier:
    """Used by the engine's thread; owns the disk cache."""

    def __init__(self, open_disk: OpenDisk, wake: Callable[[], None], *, can_rewind: bool) -> None:
        """`wake` is called on another thread when something was read; `can_rewind`: whether the memory that states are
        restored to can."""
        self._can_rewind = can_rewind
        self._found: WeakKeyDictionary[object, tuple[tuple[DiskEntry, ...], DiskEntry | None, int]] = (
            WeakKeyDictionary()
        )
        """The best entry found for each waiting sequence."""
        self._indexed: tuple[DiskEntry, ...] = ()
        self._index: dict[tuple[str, bytes], list[DiskEntry]] = {}
        """Entries by domain and prefix: one without even that prefix in common with a prompt is not worth reading."""
        self._cache = open_disk(lambda _: wake())

    @property
    def entries(self) -> tuple[DiskEntry, ...]:
        """All conversations; the same tuple until something changes."""
        return self._cache.entries

    def usable(self, entry: DiskEntry, tokens: npt.NDArray[np.int32], domain: Domain) -> int:
        """How many of these tokens, from the first, an entry can be cut to; 0 in another domain."""
        least = 0 if self._can_rewind else len(entry.tokens)
        return reusable(
            tokens,
            domain,
            tokens=entry.tokens,
            of=Domain(entry.domain),
            least=least,
            checkpoints=entry.positions,
            extents=map(Extent._make, entry.extents),
        )

    def best(self, prompt: npt.NDArray[np.int32], domain: Domain, *, sequence: object) -> tuple[DiskEntry | None, int]:
        """The conversation that the largest part of a prompt can start from, and how much: never all of it.

        None where nothing is worth reading. `sequence`: whose prompt it is; the result is remembered for it.
        """
        entries = self.entries
        known = self._found.get(sequence)
        if known is not None and known[0] is entries:
            return known[1:]
        best, most = None, 0
        for entry in self._alike(prompt[:-1], domain):
            usable = self.usable(entry, prompt[:-1], domain)
            if usable > most:
                best, most = entry, usable
        self._found[sequence] = entries, best, most
        return best, most

    def status(self, entry: DiskEntry) -> Literal["memory", "reading", "gone"]:
        """Whether it can be taken. If it is on the disk, reading starts now; `gone`: it cannot be read, or not now."""
        status = self._cache.status(entry)
        if status == "disk":
            return "reading" if self._cache.prefetch(entry) else "gone"
        return status

    def drop(self, entry: DiskEntry) -> None:
        """No sequence waits for it any more: what was read of it leaves memory."""
        self._cache.drop(entry)

    def load(self, entry: DiskEntry) -> HostEntry | None:
        """The conversation, which was read already; None where it has just gone."""
        saved = self._cache.load(entry)
        if saved is None:
            return None
        checkpoints = tuple(Checkpoint(one.position, _state(one.state)) for one in saved.checkpoints)
        extents = tuple(map(Extent._make, saved.extents))
        return HostEntry(entry.tokens, _state(saved.state), checkpoints, Domain(entry.domain), extents)

    def store(self, entry: HostEntry) -> None:
        """Queue it for writing; does not wait."""
        checkpoints = [file.DiskCheckpoint(one.length, one.state) for one in entry.checkpoints]
        self._cache.store(entry.tokens, entry.state, checkpoints, domain=entry.domain.digest, extents=entry.extents)

    def stores(self, tokens: npt.NDArray[np.int32], domain: Domain) -> bool:
        """Whether exactly these tokens, at least `MIN_SAVED_TOKENS`, can be loaded from here."""
        return any(self.usable(entry, tokens, domain) == len(tokens) for entry in self._alike(tokens, domain))

    def _alike(self, tokens: npt.NDArray[np.int32], domain: Domain) -> list[DiskEntry]:
        """Entries that begin with the same `INDEXED` tokens in the same domain."""
        entries = self.entries
        if entries is not self._indexed:
            self._indexed, self._index = entries, {}
            for entry in entries:
                self._index.setdefault((entry.domain, entry.tokens[:INDEXED].tobytes()), []).append(entry)
        return self._index.get((domain.digest, tokens[:INDEXED].tobytes()), [])

    def flush(self) -> None:
        """Wait until everything is written, for a bounded time."""
        self._cache.flush(STORING_TIMEOUT_S)

    def close(self) -> None:
        self._cache.close(STORING_TIMEOUT_S)


def _state(data: file.Bytes) -> State:
    return data if isinstance(data, bytes | memoryview) else memoryview(data)
