"""What an engine keeps on disk: conversations looked up by their tokens, written and read on separate threads.

    store -> queued -> (writer thread) -> stored ;   evicted, replaced, damaged, or not written: gone
    prefetch: (reader thread) -> in memory until `load` takes it or `drop` discards it

Everything may be called from any thread. Only the constructor, `load` of what is not in memory, `flush` and `close`
wait for the disk. Disk errors are never raised: the cache carries on without the entry, and logs each kind once.
Several processes, also on several machines, may share the folder; entries that others stored for this fingerprint are
noticed within `LOOK_S`. Knows nothing of slots or of what a state means.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from localllm.kvdisk.entry import DiskEntry, find, is_beginning, read
from localllm.kvdisk.file import Bytes, DamagedFile, DiskCheckpoint, Extents, Foreign, SavedConversation, encode
from localllm.kvdisk.folder import Busy, Folder, Item, NoRoom, WritingStopped
from localllm.kvdisk.prefetch import Prefetcher

MAX_QUEUE_BYTES = 1024**3
"""Limit for states waiting to be written; a single one may be larger."""
MAX_PREFETCHED_BYTES = 1024**3
"""Limit for states read and not yet taken; a single one may be larger."""
CLOSE_TIMEOUT_S = 10.0
LOOK_S = 1.0
"""Interval at which the folder's modification time tells whether others have added or removed files."""
THREAD_END_S = 2.0
"""Time for each thread to stop at its next chunk. One that hangs in the kernel is left to end with the process."""

logger = logging.getLogger("localllm")


class DiskCache:
    """The conversations of one fingerprint."""

    def __init__(
        self,
        folder: Folder,
        *,
        max_queue_bytes: int = MAX_QUEUE_BYTES,
        max_prefetched_bytes: int = MAX_PREFETCHED_BYTES,
        on_read: Callable[[DiskEntry], None] | None = None,
        warn: Callable[[str], None] = logger.warning,
    ) -> None:
        """Reads the heads and tokens of existing files, not their states. Must be closed with `close`.

        With `max_bytes` 0 of the folder the disk is not touched. `on_read(entry)` is called on the reader thread when a
        prefetch is done, `warn` on any thread; neither may raise.
        """
        self._folder = folder
        self.fingerprint = folder.fingerprint
        self._max_queue_bytes = max_queue_bytes
        self._warn = warn
        self._warned: set[str] = set()
        self._changed = threading.Condition()
        """Guards all fields below; held briefly only."""
        self._entries: tuple[DiskEntry, ...] = ()
        self._queued: dict[DiskEntry, SavedConversation] = {}
        """In the order of writing, including the one being written."""
        self._writing: DiskEntry | None = None
        self._touched: dict[DiskEntry, None] = {}
        self._touching = False
        self._seen_ns = 0
        """The folder's modification time before it was last listed; used by one thread at a time."""
        self._ignored: set[str] = set()
        """Names of files that are not ours or could not be read."""
        self._closing = folder.max_bytes == 0
        self._stop = self._closing
        self._prefetcher: Prefetcher | None = None
        self._writer: threading.Thread | None = None
        if not self._closing:
            self._index()
            self._prefetcher = Prefetcher(self._read, max_bytes=max_prefetched_bytes, on_read=on_read)
            self._writer = threading.Thread(target=self._write_loop, name="kv-write", daemon=True)
            self._writer.start()

    @property
    def entries(self) -> tuple[DiskEntry, ...]:
        """All entries that can be loaded; takes no lock. The same tuple until something changes."""
        return self._entries

    def store(
        self,
        tokens: npt.NDArray[np.int32],
        state: Bytes,
        checkpoints: Sequence[DiskCheckpoint] = (),
        *,
        domain: str = "",
        extents: Extents = (),
    ) -> DiskEntry | None:
        """Queue it for writing, replacing entries that are a prefix of it. The entry can be loaded at once.

        Copies the tokens but not the states, which must not change afterwards. None if it is not stored: too
        large, or too much is queued already. An entry with the same tokens and checkpoints stays, and counts as just
        used.
        """
        saved = SavedConversation(state, tuple(checkpoints), extents)
        num_bytes, positions = saved.num_bytes, tuple(checkpoint.position for checkpoint in checkpoints)
        assert all(memoryview(data).nbytes == len(data) for data in (state, *(one.state for one in checkpoints)))
        assert all(0 <= position <= len(tokens) for position in positions), "a checkpoint beyond the end"
        entry = DiskEntry(tokens, num_bytes, positions, domain, extents)
        with self._changed:
            if self._closing or len(tokens) == 0:
                return None
            for known in self._entries:
                if known.name == entry.name and known.positions == positions:
                    self._touched[known] = None
                    self._changed.notify_all()
                    return known
            replaced = [
                one for one in self._queued if one is not self._writing and is_beginning(one.tokens, one.domain, entry)
            ]
            waiting_bytes = sum(other.num_bytes for other in self._queued) - sum(other.num_bytes for other in replaced)
            too_much = waiting_bytes > 0 and waiting_bytes + num_bytes > self._max_queue_bytes
            if too_much or num_bytes + entry.tokens.nbytes > self._folder.max_bytes:
                return None
            for other in replaced:
                self._forget(other)
            self._queued[entry] = saved
            self._entries += (entry,)
            self._changed.notify_all()
        return entry

    def status(self, entry: DiskEntry) -> Literal["memory", "reading", "disk", "gone"]:
        """Where `load` would find it: at once, after waiting for the reader, by reading the disk, or nowhere."""
        with self._changed:
            if entry in self._queued:
                return "memory"
        prefetched = None if self._prefetcher is None else self._prefetcher.status(entry)
        return prefetched or ("disk" if entry in self._entries else "gone")

    def prefetch(self, entry: DiskEntry) -> bool:
        """Have the reader thread read it; then `on_read` is called and it is in memory. Repeated calls have no effect.

        It stays in memory until `load`, `drop`, or a later prefetch that needs the room (oldest first). False: it is
        gone, or too much is being read already.
        """
        status = self.status(entry)
        if status == "disk" and self._prefetcher is not None:
            return self._prefetcher.start(entry)
        return status != "gone"

    def drop(self, entry: DiskEntry) -> None:
        """Discard what was prefetched of it; its file stays."""
        if self._prefetcher is not None:
            self._prefetcher.drop(entry)

    def load(self, entry: DiskEntry) -> SavedConversation | None:
        """The state and the checkpoints, every byte checked; None where they are no longer available.

        Waits for the disk unless its `status` is memory or gone. Counts as a use. A prefetched state passes to the
        caller.
        """
        with self._changed:
            saved = self._queued.get(entry)
        if saved is None and self._prefetcher is not None:
            saved = self._prefetcher.take(entry)
        if saved is None and entry in self._entries:
            saved = self._read(entry)
        if saved is not None:
            self.used(entry)
        return saved

    def used(self, entry: DiskEntry) -> None:
        """Mark it as most recently used."""
        with self._changed:
            if not self._closing and entry in self._entries:
                self._touched[entry] = None
                self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything passed to `store` is written or dropped; False if that takes longer than
        `timeout_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._stop or self._is_idle(), timeout_s)

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> bool:
        """Accept nothing more, write what is queued for up to `timeout_s`, drop the rest. Whether all was written.
        Idempotent."""
        with self._changed:
            self._closing = True
        is_written = self.flush(timeout_s)
        with self._changed:
            self._stop = True
            self._changed.notify_all()
        if self._writer is not None:
            self._writer.join(THREAD_END_S)
        if self._prefetcher is not None:
            self._prefetcher.close(THREAD_END_S)
        with self._changed:
            self._entries = ()
            self._queued.clear()
        return is_written

    def _is_idle(self) -> bool:
        return not (self._queued or self._touched or self._touching)

    def _forget(self, entry: DiskEntry) -> None:
        """Remove it from the index; what was prefetched of it stays available. The caller holds the lock."""
        self._entries = tuple(other for other in self._entries if other is not entry)
        self._queued.pop(entry, None)
        self._touched.pop(entry, None)

    def _say_once(self, kind: str, text: str) -> None:
        with self._changed:
            if kind in self._warned:
                return
            self._warned.add(kind)
        self._warn(text)

    # ---- reading

    def _index(self) -> None:
        self._seen_ns = self._folder.changed_ns()
        try:
            items = self._folder.items()
        except OSError as error:
            self._say_once("index", f"saved conversations in {self._folder.path} cannot be listed: {error}")
        else:
            self._adopt(items)

    def _adopt(self, items: Sequence[Item]) -> None:
        """Index these files."""
        found = find(self._folder, items, {entry.name for entry in self._entries} | self._ignored)
        self._ignored.update(found.ignored)
        with self._changed:
            self._entries += tuple(found.entries)
        if found.complaints:
            first, *rest = found.complaints
            more = f" (and {len(rest)} more)" if rest else ""
            self._warn(f"saved conversations in {self._folder.path}: {first}{more}")

    def _read(self, entry: DiskEntry) -> SavedConversation | None:
        """Read the file on the calling thread; where that fails, None, and the entry is removed."""
        path = self._folder.path / entry.name
        try:
            saved = read(self._folder, entry)
        except FileNotFoundError:  # evicted by another process, or cleared
            pass
        except DamagedFile as error:
            self._folder.remove(entry.name)
            self._warn(f"the saved conversation {path} is damaged and was removed: {error}")
        except (Foreign, OSError, MemoryError) as error:
            self._say_once("read", f"the saved conversation {path} cannot be read: {error}")
        else:
            return saved
        with self._changed:
            self._forget(entry)
        return None

    # ---- writing

    def _write_loop(self) -> None:
        try:
            self._notice(self._folder.tidy())
        except (OSError, NoRoom, Busy) as error:
            self._say_once("write", f"saved conversations in {self._folder.path} cannot be tidied: {error}")
        while True:
            with self._changed:
                self._writing, self._touching = None, False
                self._changed.notify_all()
                is_asked = self._changed.wait_for(lambda: self._stop or self._touched or self._queued, LOOK_S)
                if self._stop:
                    return
                touched, self._touched = self._touched, {}
                self._touching = bool(touched)
                self._writing = next(iter(self._queued), None)
            if not is_asked:
                self._look()
            for entry in touched:
                self._touch(entry)
            if self._writing is not None:
                self._write(self._writing)

    def _look(self) -> None:
        """Notice what others have added or removed since the last look."""
        changed_ns = self._folder.changed_ns()
        if changed_ns == self._seen_ns:
            return
        self._seen_ns = changed_ns
        try:
            self._notice(self._folder.items())
        except OSError as error:
            self._say_once("index", f"saved conversations in {self._folder.path} cannot be listed: {error}")

    def _touch(self, entry: DiskEntry) -> None:
        if not self._folder.touch(entry.name):
            with self._changed:
                if entry not in self._queued:
                    self._forget(entry)

    def _write(self, entry: DiskEntry) -> None:
        """Not part of the loop, so that the reference to the state is dropped as early as possible."""
        with self._changed:
            saved = self._queued.get(entry)
        others = None if saved is None else self._write_file(entry, saved)
        with self._changed:
            self._queued.pop(entry, None)
            if others is None or entry not in self._entries:  # not written, or closed meanwhile
                self._forget(entry)
                return
            earlier = self._entries[: self._entries.index(entry)]
            replaced = [one for one in earlier if is_beginning(one.tokens, one.domain, entry)]
            for one in replaced:
                self._forget(one)
        removed = {one.name for one in replaced} - {entry.name}
        for name in removed:
            self._folder.remove(name)
        self._notice([item for item in others if item.path.name not in removed], entry)

    def _notice(self, items: Sequence[Item], written: DiskEntry | None = None) -> None:
        """Update the index to the files present besides the one just written: other processes may have added or removed
        some."""
        present = {item.path.name for item in items}
        with self._changed:
            for entry in self._entries:
                if entry is not written and entry not in self._queued and entry.name not in present:
                    self._forget(entry)
        self._adopt(items)

    def _write_file(self, entry: DiskEntry, saved: SavedConversation) -> list[Item] | None:
        """The other files there; None where it could not be written."""
        try:
            head, sections = encode(self.fingerprint, entry.tokens, saved, domain=entry.domain)
            return self._folder.store(entry.name, head, sections, lambda: self._stop)
        except WritingStopped:
            return None
        except (OSError, NoRoom, Busy, MemoryError) as error:
            self._say_once("write", f"conversations cannot be saved in {self._folder.path}: {error}")
            return None
