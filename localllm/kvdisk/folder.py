"""The folder of all saved conversations, which several processes share: bounded, and without a half-written file.

A file is written under a temporary name, flushed, and then renamed. Who writes holds a lock on it, so what is not
locked was left by somebody who died. Room is made under one lock for all (`.gate`), and a new file takes its room
at once: the bound holds whoever else writes. Only what is named as we name things is counted, deleted or read; no
symbolic link is followed but the folder's own. Knows nothing of what is in the files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from localllm import osdep
from localllm.kvdisk.file import CHUNK_BYTES, chunks
from localllm.kvdisk.fingerprint import FOLDER_DIGITS, Parts, fingerprint

FOLDER = "kv"
"""In the data directory."""
MIN_FREE_BYTES = 1024**3
"""Of the disk, that are left to others."""
MAX_CONVERSATIONS = 512
"""Of one fingerprint: a prompt is compared with each of them."""
MAX_ABOUT_BYTES = 1024 * 1024
GATE_TIMEOUT_S = 10.0
"""Others have the gate for as long as it takes to look at all files and to unlink some."""
PAUSE_S = 0.005
LEFTOVER_S = 3600.0
"""A temporary file so old was left behind, where the file system has no locks to tell."""
ABOUT = "about.json"
GATE = ".gate"
TEMPORARY = "tmp-"
_FOLDER = re.compile(rf"[0-9a-f]{{{FOLDER_DIGITS}}}", re.ASCII)
_FILE = re.compile(r"[0-9a-f]{32}\.kv", re.ASCII)
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class NoRoom(Exception):
    """Something does not fit, whatever else goes."""


class Busy(Exception):
    """Others have kept the gate for too long."""


class Stopped(Exception):
    """Asked to, in the middle of writing."""


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a fingerprint stands for, as `about.json` says it to people."""

    model: str
    created_unix_s: int
    parts: Any = None
    """Whatever an earlier or later version thought of."""


class Item(NamedTuple):
    """A conversation's file, or (`is_temporary`) one in the making."""

    path: Path
    size_bytes: int
    used_ns: int
    is_temporary: bool = False


class Folder:
    """One fingerprint's part of the folder; used by any thread. Creates nothing before the first `store`."""

    def __init__(
        self, root: Path, *, model: str, parts: Parts, max_bytes: int, beside_bytes: Callable[[], int] = lambda: 0
    ) -> None:
        """`beside_bytes`: what else counts against `max_bytes`, and is not ours to remove; it may raise `OSError`."""
        self.root = root
        self._beside_bytes = beside_bytes
        self.fingerprint = fingerprint(parts)
        self.path = root / self.fingerprint[:FOLDER_DIGITS]
        self._about = About(model=model, parts=parts, created_unix_s=int(time.time()))
        self._max_bytes = max_bytes

    def items(self) -> list[Item]:
        """Those of this fingerprint, oldest first. Raises `OSError`."""
        found = [item for item in items_in(self.path) if not item.is_temporary] if is_folder(self.path) else []
        return sorted(found, key=lambda item: item.used_ns)

    def open(self, name: str) -> FileIO:
        """For reading. Raises `OSError`, for a link or a pipe too."""
        if not is_folder(self.path):
            raise FileNotFoundError(errno.ENOENT, "no folder", str(self.path))
        return open_file(self.path / name)

    def touch(self, name: str) -> bool:
        """It was used just now. False: it is gone."""
        now_ns = time.time_ns()
        try:
            os.utime(self.path / name, ns=(now_ns, now_ns))
        except FileNotFoundError:
            return False
        except OSError:  # a folder that cannot be written to: the order is not kept
            return True
        return True

    def remove(self, name: str) -> None:
        """It may be gone, or be kept for now by somebody who reads it (on Windows)."""
        with contextlib.suppress(OSError):
            osdep.remove_file(self.path / name)

    def store(self, name: str, head: bytes, sections: Sequence[memoryview], stopping: Callable[[], bool]) -> list[Item]:
        """Write a file, in the place of one of that name. Returns what this fingerprint has besides.

        Raises `OSError`, `NoRoom`, `Busy`, and `Stopped` when `stopping` says so; then nothing is left of it.
        """
        size_bytes = len(head) + sum(map(len, sections))
        with gate(self.root):
            others = self._make_room(size_bytes, name)
            introduce(self.path, self._about)
            temporary, fd = new_temporary(self.path, size_bytes)
        publish(self.root, temporary, fd, self.path / name, (memoryview(head), *sections), stopping)
        return [item for item in others if item.path.name != name]

    def tidy(self) -> list[Item]:
        """Remove what dead writers left, and what is too much. Returns what this fingerprint has.

        Raises `OSError`, `NoRoom`, `Busy`.
        """
        if not self.root.exists():
            return []
        with gate(self.root):
            return self._make_room(0, "")

    def _make_room(self, size_bytes: int, name: str) -> list[Item]:
        """For a file of that name, or for none. Returns those of this fingerprint that are left besides."""
        items = [item for item in all_items(self.root) if not (item.is_temporary and remove_leftover(item))]
        used_bytes = sum(item.size_bytes for item in items)
        max_bytes = min(self._max_bytes - self._beside_bytes(), used_bytes + room_on_disk(self.root))
        leaving = to_remove(items, size_bytes, max(0, max_bytes))
        gone = {item.path for item in leaving}
        own = [item for item in items if item.path.parent == self.path and not item.is_temporary]
        others = sorted(
            (item for item in own if item.path.name != name and item.path not in gone), key=lambda item: item.used_ns
        )
        too_many = max(0, len(others) + bool(name) - MAX_CONVERSATIONS)
        remove_items([*leaving, *others[:too_many]], keep=self.path)
        return others[too_many:]


def room_on_disk(root: Path) -> int:
    """Bytes that we may still take; negative if others have less than they should. Raises `OSError`."""
    return shutil.disk_usage(root).free - MIN_FREE_BYTES


def introduce(path: Path, about: About) -> None:
    """Make a fingerprint's folder, and say in it what it is for, unless there is one. Raises `OSError`."""
    make_folder(path)
    if not is_folder(path):
        raise NotADirectoryError(errno.ENOTDIR, "not a folder, or a link to one", str(path))
    if (path / ABOUT).exists():
        return
    temporary, fd = new_temporary(path, 0)
    with open(fd, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(about)) + b"\n")
    osdep.replace_file(temporary, path / ABOUT)


def new_temporary(folder: Path, size_bytes: int) -> tuple[Path, int]:
    """A new locked file that takes its room at once, in the eyes of all that count. Raises `OSError`."""
    path = folder / f"{TEMPORARY}{secrets.token_hex(8)}"
    fd = osdep.open_plain(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        _try_lock(fd)
        os.truncate(fd, size_bytes)
    except OSError:
        os.close(fd)
        osdep.remove_file(path)
        raise
    return path, fd


def publish(
    root: Path, temporary: Path, fd: int, path: Path, parts: Sequence[memoryview], stopping: Callable[[], bool]
) -> None:
    """Write all of a temporary file, and give it its name. `root`: whose gate it is.

    Raises `OSError`, `Busy`, and `Stopped` when `stopping` says so; then nothing is left of it.
    """
    try:
        with contextlib.ExitStack() as stack:
            with open(fd, "wb", buffering=0) as file:
                for part in parts:
                    _write(file, part, stopping)
                os.fsync(fd)
                stack.enter_context(gate(root))  # unlocked as it is now, it must not be taken for a leftover
            now_ns = time.time_ns()  # the file system's own clock is coarser than that
            os.utime(temporary, ns=(now_ns, now_ns))
            osdep.replace_file(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            osdep.remove_file(temporary)
        raise
    osdep.sync_folder(path.parent)


def to_remove(items: Sequence[Item], size_bytes: int, max_bytes: int) -> list[Item]:
    """Which conversations have to go for a new one of that size: those that were used longest ago.

    Raises `NoRoom` where all of them would not be enough.
    """
    total_bytes = sum(item.size_bytes for item in items) + size_bytes
    leaving = []
    for item in sorted(items, key=lambda item: (item.used_ns, item.path.name)):
        if total_bytes <= max_bytes:
            break
        if not item.is_temporary:
            leaving.append(item)
            total_bytes -= item.size_bytes
    if total_bytes > max_bytes:
        raise NoRoom(
            f"{size_bytes:,} bytes do not fit into the {max(0, max_bytes):,} that may be used "
            f"({MIN_FREE_BYTES:,} bytes of the disk are left to others)"
        )
    return leaving


def all_items(root: Path) -> list[Item]:
    """Of all fingerprints. What vanishes meanwhile is left out. Raises `OSError`."""
    return [item for folder in folders(root) for item in items_in(folder)]


def folders(root: Path) -> list[Path]:
    """Of all fingerprints. Raises `OSError`, but not where there is nothing."""
    try:
        with os.scandir(root) as entries:
            names = [entry.name for entry in entries if _FOLDER.fullmatch(entry.name)]
    except FileNotFoundError:
        return []
    return [root / name for name in sorted(names) if is_folder(root / name)]


def is_folder(path: Path) -> bool:
    """And not a link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def open_file(path: Path) -> FileIO:
    """For reading, unbuffered. Raises `OSError`, for a link or a pipe too."""
    fd = osdep.open_plain(path, os.O_RDONLY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not an ordinary file", str(path))
    return open(fd, "rb", buffering=0)


def make_folder(path: Path) -> None:
    """One that only its owner enters, if there is none. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)


def read_about(folder: Path) -> About | None:
    """None where there is none that can be read."""
    try:
        with open(osdep.open_plain(folder / ABOUT, os.O_RDONLY), "rb") as file:
            return msgspec.json.decode(file.read(MAX_ABOUT_BYTES), type=About)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def remove_items(items: Sequence[Item], keep: Path | None = None) -> None:
    """And the folders that are empty then, but for `keep`. The caller has the gate."""
    for item in items:
        with contextlib.suppress(OSError):
            osdep.remove_file(item.path)
    for folder in {item.path.parent for item in items} - {keep}:
        with contextlib.suppress(OSError):
            if {path.name for path in folder.iterdir()} <= {ABOUT}:
                osdep.remove_file(folder / ABOUT)
                folder.rmdir()


def remove_leftover(item: Item) -> bool:
    """Whether its writer is dead; then it is removed. The caller has the gate."""
    try:
        fd = osdep.open_plain(item.path, os.O_RDWR)
    except OSError:
        return False
    try:
        dead = osdep.try_lock(fd, exclusive=True)
    except OSError as error:
        dead = error.errno in _NO_LOCKS and time.time() - item.used_ns / 1e9 > LEFTOVER_S
    finally:
        os.close(fd)
    if dead:
        with contextlib.suppress(OSError):
            osdep.remove_file(item.path)
    return dead


@contextlib.contextmanager
def gate(root: Path) -> Iterator[None]:
    """Alone among all processes, for moments; without effect where the file system has no locks.

    Raises `Busy` after `GATE_TIMEOUT_S`, and `OSError`.
    """
    make_folder(root)
    fd = osdep.open_plain(root / GATE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        until_s = time.monotonic() + GATE_TIMEOUT_S
        while not _try_lock(fd):
            if time.monotonic() > until_s:
                raise Busy(f"others have kept {root / GATE} locked for {GATE_TIMEOUT_S:.0f} s")
            time.sleep(PAUSE_S)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                osdep.unlock(fd)
    finally:
        os.close(fd)


def items_in(folder: Path) -> list[Item]:
    """Of one fingerprint. Raises `OSError`, but not for what vanishes meanwhile."""
    items = []
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            is_temporary = entry.name.startswith(TEMPORARY)
            with contextlib.suppress(FileNotFoundError):
                if (is_temporary or _FILE.fullmatch(entry.name)) and entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    items.append(Item(folder / entry.name, status.st_size, status.st_mtime_ns, is_temporary))
    return items


def _try_lock(fd: int) -> bool:
    """True where the file system has no locks, too."""
    try:
        return osdep.try_lock(fd, exclusive=True)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return True


def _write(file: FileIO, data: memoryview, stopping: Callable[[], bool]) -> None:
    for chunk in chunks(data, CHUNK_BYTES):
        while len(chunk):
            if stopping():
                raise Stopped
            chunk = chunk[file.write(chunk) :]
