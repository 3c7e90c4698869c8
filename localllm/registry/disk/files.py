"""Files that are written atomically, hashed while they are read, or deleted after use. Knows nothing of the store."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from localllm.errors import DiskFull, InvalidParameter
from localllm.registry.names.digest import Digest
from localllm.registry.remote import Cancelled, OnBytes
from localllm.system.files import create, free_bytes

CHUNK_BYTES = 4 * 1024 * 1024
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def hash_file(fd: int, on_bytes: OnBytes | None, cancel: threading.Event | None) -> Digest:
    """The digest of an open file, up to its initial size. Raises `Cancelled`."""
    digest = hashlib.sha256()
    for chunk in _chunks(fd, on_bytes, cancel):
        digest.update(chunk)
    return Digest(digest.hexdigest())


def copy_file(fd: int, target: Path, on_bytes: OnBytes | None, cancel: threading.Event | None) -> Digest:
    """Copies an open file to a new one; returns the digest of what was written. Raises `Cancelled`."""
    digest = hashlib.sha256()
    with open(create(target), "wb") as file:
        for chunk in _chunks(fd, on_bytes, cancel):
            digest.update(chunk)
            file.write(chunk)
    return Digest(digest.hexdigest())


def _chunks(fd: int, on_bytes: OnBytes | None, cancel: threading.Event | None) -> Iterator[memoryview]:
    """Yields the content; each piece is valid until the next. Ends at the initial size, even if the file grows."""
    remaining, buffer = os.fstat(fd).st_size, memoryview(bytearray(CHUNK_BYTES))
    with open(fd, "rb", buffering=0, closefd=False) as file:
        file.seek(0)
        while num_bytes := file.readinto(buffer[: min(remaining, CHUNK_BYTES)]):
            yield buffer[:num_bytes]
            remaining -= num_bytes
            if on_bytes is not None:
                on_bytes(num_bytes)
            if cancel is not None and cancel.is_set():
                raise Cancelled("cancelled while reading a file")


@contextlib.contextmanager
def disk_errors_are_clear(root: Path) -> Iterator[None]:
    """Turns a full disk into `DiskFull`, and a store on two disks into `InvalidParameter`."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise InvalidParameter(
                f"the folders in {root} are on different disks, so files cannot be moved atomically; move the whole "
                "store to one disk with --home or LOCALLLM_HOME",
                param="home",
            ) from error
        if error.errno not in _NO_ROOM:
            raise
        free = free_bytes(root)
        raise DiskFull(
            f"the disk of {root} is full ({free:,} bytes are free); free some space, "
            "for example with localllm rm and localllm gc, or set --home or LOCALLLM_HOME to a larger disk",
            free_bytes=free,
        ) from error
