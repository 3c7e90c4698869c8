"""Hashes a file while it is being written, close behind the front, so that the hash is ready soon after the last byte.

Reads the bytes back from the page cache, because several connections deliver them out of order. Knows nothing of the
writers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from localllm.registry.names.digest import Digest

HASH_BYTES = 1024 * 1024
"""Read and hashed per step, which takes about a millisecond and releases the GIL."""


class Front(NamedTuple):
    """How far a file has been written."""

    generation: int
    """Increases when the download restarts from the first byte."""
    end: int
    """[0, end) is written."""
    is_complete: bool


def follow(path: Path, look: Callable[[int], Front | None], wait: Callable[[], None]) -> tuple[Digest, int] | None:
    """The digest of the complete file, and its generation.

    `look` receives the number of hashed bytes and returns the current front, or None to stop, which makes the result
    None. `wait` returns when there may be more.
    """
    buffer = memoryview(bytearray(HASH_BYTES))
    digest, hashed, generation = hashlib.sha256(), 0, 0
    with open(path, "rb", buffering=0) as file:
        while (front := look(hashed)) is not None:
            if front.generation != generation:
                digest, hashed, generation = hashlib.sha256(), 0, front.generation
                file.seek(0)
            if hashed < front.end:
                num_bytes = file.readinto(buffer[: min(HASH_BYTES, front.end - hashed)])
                digest.update(buffer[:num_bytes])
                hashed += num_bytes
                if num_bytes == 0:  # just restarted, or another program truncated the file
                    wait()
            elif front.is_complete:
                return Digest(digest.hexdigest()), generation
            else:
                wait()
    return None
