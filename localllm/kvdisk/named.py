"""Contents of slots that clients save under names of their choice: never evicted, replaced only under the same name.

They share one bound with the conversations (`folder`): named ones take precedence, conversations make room for them.
While one is replaced, old and new exist side by side for a moment. Errors are those of `localllm.errors`, without
paths, because a client sees them. Knows nothing of slots or of what a state means.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from io import FileIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localllm.errors import DiskFull, InternalError, InvalidParameter, LocalLLMError, SlotNotFound, Unavailable
from localllm.kvdisk.file import DamagedFile, Foreign, SavedConversation, encode, read_head, read_saved, read_tokens
from localllm.kvdisk.fingerprint import FOLDER_DIGITS, Parts, fingerprint
from localllm.kvdisk.folder import (
    TEMPORARY,
    About,
    Busy,
    Item,
    NoRoom,
    all_items,
    folders,
    gate,
    introduce,
    is_folder,
    make_folder,
    new_temporary,
    open_file,
    publish,
    remove_items,
    remove_leftover,
    room_on_disk,
    to_remove,
)
from localllm.system.windows_names import is_device

FOLDER = "slots"
"""In the data directory."""
MAX_NAME_CHARS = 64
SUFFIX = ".kv"
_NAME = re.compile(rf"[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{MAX_NAME_CHARS - 1}}}", re.ASCII)
_FULL = (errno.ENOSPC, errno.EDQUOT)


class NamedEntry(NamedTuple):
    """What was saved under a name."""

    tokens: npt.NDArray[np.int32]
    saved: SavedConversation
    size_bytes: int
    """Size of its file."""
    domain: str
    """The domain of the slot it came from."""


class NamedStates:
    """Those of one fingerprint; used by one thread. Creates nothing before the first `write`."""

    def __init__(self, root: Path, conversations: Path, *, model: str, parts: Parts, max_bytes: int) -> None:
        """`root` and `conversations` are `slots` and `kv` in the data directory; `max_bytes` bounds both together."""
        self.root = root
        self.fingerprint = fingerprint(parts)
        self.path = root / self.fingerprint[:FOLDER_DIGITS]
        self._conversations = conversations
        self._max_bytes = max_bytes
        self._about = About(model=model, parts=parts, created_unix_s=int(time.time()))

    def check(self, name: str) -> None:
        """Check a name before there is anything to write. Raises `InvalidParameter` for an invalid one."""
        _file_name(name)

    def write(self, name: str, tokens: npt.NDArray[np.int32], saved: SavedConversation, domain: str = "") -> int:
        """Save it under `name`, replacing what has that name; `tokens` is not empty. Returns the file's size in bytes.

        Raises `InvalidParameter` for an invalid name, `DiskFull`, `Unavailable`, `InternalError`.
        """
        path = self.path / _file_name(name)
        head, sections = encode(self.fingerprint, tokens, saved, domain=domain)
        size_bytes = len(head) + sum(map(len, sections))
        try:
            make_folder(self.root)
            with gate(self._conversations):
                self._make_room(path, size_bytes)
                introduce(self.path, self._about)
                temporary, fd = new_temporary(self.path, size_bytes)
            publish(self._conversations, temporary, fd, path, (memoryview(head), *sections), lambda: False)
        except NoRoom as error:
            reason = f"{error}; --kv-disk-mb raises the limit, localllm kv clear makes room"
            raise DiskFull(f"the slot is not saved: {reason}", needed_bytes=size_bytes) from error
        except Busy as error:
            raise Unavailable(
                "the slot is not saved: other processes hold the lock on saved slots; try again"
            ) from error
        except OSError as error:
            raise _as_ours(error, "the slot is not saved", size_bytes) from error
        return size_bytes

    def read(self, name: str) -> NamedEntry:
        """All of it, every byte checked.

        Raises `InvalidParameter` for an invalid name and for a file that is damaged or not ours, `SlotNotFound`,
        `InternalError`.
        """
        file_name = _file_name(name)
        try:
            if not is_folder(self.path):
                raise FileNotFoundError
            with open_file(self.path / file_name) as file:
                return self._read(file)
        except FileNotFoundError:
            others = any((folder / file_name).is_file() for folder in folders(self.root))
            why = (
                "a slot of that name belongs to another model or was saved with other settings"
                if others
                else "save it first"
            )
            raise SlotNotFound(f"no slot of this model is saved as {name!r}; {why}", param="filename") from None
        except DamagedFile as error:
            raise InvalidParameter(
                f"the slot saved as {name!r} is damaged ({error}); save it again", param="filename"
            ) from error
        except Foreign as error:
            raise InvalidParameter(f"what is saved as {name!r} cannot be used: {error}", param="filename") from error
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EINVAL, errno.ENXIO):
                raise InvalidParameter(f"what is saved as {name!r} is not a regular file", param="filename") from error
            raise _as_ours(error, f"the slot saved as {name!r} cannot be read", 0) from error

    def _read(self, file: FileIO) -> NamedEntry:
        head = read_head(file)
        if head.fingerprint != self.fingerprint:
            raise Foreign("it belongs to another model or was saved with other settings")
        return NamedEntry(read_tokens(file, head), read_saved(file, head), os.fstat(file.fileno()).st_size, head.domain)

    def _make_room(self, path: Path, size_bytes: int) -> None:
        """For a file about to be written. The caller holds the gate. Raises `NoRoom`, `OSError`."""
        named = [item for item in named_items(self.root) if not (item.is_temporary and remove_leftover(item))]
        conversations = [
            item for item in all_items(self._conversations) if not (item.is_temporary and remove_leftover(item))
        ]
        used_bytes = sum(item.size_bytes for item in (*named, *conversations))
        max_bytes = min(self._max_bytes, used_bytes + room_on_disk(self.root))
        kept_bytes = sum(item.size_bytes for item in named if item.path != path)
        remove_items(to_remove(conversations, size_bytes, max_bytes - kept_bytes))


def named_items(root: Path) -> list[Item]:
    """Files of all fingerprints, including those being written. Raises `OSError`."""
    return [item for folder in folders(root) for item in named_items_in(folder)]


def named_items_in(folder: Path) -> list[Item]:
    """Files of one fingerprint. Raises `OSError`, but not for those that vanish meanwhile."""
    items = []
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            is_named = entry.name.endswith(SUFFIX) and bool(_NAME.fullmatch(entry.name.removesuffix(SUFFIX)))
            with contextlib.suppress(FileNotFoundError):
                if (is_named or entry.name.startswith(TEMPORARY)) and entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    items.append(Item(folder / entry.name, status.st_size, status.st_mtime_ns, not is_named))
    return items


def named_bytes(root: Path) -> int:
    """Bytes that all of them occupy together. Raises `OSError`."""
    return sum(item.size_bytes for item in named_items(root))


def _file_name(name: str) -> str:
    """Raises `InvalidParameter` for an invalid name."""
    if not _NAME.fullmatch(name):
        raise InvalidParameter(
            f"filename must have 1 to {MAX_NAME_CHARS} letters, digits and . _ - and not begin with a dot",
            param="filename",
        )
    if is_device(name):
        raise InvalidParameter(f"filename {name!r} is the name of a device on Windows; take another", param="filename")
    return name + SUFFIX


def _as_ours(error: OSError, what: str, size_bytes: int) -> LocalLLMError:
    if error.errno in _FULL:
        return DiskFull(f"{what}: the disk is full", needed_bytes=size_bytes)
    return InternalError(f"{what}: {error.strerror or 'the system gives no reason'}", reason=str(error)[:500])
