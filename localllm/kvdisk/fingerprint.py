"""One hash of everything a saved KV state depends on: a state is restored only under an equal fingerprint.

llama.cpp trusts a state: a wrong one gives wrong text at best and a crash at worst. Knows nothing of how the parts are
determined, except for hashing files.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path

import msgspec

from localllm.system import files

FORMAT = 1
"""Format of the files; another format is another fingerprint."""
FOLDER_DIGITS = 32
"""Digits of a fingerprint's 64 that its folder's name has."""
HEAD_BYTES = 1024 * 1024
TAIL_BYTES = 64 * 1024
_BLOB = re.compile(r"sha256-([0-9a-f]{64})", re.ASCII)
_WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """All that must be equal. Every field is required, so that none is forgotten."""

    model: str
    """The model's content: `file_identity` of each of its files, separated by spaces. Never a path or a name."""
    adapters: tuple[tuple[str, float], ...]
    """Content (as for `model`) and strength of each adapter, in the order in which they are applied."""
    kv_types: tuple[str, str]
    """Types of keys and values: `f16`, `q8_0` ..."""
    layout: str
    """`partitioned` or `unified`."""
    slots: int
    """A state loads only into a context with the same number of streams."""
    slot_capacity: int
    """Tokens."""
    flash_attention: str
    """`on`, `off` or what was chosen: without it values are stored transposed."""
    library_version: str
    library_hash: str
    """Of the contents of the loaded libraries: different builds may have the same version."""
    other: dict[str, str] = {}
    """Any other setting that changes keys and values, for example RoPE scaling."""


def fingerprint(parts: Parts) -> str:
    """64 hexadecimal digits."""
    return hashlib.sha256(msgspec.json.encode((FORMAT, parts), order="deterministic")).hexdigest()


def file_identity(path: Path) -> str:
    """Identifies a file's content without reading all of it: size, hash of its start and end, and the SHA-256 that a
    store of models has named it by, else its modification time.

    So a model that was pulled has the same identity on every machine. Does not notice a change in the middle of a file
    whose time was set back. Raises `OSError`.
    """
    path = path.resolve()
    with open(files.open_plain(path, os.O_RDONLY), "rb") as file:
        status = os.fstat(file.fileno())
        digest = hashlib.sha256(file.read(HEAD_BYTES))
        file.seek(max(0, status.st_size - TAIL_BYTES))
        digest.update(file.read(TAIL_BYTES))
    named = _named_by_content(path, status)
    known = f"file:{status.st_size}:{status.st_mtime_ns}" if named is None else f"{named}:{status.st_size}"
    return f"{known}:{digest.hexdigest()}"


def _named_by_content(path: Path, status: os.stat_result) -> str | None:
    """The digest in the name of a blob that nobody may write to. One that shares its content with a file of another
    program, which could still change it, has a note beside it."""
    found = _BLOB.fullmatch(path.name)
    if found is None or path.parent.name != "blobs" or status.st_mode & _WRITABLE:
        return None
    return None if path.with_name(f"{path.name}.shared").exists() else f"sha256:{found[1]}"
