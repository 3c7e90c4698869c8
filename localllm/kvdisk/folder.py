"""The folder of all saved conversations, shared by several processes: bounded, and without half-written files.

A file is written under a temporary name, flushed, then renamed. Its writer holds a lock on it, so an unlocked temporary
file was left by a process that died. Room is made under one lock for all processes (`.gate`), and a new file takes its
room at once, so the bound holds with several writers. Only files named by our rules are counted, deleted or read; no
symbolic link is followed except the folder's own. Knows nothing of the files' contents.
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

from localllm.kvdisk.file import CHUNK_BYTES, chunks
from localllm.kvdisk.fingerprint import FOLDER_DIGITS, Parts, fingerprint
from localllm.system import files

FOLDER = "kv"
"""In the data directory."""
MIN_FREE_BYTES = 1024**3
"""Free disk space that is left to others."""
MAX_CONVERSATIONS = 512
"""Per fingerprint: a prompt is compared with each of them."""
MAX_ABOUT_BYTES = 1024 * 1024
GATE_TIMEOUT_S = 10.0
"""Others hold the gate for as long as it takes to look at all files and unlink some."""
PAUSE_S = 0.005
LEFTOVER_S = 3600.0
"""Age from which a temporary file counts as left behind where the file system has no locks."""
ABOUT = "about.json"
GATE = ".gate"
TEMPORARY = "tmp-"
_FOLDER = re.compile(rf"[0-9a-f]{{{FOLDER_DIGITS}}}", re.ASCII)
_FILE = re.compile(r"[0-9a-f]{32}\.kv", re.ASCII)
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class NoRoom(Exception):
    """It does not fit even if everything else is removed."""


class Busy(Exception):
    """Others held the gate for too long."""


class WritingStopped(Exception):
    """Writing was stopped on request."""


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a fingerprint stands for, as `about.json` tells people."""

    model: str
    created_unix_s: int
    parts: Any = None
    """Not typed: other versions may have other fields."""


class Item(NamedTuple):
    """The file of a conversation, or (`is_temporary`) one being written."""

    path: Path
    size_bytes: int
    used_ns: int
    is_temporary: bool = False


class Folder:
    """One fingerprint's part of the folder; used by any thread. Creates nothing before the first `store`."""

    def __init__(
        self, root: Path, *, model: str, parts: Parts, max_bytes: int, beside_bytes: Callable[[], int] = lambda: 0
    ) -> None:
        """`root` is `kv` in the data directory. `max_bytes` bounds all of it, over all fingerprints, together with
        `beside_bytes()`: what else counts and is not ours to remove; it may raise `OSError`. `model` is a name for
        people."""
        self.root = root
        self._beside_bytes = beside_bytes
        self.fingerprint = fingerprint(parts)
        self.path = root / self.fingerprint[:FOLDER_DIGITS]
        self._about = About(model=model, parts=parts, created_unix_s=int(time.time()))
        self.max_bytes = max_bytes

    def items(self) -> list[Item]:
        """Files of this fingerprint, oldest first. Raises `OSError`."""
        found = [item for item in items_in(self.path) if not item.is_temporary] if is_folder(self.path) else []
        return sorted(found, key=lambda item: item.used_ns)

    def changed_ns(self) -> int:
        """When a file was last added or removed; 0: there is no folder. One look at the file system."""
        try:
            return self.path.lstat().st_mtime_ns
        except OSError:
            return 0

    def open(self, name: str) -> FileIO:
        """Open for reading. Raises `OSError`, also for a link or a pipe."""
        if not is_folder(self.path):
            raise FileNotFoundError(errno.ENOENT, "no folder", str(self.path))
        return open_file(self.path / name)

    def touch(self, name: str) -> bool:
        """Mark it as just used. False: it is gone."""
        now_ns = time.time_ns()
        try:
            os.utime(self.path / name, ns=(now_ns, now_ns))
        except FileNotFoundError:
            return False
        except OSError:  # the folder is read-only: the order of use is not recorded
            return True
        return True

    def remove(self, name: str) -> None:
        """It may be gone already, or (on Windows) be held by a reader for now."""
        with contextlib.suppress(OSError):
            files.remove_file(self.path / name)

    def store(self, name: str, head: bytes, sections: Sequence[memoryview], stopping: Callable[[], bool]) -> list[Item]:
        """Write a file, replacing one of that name. Returns the other files of this fingerprint.

        Raises `OSError`, `NoRoom`, `Busy`, and `WritingStopped` once `stopping` is true; then nothing is left of it.
        """
        size_bytes = len(head) + sum(map(len, sections))
        with gate(self.root):
            others = self._make_room(size_bytes, name)
            introduce(self.path, self._about)
            temporary, fd = new_temporary(self.path, size_bytes)
        publish(self.root, temporary, fd, self.path / name, (memoryview(head), *sections), stopping)
        return [item for item in others if item.path.name != name]

    def tidy(self) -> list[Item]:
        """Remove leftovers of dead writers and everything beyond the bound. Returns the files of this fingerprint.

        Raises `OSError`, `NoRoom`, `Busy`.
        """
        if not self.root.exists():
            return []
        with gate(self.root):
            return self._make_room(0, "")

    def _make_room(self, size_bytes: int, name: str) -> list[Item]:
        """For a file of that name, or for none. Returns the remaining other files of this fingerprint."""
        items = [item for item in all_items(self.root) if not (item.is_temporary and remove_leftover(item))]
        used_bytes = sum(item.size_bytes for item in items)
        max_bytes = min(self.max_bytes - self._beside_bytes(), used_bytes + room_on_disk(self.root))
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
    """Bytes that we may still use; negative if less than `MIN_FREE_BYTES` is left for others. Raises `OSError`."""
    return shutil.disk_usage(root).free - MIN_FREE_BYTES


def introduce(path: Path, about: About) -> None:
    """Create a fingerprint's folder with its `about.json`, unless it exists. Raises `OSError`."""
    make_folder(path)
    if not is_folder(path):
        raise NotADirectoryError(errno.ENOTDIR, "not a folder, or a link to one", str(path))
    if (path / ABOUT).exists():
        return
    temporary, fd = new_temporary(path, 0)
    with open(fd, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(about)) + b"\n")
    files.replace_file(temporary, path / ABOUT)


def new_temporary(folder: Path, size_bytes: int) -> tuple[Path, int]:
    """A new locked file that occupies its full size at once, visible to all processes that count. Raises `OSError`."""
    path = folder / f"{TEMPORARY}{secrets.token_hex(8)}"
    fd = files.open_plain(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        _try_lock(fd)
        os.truncate(fd, size_bytes)
    except OSError:
        os.close(fd)
        files.remove_file(path)
        raise
    return path, fd


def publish(
    root: Path, temporary: Path, fd: int, path: Path, parts: Sequence[memoryview], stopping: Callable[[], bool]
) -> None:
    """Write all of a temporary file and give it its name. `root`: the folder with the gate.

    Raises `OSError`, `Busy`, and `WritingStopped` when `stopping` returns true; then nothing is left of it.
    """
    try:
        with contextlib.ExitStack() as stack:
            with open(fd, "wb", buffering=0) as file:
                for part in parts:
                    _write(file, part, stopping)
                os.fsync(fd)
                stack.enter_context(gate(root))  # it is unlocked now and must not be taken for a leftover
            now_ns = time.time_ns()  # finer than the file system's own clock
            os.utime(temporary, ns=(now_ns, now_ns))
            files.replace_file(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            files.remove_file(temporary)
        raise
    files.sync_folder(path.parent)


def to_remove(items: Sequence[Item], size_bytes: int, max_bytes: int) -> list[Item]:
    """The conversations to remove for a new one of that size: least recently used first.

    Raises `NoRoom` where removing all would not be enough.
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
            f"{size_bytes:,} bytes do not fit into the {max(0, max_bytes):,} available "
            f"({MIN_FREE_BYTES:,} bytes of the disk are kept free for others)"
        )
    return leaving


def all_items(root: Path) -> list[Item]:
    """Files of all fingerprints. Those that vanish meanwhile are left out. Raises `OSError`."""
    return [item for folder in folders(root) for item in items_in(folder)]


def folders(root: Path) -> list[Path]:
    """Folders of all fingerprints. Raises `OSError`, but not where the root is missing."""
    try:
        with os.scandir(root) as entries:
            names = [entry.name for entry in entries if _FOLDER.fullmatch(entry.name)]
    except FileNotFoundError:
        return []
    return [root / name for name in sorted(names) if is_folder(root / name)]


def is_folder(path: Path) -> bool:
    """Whether it is a folder and not a link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def open_file(path: Path) -> FileIO:
    """Open for reading, unbuffered. Raises `OSError`, also for a link or a pipe."""
    fd = files.open_plain(path, os.O_RDONLY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not an ordinary file", str(path))
    return open(fd, "rb", buffering=0)


def make_folder(path: Path) -> None:
    """Create it, accessible to its owner only, unless it exists. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)


def read_about(folder: Path) -> About | None:
    """None if it is missing or unreadable."""
    try:
        with open(files.open_plain(folder / ABOUT, os.O_RDONLY), "rb") as file:
            return msgspec.json.decode(file.read(MAX_ABOUT_BYTES), type=About)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def remove_items(items: Sequence[Item], keep: Path | None = None) -> None:
    """Also removes folders that become empty, except `keep`. The caller holds the gate."""
    for item in items:
        with contextlib.suppress(OSError):
            files.remove_file(item.path)
    for folder in {item.path.parent for item in items} - {keep}:
        with contextlib.suppress(OSError):
            if {path.name for path in folder.iterdir()} <= {ABOUT}:
                files.remove_file(folder / ABOUT)
                folder.rmdir()


def remove_leftover(item: Item) -> bool:
    """Remove it if its writer is dead; whether that was so. The caller holds the gate."""
    try:
        fd = files.open_plain(item.path, os.O_RDWR)
    except OSError:
        return False
    try:
        dead = files.try_lock(fd, exclusive=True)
    except OSError as error:
        dead = error.errno in _NO_LOCKS and time.time() - item.used_ns / 1e9 > LEFTOVER_S
    finally:
        os.close(fd)
    if dead:
        with contextlib.suppress(OSError):
            files.remove_file(item.path)
    return dead


@contextlib.contextmanager
def gate(root: Path) -> Iterator[None]:
    """Exclusive among all processes, held briefly; without effect where the file system has no locks.

    Raises `Busy` after `GATE_TIMEOUT_S`, and `OSError`.
    """
    make_folder(root)
    fd = files.open_plain(root / GATE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        until_s = time.monotonic() + GATE_TIMEOUT_S
        while not _try_lock(fd):
            if time.monotonic() > until_s:
                raise Busy(f"other processes have held {root / GATE} for {GATE_TIMEOUT_S:.0f} s")
            time.sleep(PAUSE_S)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                files.unlock(fd)
    finally:
        os.close(fd)


def items_in(folder: Path) -> list[Item]:
    """Files of one fingerprint. Raises `OSError`, but not for those that vanish meanwhile."""
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
    """Also true where the file system has no locks."""
    try:
        return files.try_lock(fd, exclusive=True)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return True


def _write(file: FileIO, data: memoryview, stopping: Callable[[], bool]) -> None:
    for chunk in chunks(data, CHUNK_BYTES):
        while len(chunk):
            if stopping():
                raise WritingStopped
            chunk = chunk[file.write(chunk) :]
