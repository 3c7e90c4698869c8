"""Adds local files to the store: as a clone, a hard link, a copy, or by reference.

Knows nothing of where models come from.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from localllm.errors import InvalidModelFile, InvalidParameter, LoadFailed, ModelNotFound
from localllm.registry.disk.blobs import Blobs
from localllm.registry.disk.files import copy_file, disk_errors_are_clear, hash_file
from localllm.registry.disk.layout import Layout, id_of
from localllm.registry.disk.locks import Hold, Locks
from localllm.registry.manifest import Role, StoredFile
from localllm.registry.names.digest import Digest
from localllm.registry.remote import OnBytes
from localllm.system import files
from localllm.system.files import create

How = Literal["reference", "hardlink", "reflink", "copy", "auto"]
"""`auto`: a clone if the file system supports it, else a hard link on the same file system, else a reference."""
MAX_FILE_NAME_CHARS = 255
GONE = "no longer exists"
_FORBIDDEN_CHARS = re.compile(r'[/\\:*?"<>|\x00-\x1f]')


class Source(NamedTuple):
    """An open file to add."""

    path: Path
    fd: int
    state: os.stat_result
    """As of opening."""

    def check_unchanged(self) -> None:
        """Raises `LoadFailed` if the file was modified after it was opened."""
        now = os.fstat(self.fd)
        if (now.st_size, now.st_mtime_ns) != (self.state.st_size, self.state.st_mtime_ns):
            raise LoadFailed(f"{self.path} changed while it was being read; try again once it is complete")


class Request(NamedTuple):
    """A request to add a file."""

    how: How
    hold: Hold | None
    on_bytes: OnBytes | None
    cancel: threading.Event | None


class Intake:
    """Adds local files to one store."""

    def __init__(self, layout: Layout, locks: Locks, blobs: Blobs) -> None:
        self._layout = layout
        self._locks = locks
        self._blobs = blobs
        self._ways: dict[str, Callable[[Source, Digest, Hold | None], None]] = {
            "reflink": self._clone,
            "hardlink": self._link,
        }

    def add_bytes(self, data: bytes, *, file_name: str, role: Role, hold: Hold | None) -> StoredFile:
        """Adds content held in memory."""
        digest = Digest(hashlib.sha256(data).hexdigest())
        if not self._have(digest, len(data), hold):
            with self.temporary(f"bytes:{digest}") as temporary:
                with disk_errors_are_clear(self._layout.root), open(create(temporary), "wb") as file:
                    file.write(data)
                self._blobs.publish(temporary, digest, hold)
        return StoredFile(role=role, file_name=file_name, size_bytes=len(data), digest=digest)

    def add_file(
        self, path: Path, *, digest: Digest | None, hashed: bool, role: Role, file_name: str | None, request: Request
    ) -> StoredFile:
        """Raises `ModelNotFound`, `InvalidParameter`, `LoadFailed`, `DiskFull`, `Cancelled`."""
        with _opened(Path(os.path.abspath(path))) as source:
            if request.how == "copy":
                stored = self._copy(source, digest, request)
            else:
                stored = self._take(source, digest, hashed, request)
        name = file_name or _FORBIDDEN_CHARS.sub("_", source.path.name)[-MAX_FILE_NAME_CHARS:]
        return StoredFile(
            role=role,
            file_name=name,
            size_bytes=source.state.st_size,
            digest=stored[0],
            path=stored[1],
            modified_ns=None if stored[1] is None else source.state.st_mtime_ns,
        )

    def _copy(self, source: Source, expected: Digest | None, request: Request) -> tuple[Digest, str | None]:
        if expected is not None and self._have(expected, source.state.st_size, request.hold):
            return expected, None
        with self.temporary(f"copy:{source.path}") as temporary:
            with disk_errors_are_clear(self._layout.root):
                digest = copy_file(source.fd, temporary, request.on_bytes, request.cancel)
            source.check_unchanged()
            _check_digest(source, digest, expected)
            self._blobs.publish(temporary, digest, request.hold)
        return digest, None

    def _take(
        self, source: Source, expected: Digest | None, hashed: bool, request: Request
    ) -> tuple[Digest, str | None]:
        """The digest, and the path if the file is only referenced."""
        digest = expected if hashed else None
        if digest is None:
            digest = hash_file(source.fd, request.on_bytes, request.cancel)
            source.check_unchanged()
            _check_digest(source, digest, expected)
        if self._have(digest, source.state.st_size, request.hold):
            return digest, None
        for how in ("reflink", "hardlink") if request.how == "auto" else (request.how,):
            if how == "reference":
                break
            try:
                self._ways[how](source, digest, request.hold)
            except OSError as error:
                if request.how != "auto":
                    raise InvalidParameter(
                        f"{source.path} cannot be added to {self._layout.blobs} as a {how}: {error.strerror}; "
                        "add it by reference or as a copy",
                        param="how",
                    ) from error
            else:
                return digest, None
        return digest, str(source.path)

    def _clone(self, source: Source, digest: Digest, hold: Hold | None) -> None:
        with self.temporary(f"clone:{source.path}") as temporary:
            files.remove_file(temporary)
            files.clone_file(source.fd, temporary)
            source.check_unchanged()
            self._blobs.publish(temporary, digest, hold)

    def _link(self, source: Source, digest: Digest, hold: Hold | None) -> None:
        self._blobs.link(source.path, source.state, digest, hold)

    def _have(self, digest: Digest, size_bytes: int, hold: Hold | None) -> bool:
        if self._blobs.fault(digest, size_bytes) is not None:
            return False
        with self._locks.gate(exclusive=False):  # `gc` may have deleted it in between
            if self._blobs.fault(digest, size_bytes) is not None:
                return False
            self._blobs.note_fetched(digest, hold)
            return True

    @contextlib.contextmanager
    def temporary(self, key: str) -> Iterator[Path]:
        """A private path; whatever is there at the end is deleted."""
        with self._locks.claim(id_of(key)):
            path = self._layout.temporary(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                yield path
            finally:
                files.remove_file(path)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Source]:
    """Opens the file, following links since it belongs to another program; never blocks on a pipe (CVE-2024-39721)."""
    try:
        fd = files.open_plain(Path(os.path.realpath(path)), os.O_RDONLY)
    except FileNotFoundError as error:
        raise ModelNotFound(f"there is no file {path}", param="path") from error
    except OSError as error:
        raise InvalidParameter(f"{path} cannot be read: {error.strerror}", param="path") from error
    try:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode):
            raise InvalidParameter(f"{path} is not a regular file", param="path")
        yield Source(path, fd, state)
    finally:
        os.close(fd)


def _check_digest(source: Source, found: Digest, expected: Digest | None) -> None:
    if expected is not None and found != expected:
        raise InvalidModelFile(
            f"{source.path} is damaged: its sha256 is {found.hex} instead of {expected.hex}; download it again",
            path=str(source.path),
        )


def fault_of_reference(path: Path, size_bytes: int, modified_ns: int | None) -> str | None:
    """What is wrong with a referenced file, as a phrase, or None."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return GONE
    except OSError as error:
        return f"cannot be read ({(error.strerror or errno.errorcode.get(error.errno or 0, '?')).lower()})"
    if not stat.S_ISREG(found.st_mode):
        return "is no longer a regular file"
    if found.st_size != size_bytes or (modified_ns is not None and found.st_mtime_ns != modified_ns):
        return "was changed since it was added"
    return None
