"""What a saved KV state depends on, in one hash: a state is given back under an equal fingerprint only.

llama.cpp believes a state: a wrong one is wrong text at best and a crash at worst. Knows nothing of how the parts are
found out, but for hashing files.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from localllm import osdep

FORMAT = 1
"""Of what is in the files; another one is another fingerprint."""
FOLDER_DIGITS = 32
"""Of a fingerprint's 64, in the name of its folder."""
HEAD_BYTES = 1024 * 1024
TAIL_BYTES = 64 * 1024
READ_BYTES = 1024 * 1024


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """All that must be equal. Every field has to be given, so that none is forgotten."""

    model: str
    """Its content: `sha256:` and digits where the store knows them, else `file_identity`; one for each of its files,
    with spaces between. Never a path or a name."""
    adapters: tuple[tuple[str, float], ...]
    """Each one's content, in the same way, and its strength, in the order in which they are applied."""
    kv_types: tuple[str, str]
    """Of keys and of values: `f16`, `q8_0` ..."""
    layout: str
    """`partitioned` or `unified`."""
    slots: int
    """A state loads only into a context with as many streams."""
    slot_capacity: int
    """Tokens."""
    flash_attention: str
    """`on`, `off` or what was chosen: values are transposed without it."""
    library_version: str
    library_hash: str
    """`hash_files` of the libraries that were loaded: their version is the same for different builds."""
    other: dict[str, str] = {}
    """Whatever else was set that changes keys and values: rope scaling, for example."""


def fingerprint(parts: Parts) -> str:
    """64 hexadecimal digits."""
    return hashlib.sha256(msgspec.json.encode((FORMAT, parts), order="deterministic")).hexdigest()


def file_identity(path: Path) -> str:
    """Stands for a file's content without reading all of it: size, time of change, hash of its head and its end.

    Somebody who changes the middle of a file and sets its time back is not noticed. Raises `OSError`.
    """
    with open(osdep.open_plain(path.resolve(), os.O_RDONLY), "rb") as file:
        status = os.fstat(file.fileno())
        digest = hashlib.sha256(file.read(HEAD_BYTES))
        file.seek(max(0, status.st_size - TAIL_BYTES))
        digest.update(file.read(TAIL_BYTES))
    return f"file:{status.st_size}:{status.st_mtime_ns}:{digest.hexdigest()}"


def hash_files(paths: Iterable[Path]) -> str:
    """One hash for the names and contents of several files, in any order: 64 digits. Raises `OSError`.

    0.6 s for each GB, so for libraries, not for models.
    """
    digest = hashlib.blake2b(digest_size=32)
    for path in sorted(set(paths), key=lambda path: (path.name, str(path))):
        one = hashlib.blake2b(digest_size=32)
        with path.open("rb") as file:
            while chunk := file.read(READ_BYTES):
                one.update(chunk)
        digest.update(path.name.encode("utf-8", "surrogateescape") + b"\0" + one.digest())
    return digest.hexdigest()
