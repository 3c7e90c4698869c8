"""A partially downloaded file, and the note beside it that lists its valid bytes.

    ID.part         sparse, as long as the whole file
    ID.part.json    `Record`, replaced as a whole; ID.part.json.tmp while it is written

A byte is recorded only after it was written. Everything recorded since the machine booted survives a crash of the
process; only what was synced before it was recorded (`Record.synced`) survives a power failure. Knows nothing of where
the bytes come from, and does no locking between processes, which is the store's task.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import msgspec

from localllm.registry.disk.files import disk_errors_are_clear
from localllm.registry.fetch.ranges import Range, Ranges
from localllm.system import files, machine

VERSION = 1
MAX_RECORD_BYTES = 1024 * 1024
"""A valid record has a few hundred bytes."""


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known about a partial file."""

    version: int = VERSION
    size_bytes: int
    """Size of the complete file."""
    digest: str | None = None
    """Of the complete file, according to the source; a different one invalidates the record."""
    validator: str | None = None
    """ETag or Last-Modified, for If-Range."""
    ranges: tuple[Range, ...] = ()
    synced: tuple[Range, ...] = ()
    boot_id: str | None = None

    def good(self, boot_id: str | None) -> Ranges:
        """The ranges that are valid, given whether the machine has rebooted since."""
        return Ranges(self.ranges if boot_id is not None and boot_id == self.boot_id else self.synced)


def sidecar_of(partial: Path) -> Path:
    """The note's path."""
    return partial.with_name(f"{partial.name}.json")


def read_record(partial: Path) -> Record | None:
    """The note of a partial file; None if it is missing or unusable."""
    try:
        with open(sidecar_of(partial), "rb") as file:
            raw = file.read(MAX_RECORD_BYTES + 1)
        record = msgspec.json.decode(raw, type=Record)
        for start, end in (*record.ranges, *record.synced):
            if not 0 <= start < end <= record.size_bytes:
                return None
    except (FileNotFoundError, ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return None
    return record if record.version == VERSION else None


def good_ranges(partial: Path, record: Record) -> Ranges:
    """The valid bytes on disk."""
    try:
        size = os.lstat(partial).st_size
    except FileNotFoundError:
        return Ranges()
    return record.good(machine.boot_id()).within(size)


def discard(partial: Path) -> None:
    """Deletes a partial file and its note."""
    files.remove_file(sidecar_of(partial))
    files.remove_file(_temporary(partial))
    files.remove_file(partial)


class PartialFile:
    """An open partial file. Any thread may write and record."""

    def __init__(self, path: Path) -> None:
        """Opens or creates the file, never through a link."""
        self.path = path
        self._fd = files.open_plain(path, os.O_RDWR | os.O_CREAT)
        self._lock = threading.Lock()
        self._generation = 1
        self._boot_id = machine.boot_id()

    def close(self) -> None:
        """Ends writing and recording."""
        with self._lock:
            os.close(self._fd)
            self._fd = -1

    def write(self, data: bytes | memoryview, offset: int) -> None:
        """Raises `DiskFull`."""
        with disk_errors_are_clear(self.path.parent):
            files.write_at(self._fd, data, offset)

    def set_size(self, size_bytes: int) -> None:
        """Truncates the file, or extends it with a hole."""
        with disk_errors_are_clear(self.path.parent):
            os.ftruncate(self._fd, size_bytes)

    def forget(self, generation: int) -> None:
        """Invalidates everything, since a new generation of the content begins. Records of older generations are no
        longer written, so none can claim bytes that are about to be overwritten."""
        with self._lock:
            self._generation = generation
            files.remove_file(sidecar_of(self.path))

    def record(self, record: Record, generation: int) -> None:
        """Replaces the note: visible to other processes immediately, on disk some time later."""
        self._replace(record, generation, durable=False)

    def sync_and_record(self, record: Record, generation: int) -> None:
        """As `record`, after flushing the ranges to disk. May take seconds; `close` may be called meanwhile."""
        with self._lock:
            if self._fd < 0:
                return
            fd = os.dup(self._fd)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        self._replace(msgspec.structs.replace(record, synced=record.ranges), generation, durable=True)

    def _replace(self, record: Record, generation: int, *, durable: bool) -> None:
        raw = msgspec.json.encode(msgspec.structs.replace(record, boot_id=self._boot_id))
        temporary = _temporary(self.path)
        with self._lock, disk_errors_are_clear(self.path.parent):
            if generation != self._generation or self._fd < 0:
                return
            with open(temporary, "wb") as file:
                file.write(raw)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            files.replace_file(temporary, sidecar_of(self.path))


def _temporary(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.json.tmp")
