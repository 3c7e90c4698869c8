"""A conversation without its state, and finding it in its file. Knows nothing of threads."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localllm.kvdisk.file import DamagedFile, Extents, Foreign, SavedConversation, read_head, read_saved, read_tokens
from localllm.kvdisk.folder import Folder, Item
from localllm.kvdisk.prefix import common_prefix


class DiskEntry:
    """A conversation; compared by identity. Immutable."""

    def __init__(
        self,
        tokens: npt.NDArray[np.int32],
        num_bytes: int,
        positions: tuple[int, ...],
        domain: str = "",
        extents: Extents = (),
    ) -> None:
        """The tokens are copied."""
        self.tokens = np.array(tokens, np.int32)
        """int32 [length]; read-only."""
        self.tokens.flags.writeable = False
        self.num_bytes = num_bytes
        """Size of its state and checkpoints."""
        self.positions = positions
        """Positions of its checkpoints."""
        self.extents = extents
        self.domain = domain
        """Only requests of the same domain may use it."""
        digest = hashlib.blake2b(self.tokens.astype("<i4").tobytes(), digest_size=16, key=domain.encode("ascii"))
        self.name = f"{digest.hexdigest()}.kv"
        """Name of its file: the same in every process."""


class FolderContents(NamedTuple):
    """The contents of a folder."""

    entries: list[DiskEntry]
    ignored: list[str]
    """Names of files that are left alone."""
    complaints: list[str]


def find(folder: Folder, items: Sequence[Item], known: Collection[str] = ()) -> FolderContents:
    """Reads the heads and tokens of the files whose names are not known yet.

    Damaged files are removed, since a file gets its name only once it is complete. Files that are not ours are left
    alone until they are the oldest.
    """
    found = FolderContents([], [], [])
    for name in (item.path.name for item in items):
        if name in known:
            continue
        try:
            found.entries.append(_read_entry(folder, name))
        except FileNotFoundError:  # evicted by another process
            continue
        except DamagedFile as error:
            folder.remove(name)
            found.complaints.append(f"{name} is damaged and was removed: {error}")
        except (Foreign, OSError) as error:
            found.ignored.append(name)
            found.complaints.append(f"{name} is ignored: {error}")
    return found


def read(folder: Folder, entry: DiskEntry) -> SavedConversation:
    """All that was saved, every byte checked. Raises `DamagedFile`, `Foreign`, `OSError`, `MemoryError`."""
    with folder.open(entry.name) as file:
        head = read_head(file)
        is_same = head.fingerprint == folder.fingerprint and head.domain == entry.domain
        if not is_same or not np.array_equal(read_tokens(file, head), entry.tokens):
            raise Foreign("another conversation is in its place")
        return read_saved(file, head)


def is_beginning(tokens: npt.NDArray[np.int32], domain: str, of: DiskEntry) -> bool:
    """Whether these tokens are a prefix of the entry `of`, or all of it, in the same domain."""
    return domain == of.domain and common_prefix(tokens, of.tokens) == len(tokens)


def _read_entry(folder: Folder, name: str) -> DiskEntry:
    with folder.open(name) as file:
        head = read_head(file)
        if head.fingerprint != folder.fingerprint:
            raise Foreign("it belongs to another model or other settings")
        entry = DiskEntry(read_tokens(file, head), head.num_bytes, head.positions, head.domain, head.extents)
    if entry.name != name:
        raise Foreign("it was renamed")
    return entry
