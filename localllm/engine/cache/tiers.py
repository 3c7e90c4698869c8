"""The disk behind main memory: conversations that outlive the model's process.

Between `kvdisk`, which knows files, and the engine, which knows prompts. The engine never waits for the disk: what is
wanted is read on a thread of its own, and `wake` is called when it is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import Backend, State
from localllm.engine.cache.checkpoints import Checkpoint
from localllm.engine.cache.domain import Domain
from localllm.engine.cache.hostcache import Entry
from localllm.engine.cache.residency import Residency, common_prefix
from localllm.engine.sequence import Sequence
from localllm.kvdisk import cache, file
from localllm.kvdisk.entry import Entry as DiskEntry

WORTH_SAVING = 64
"""Tokens that a conversation must have to be saved: below that, computing it again costs little more than `RESTORING`.

Saving itself is cheap, 1,000 tokens take as long as computing 7 (LOG.md, "What a save costs")."""
WORTH_READING = 64
"""Tokens that must be on the disk and nowhere else for a sequence to wait for them."""
INDEXED = min(WORTH_SAVING, WORTH_READING)
"""Tokens of a beginning that is looked up."""
KEEPING_TIMEOUT_S = 30.0
"""For one conversation to be written when the model is unloaded."""


class DiskTier:
    """Used by the engine's thread; owns the cache."""

    def __init__(self, open_cache: Callable[[Callable[[DiskEntry], None]], cache.DiskCache]) -> None:
        """`open_cache` is given what to call when something was read."""
        self.wake: Callable[[], None] = lambda: None
        self.can_rewind = True
        self._found: WeakKeyDictionary[Sequence, tuple[tuple[DiskEntry, ...], DiskEntry | None, int]] = (
            WeakKeyDictionary()
        )
        """What there was for those that wait."""
        self._indexed: tuple[DiskEntry, ...] = ()
        self._index: dict[tuple[str, bytes], list[DiskEntry]] = {}
        """By their domains and beginnings: what has not even that in common with a prompt is not worth reading."""
        self._cache = open_cache(lambda _: self.wake())

    @property
    def entries(self) -> tuple[DiskEntry, ...]:
        """All conversations; the same tuple until something changes."""
        return self._cache.entries

    def usable(self, entry: DiskEntry, tokens: npt.NDArray[np.int32], domain: Domain) -> int:
        """How many of these tokens, from the first, an entry can be made to hold; none in another domain."""
        if entry.domain != domain.digest:
            return 0
        common = common_prefix(entry.tokens, tokens)
        if self.can_rewind or common == len(entry.tokens):
            return common
        return max((position for position in entry.positions if position <= common), default=0)

    def best(self, sequence: Sequence) -> tuple[DiskEntry | None, int]:
        """The conversation that most of a prompt can start from, and how much: never all of it.

        None where nothing is worth reading.
        """
        entries = self.entries
        known = self._found.get(sequence)
        if known is not None and known[0] is entries:
            return known[1:]
        best, most = None, 0
        for entry in self._alike(sequence.prompt[:-1], sequence.domain):
            usable = self.usable(entry, sequence.prompt[:-1], sequence.domain)
            if usable > most:
                best, most = entry, usable
        self._found[sequence] = entries, best, most
        return best, most

    def status(self, entry: DiskEntry) -> Literal["memory", "reading", "gone"]:
        """Whether it can be taken; what is on the disk is being read from now on. It may be gone for good."""
        status = self._cache.status(entry)
        if status == "disk":
            return "reading" if self._cache.prefetch(entry) else "gone"
        return status

    def take(self, entry: DiskEntry) -> Entry | None:
        """The conversation, which is in memory; None where it just went."""
        saved = self._cache.load(entry)
        if saved is None:
            return None
        checkpoints = tuple(Checkpoint(one.position, _state(one.state)) for one in saved.checkpoints)
        brought = Entry(entry.tokens, checkpoints, Domain(entry.domain))
        brought.state = _state(saved.state)
        return brought

    def keep(self, entry: Entry) -> None:
        """Have it written; nothing waits for that."""
        checkpoints = [file.Checkpoint(one.length, one.state) for one in entry.checkpoints]
        self._cache.put(entry.tokens, entry.state, checkpoints, domain=entry.domain.digest)

    def keeps(self, tokens: npt.NDArray[np.int32], domain: Domain) -> bool:
        """Whether exactly these tokens, `WORTH_SAVING` or more, can be had from here."""
        return any(self.usable(entry, tokens, domain) == len(tokens) for entry in self._alike(tokens, domain))

    def _alike(self, tokens: npt.NDArray[np.int32], domain: Domain) -> list[DiskEntry]:
        """Those that begin with the same `INDEXED` tokens in the same domain."""
        entries = self.entries
        if entries is not self._indexed:
            self._indexed, self._index = entries, {}
            for entry in entries:
                self._index.setdefault((entry.domain, entry.tokens[:INDEXED].tobytes()), []).append(entry)
        return self._index.get((domain.digest, tokens[:INDEXED].tobytes()), [])

    def flush(self) -> None:
        """Wait until everything is written, but not for ever."""
        self._cache.flush(KEEPING_TIMEOUT_S)

    def close(self) -> None:
        self._cache.close(KEEPING_TIMEOUT_S)


class Keeper:
    """Gives the disk what slots hold: when there is nothing else to do, and at the end."""

    def __init__(self, disk: DiskTier, backend: Backend, residency: Residency) -> None:
        self._disk = disk
        self._backend = backend
        self._residency = residency
        self._kept: dict[int, tuple[int, int]] = {}
        """Slot -> what it held, by its stamp, when that was last given to the disk."""

    def next(self, first: int = 0) -> int | None:
        """A slot, that one or a later one, that holds what the disk does not have and was not given."""
        for slot in range(first, self._backend.num_slots):
            tokens = self._residency.tokens(slot)
            is_new = self._kept.get(slot) != self._residency.stamp(slot)
            if is_new and len(tokens) >= WORTH_SAVING and not self._disk.keeps(tokens, self._residency.domain(slot)):
                return slot
        return None

    def keep_next(self, first: int = 0) -> int | None:
        """One slot, that one or a later one; None: there was none.

        Whoever keeps all of them goes on with the next higher one: a slot that computes always has something new.
        """
        slot = self.next(first)
        if slot is not None:
            self._keep(slot)
        return slot

    def keep_while(self, is_quiet: Callable[[], bool]) -> None:
        """One slot after the other."""
        while is_quiet() and self.keep_next() is not None:
            continue

    def flush(self) -> None:
        """Wait until what was kept is written; from any thread."""
        self._disk.flush()

    def keep_all(self, on_kept: Callable[[], None] = lambda: None) -> None:
        """What is in memory is on the disk when this returns; the disk is closed. `on_kept`: after each."""
        while self.keep_next() is not None:
            self._disk.flush()
            on_kept()
        self._disk.close()

    def _keep(self, slot: int) -> None:
        tokens = self._residency.tokens(slot)
        self._kept[slot] = self._residency.stamp(slot)
        if self._residency.sound(slot) == len(tokens):  # a running one may have been shifted
            entry = Entry(tokens.copy(), self._residency.checkpoints[slot], self._residency.domain(slot))
            entry.state = self._backend.save(slot)
            self._disk.keep(entry)


def _state(data: file.Bytes) -> State:
    return data if isinstance(data, bytes | memoryview) else memoryview(data)
