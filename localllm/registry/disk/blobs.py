"""The blobs of the store: their state, and how one is added atomically.

A blob is either owned by the store and read-only, or a hard link to a file that another program may still change; a
note beside the link records the inode and its modification time. Knows nothing of models or networks.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from localllm.errors import InternalError
from localllm.registry.disk.files import disk_errors_are_clear
from localllm.registry.disk.layout import Layout, id_of
from localllm.registry.disk.locks import Hold, Locks
from localllm.registry.names.digest import Digest
from localllm.system import files
from localllm.system.files import flush, write_whole

READ_ONLY = 0o444
MISSING = "is not in the store"


class SharedNote(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a hard-linked blob when its digest was computed."""

    inode: int
    modified_ns: int
    path: str


class Blobs:
    """The blobs of one store."""

    def __init__(self, layout: Layout, locks: Locks) -> None:
        self._layout = layout
        self._locks = locks

    def fault(self, digest: Digest, size_bytes: int | None) -> str | None:
        """What is wrong with a blob, as a phrase, or None. Does not read its content."""
        try:
            found = os.lstat(self._layout.blob(digest))
        except FileNotFoundError:
            return MISSING
        if not stat.S_ISREG(found.st_mode):
            return "is not a regular file"
        if size_bytes is not None and found.st_size != size_bytes:
            return f"has {found.st_size:,} bytes and should have {size_bytes:,}"
        note = self._shared_note(digest, found)
        if note is not None and note.modified_ns != found.st_mtime_ns:
            return f"was changed through {note.path}, to which it is a hard link"
        return None

    def state(self, digest: Digest) -> os.stat_result | None:
        """Identifies the file currently at the blob's path, for `set_aside`."""
        return _stat_or_none(self._layout.blob(digest))

    def _shared_note(self, digest: Digest, found: os.stat_result) -> SharedNote | None:
        """The note of a hard link; None if the store owns the blob. A note on another inode is of an earlier blob."""
        try:
            note = msgspec.json.decode(self._layout.shared_note(digest).read_bytes(), type=SharedNote)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError:  # not written by us, so it says nothing about the blob
            note = SharedNote(inode=found.st_ino, modified_ns=-1, path="some file")
        return note if note.inode == found.st_ino else None

    def publish(self, partial: Path, digest: Digest, hold: Hold | None) -> Path:
        """Turns a complete partial into a blob atomically. An intact existing blob is kept."""
        _check_ordinary(partial)
        with disk_errors_are_clear(self._layout.root):
            make_writable_partial(partial)
            flush(partial)
        final = self._layout.blob(digest)
        with self._alone_at(digest), disk_errors_are_clear(self._layout.root):
            self.note_fetched(digest, hold)
            found = _stat_or_none(final)
            is_ours = found is not None and self._shared_note(digest, found) is None
            if is_ours and self.fault(digest, os.lstat(partial).st_size) is None:
                files.remove_file(partial)
                return final
            self._layout.blobs.mkdir(exist_ok=True)
            os.chmod(partial, READ_ONLY)
            files.replace_file(partial, final)
            files.sync_folder(self._layout.blobs)
            self._layout.shared_note(digest).unlink(missing_ok=True)
        return final

    def link(self, source: Path, expected: os.stat_result, digest: Digest, hold: Hold | None) -> None:
        """Adds a hard link to `source`, whose digest and state are known, as a blob. Raises `OSError`."""
        note = SharedNote(inode=expected.st_ino, modified_ns=expected.st_mtime_ns, path=str(source))
        temporary = self._layout.temporary(_place(digest))
        with self._alone_at(digest):
            self.note_fetched(digest, hold)
            self._layout.blobs.mkdir(exist_ok=True)
            temporary.unlink(missing_ok=True)
            os.link(os.path.realpath(source), temporary)
            if not os.path.samestat(os.lstat(temporary), expected):
                temporary.unlink()
                raise OSError(errno.ESTALE, "it was replaced by another file", str(source))
            write_whole(self._layout.shared_note(digest), msgspec.json.encode(note))
            files.replace_file(temporary, self._layout.blob(digest))
            files.sync_folder(self._layout.blobs)
            temporary.unlink(missing_ok=True)  # replacing a link to the same file is a no-op

    @contextlib.contextmanager
    def _alone_at(self, digest: Digest) -> Iterator[None]:
        """Locks out other writers of this blob and its note."""
        with self._locks.claim(id_of(_place(digest))), self._locks.gate(exclusive=False):
            yield

    def note_fetched(self, digest: Digest, hold: Hold | None) -> None:
        """Protects the blob from `gc` for a while, though no manifest needs it yet. The caller holds the gate."""
        if hold is not None:
            hold.add(digest)
        self._layout.partials.mkdir(exist_ok=True)
        note = self._layout.fetched_note(digest)
        os.close(files.open_plain(note, os.O_WRONLY | os.O_CREAT))
        os.utime(note)

    def forget_fetched(self, digest: Digest) -> None:
        """Deletes the blob's notes, since a manifest needs it now or it is gone."""
        self._layout.fetched_note(digest).unlink(missing_ok=True)
        self._layout.leaving_note(digest).unlink(missing_ok=True)

    def remove(self, digest: Digest) -> None:
        """Deletes the blob and then its note. The caller holds the gate exclusively."""
        files.remove_file(self._layout.blob(digest))
        self._layout.shared_note(digest).unlink(missing_ok=True)
        self.forget_fetched(digest)

    def set_aside(self, digest: Digest, examined: os.stat_result) -> bool:
        """Moves a damaged blob away, so that the next pull fetches it again. False if the file has been replaced.

        Raises `OSError` if it cannot be moved (on Windows: while it is loaded).
        """
        blob = self._layout.blob(digest)
        with self._alone_at(digest):
            found = _stat_or_none(blob)
            if found is None or not os.path.samestat(found, examined):
                return False
            files.replace_file(blob, self._layout.damaged(digest))
            files.sync_folder(self._layout.blobs)
            self._layout.shared_note(digest).unlink(missing_ok=True)
        return True

    def note_leaving(self, digest: Digest) -> None:
        """Marks the blob for deletion by the last process to unload it. The caller holds the gate exclusively."""
        self._layout.partials.mkdir(exist_ok=True)
        os.close(files.open_plain(self._layout.leaving_note(digest), os.O_WRONLY | os.O_CREAT))

    def leaves(self, digest: Digest) -> bool:
        """Whether the blob is marked for deletion once it is unloaded."""
        return self._layout.leaving_note(digest).exists()


def _place(digest: Digest) -> str:
    return f"place of {digest}"


def make_writable_partial(path: Path) -> None:
    """Prepares the path of a partial for writing.

    A link or special file is deleted, since writing to it would change a file elsewhere.
    """
    found = _stat_or_none(path)
    if found is None:
        return
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        path.unlink()
    elif not found.st_mode & stat.S_IWUSR:  # publishing was interrupted
        os.chmod(path, 0o644)


def _check_ordinary(path: Path) -> None:
    found = os.lstat(path)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise InternalError(f"{path} is a link or not a regular file, so it cannot become a blob")


def _stat_or_none(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None
