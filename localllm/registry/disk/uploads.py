"""An upload that arrives in pieces, is hashed on the way, and is kept if its digest matches the announced one.

Knows nothing of HTTP.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

from localllm.errors import InvalidParameter
from localllm.registry.disk.files import disk_errors_are_clear
from localllm.registry.names.digest import Digest
from localllm.system.files import create


class Upload:
    """An upload in progress. Methods may be called from any thread; call `close` before the path is reused."""

    def __init__(self, path: Path, root: Path, publish: Callable[[Path, Digest], object]) -> None:
        """`path` must not be used elsewhere; `root`, the store's, is for error messages."""
        self._path = path
        self._root = root
        self._publish = publish
        self._hash = hashlib.sha256()
        self._fd = create(path)
        self._lock = threading.Lock()  # a write of a cancelled caller may still be running at `close`

    def write(self, piece: bytes | bytearray) -> None:
        """Raises `DiskFull`."""
        with self._lock:
            self._hash.update(piece)
            view = memoryview(piece)
            with disk_errors_are_clear(self._root):
                while view:
                    view = view[os.write(self._fd, view) :]

    def finish(self, expected: Digest) -> None:
        """Publishes the blob; `gc` keeps it for some days. Raises `InvalidParameter` if the digest does not match."""
        found = Digest(self._hash.hexdigest())
        if found != expected:
            raise InvalidParameter(f'digest mismatch, expected "{expected}", got "{found}"', param="digest")
        self.close()
        self._publish(self._path, found)

    def close(self) -> None:
        """Idempotent."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
