"""One file of a download: its state, its bytes on disk, and what has been reported and recorded.

`download` calls all of this under its lock. Knows nothing of threads or connections.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from localllm.errors import InvalidModelFile
from localllm.registry.fetch.pacing import PATIENCE_S, Backoff
from localllm.registry.fetch.partial import PartialFile, Record, discard, good_ranges, read_record
from localllm.registry.fetch.ranges import Ranges
from localllm.registry.fetch.transfer import Transfer
from localllm.registry.names.digest import Digest
from localllm.registry.remote import OnBytes, RemoteFile

RECORD_SHARE = 512
"""After a kill, at most this fraction of a file is fetched again, plus what was in flight."""
MIN_RECORD_BYTES, MAX_RECORD_BYTES = 32 * 1024, 16 * 1024 * 1024
"""Bytes between two notes, each of which takes about 0.1 ms."""
MAX_LAG_BYTES = 256 * 1024 * 1024
"""How far the hash may lag behind the received bytes. The front jumps by this much when eight chunks complete."""


class SyncWork(NamedTuple):
    """What to flush to disk, without holding the lock."""

    file: PartialFile
    record: Record
    generation: int

    def run(self) -> None:
        """May take seconds. Raises `OSError`."""
        self.file.sync_and_record(self.record, self.generation)


@dataclass(frozen=True)
class FileToFetch:
    """A file to fetch, and its partial file."""

    file: RemoteFile
    partial: Path
    on_bytes: OnBytes
    """First called with the bytes that an earlier download has left."""
    magic: bytes = b""
    """The first bytes of the content; the download is aborted and discarded if they differ."""


class Job:
    """A file being downloaded."""

    def __init__(
        self,
        wanted: FileToFetch,
        backoff: Backoff,
        patience_s: float = PATIENCE_S,
    ) -> None:
        path = wanted.partial
        record = read_record(path)
        good = Ranges() if record is None else good_ranges(path, record)
        self.wanted = wanted.file
        self.path = path
        self.on_bytes = wanted.on_bytes
        self.transfer = Transfer(wanted.file, record, good, backoff, patience_s)
        self.renewing = threading.Lock()
        """Held by the connection that renews the credential."""
        self.digest: Digest | None = None
        """Set once the file is complete and correct."""
        self.is_bad = False
        """Whether the file does not match its source."""
        self.room_bytes = 0
        """For a file of unknown size: bytes for which there is known to be disk space."""
        self.hashed = 0
        """[0, hashed) is in the hash."""
        self._first_lag = 0
        """Bytes left by an earlier download, which are hashed while the rest arrives."""
        self._partial: PartialFile | None = None
        self._generation = self.transfer.generation
        self._sized: tuple[int, int] | None = None
        self._reported = 0
        self._recorded = 0
        self._magic = wanted.magic
        self._looked_at = 0
        """The generation whose first bytes were checked."""

    @property
    def is_open(self) -> bool:
        return self._partial is not None

    @property
    def is_ahead(self) -> bool:
        """Whether the connections should let the hash catch up. Read without the lock: a hint."""
        return self.transfer.front.end - self.hashed > MAX_LAG_BYTES + self._first_lag

    @property
    def num_flights(self) -> int:
        return len(self.transfer.flights)

    @property
    def file(self) -> PartialFile:
        assert self._partial is not None, "the file is open as long as it has flights"
        return self._partial

    def open(self) -> None:
        """To be called before the first flight."""
        self._partial = PartialFile(self.path)
        self._recorded = self.transfer.present
        self._first_lag = self.transfer.front.end
        if not self._recorded:  # nothing is valid, so an old note must go
            self._partial.forget(self._generation)
        self.adjust_file()

    def close(self) -> None:
        """To be called after the last flight. Records the received bytes, or discards them if the file is bad."""
        if self._partial is None:
            return
        record = self.transfer.record()
        if record is not None and not self.is_bad:
            self._partial.record(record, self._generation)
        self._partial.close()
        self._partial = None
        if self.is_bad:
            discard(self.path)
            self.transfer.done = Ranges()

    def take_unreported(self) -> int:
        """Bytes received since the last call."""
        present = self.transfer.present
        more, self._reported = present - self._reported, present
        return more

    def adjust_file(self) -> None:
        """To be called after every decision, before anything is written. After a restart, forgets what was recorded of
        the old content; once the size is known, sets the file to its final length."""
        if self._generation != self.transfer.generation:
            self._generation = self.transfer.generation
            self._recorded = self._first_lag = self.hashed = 0
            self.file.forget(self._generation)
        size = self.transfer.size
        if size is not None and self._sized != (self._generation, size):
            self._sized = self._generation, size
            self.file.set_size(size)

    def check_magic(self) -> None:
        """Checks the first bytes once they have arrived. Raises `InvalidModelFile`, and then discards the file."""
        if not self._magic or self._looked_at == self.transfer.generation:
            return
        if self.transfer.front.end < len(self._magic):
            return
        with open(self.path, "rb") as file:
            found = file.read(len(self._magic))
        if found != self._magic:
            self.is_bad = True
            host = urlsplit(self.wanted.url).hostname
            raise InvalidModelFile(
                f"{self.wanted.file_name} from {host} is not a usable model: a GGUF file begins with "
                f"{self._magic!r}, this one with {found!r}"
            )
        self._looked_at = self.transfer.generation

    def record_if_due(self) -> Callable[[], None] | None:
        """If enough bytes have arrived, a function that records them, to be called without the lock."""
        step = min(max(MIN_RECORD_BYTES, (self.transfer.size or 0) // RECORD_SHARE), MAX_RECORD_BYTES)
        present = self.transfer.present
        if present - self._recorded < step:
            return None
        self._recorded = present
        record, generation, file = self.transfer.record(), self._generation, self.file
        return None if record is None else lambda: file.record(record, generation)

    def sync_work(self) -> SyncWork | None:
        """What to flush to disk, if anything."""
        record = self.transfer.record()
        if self._partial is None or record is None or record.ranges == record.synced:
            return None
        return SyncWork(self._partial, record, self._generation)

    def synced(self, work: SyncWork) -> None:
        """Notes that `work` is done."""
        if work.generation == self._generation:
            self.transfer.synced = work.record.ranges
