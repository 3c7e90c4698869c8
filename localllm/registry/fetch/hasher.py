"""Hashes a file while it is being written, close behind its front: when the last byte is there, so is nearly the hash.

It reads what was just written back from the page cache, because bytes arrive from many connections at once and mostly
out of order. Knows nothing of what writes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from localllm.registry.digest import Digest

HASH_BYTES = 1024 * 1024
"""Read and hashed at once: a few milliseconds without Python's lock."""


class Front(NamedTuple):
    """How far a file is."""

    generation: int
    """Another one when its content was begun anew."""
    end: int
    """[0, end) is written."""
    is_complete: bool


def follow(path: Path, look: Callable[[int], Front | None], wait: Callable[[], None]) -> tuple[Digest, int] | None:
    """The digest of the whole and the generation that it is of, when there is no more to come.

    `look` is told how far the hash is and says how far the file is, or None if nobody wants the digest any more, and
    then there is none; `wait` returns when there may be more.
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
                if num_bytes == 0:  # begun anew just now, or somebody else cuts our file
                    wait()
            elif front.is_complete:
                return Digest(digest.hexdigest()), generation
            else:
                wait()
    return None
