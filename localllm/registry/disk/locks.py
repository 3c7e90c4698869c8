"""File locks between processes and threads, released by the system when their owner dies.

Three kinds, all in the store's `locks` folder:

    gate        shared and brief: operations that make content needed; exclusive: `gc` while it decides and deletes
    claim-ID    exclusive: the download of one file
    hold-...    exclusive, one owner: a list of what it needs, which `gc` reads and keeps. On a full disk the list is in
                the names of empty files, hold-....ITEM, so that a model that is there can still be used

Other locks are opened only under the gate, so the exclusive holder, `gc`, can safely delete the files of dead owners.
A lock belongs to a file descriptor, so threads exclude each other just as processes do. Knows nothing of models.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from localllm.errors import InvalidParameter, Unavailable
from localllm.registry.disk.layout import Layout
from localllm.registry.names.digest import Digest
from localllm.registry.remote import Cancelled
from localllm.system import files

GATE_TIMEOUT_S = 120.0
"""`gc` holds the gate only while it unlinks files."""
FIRST_PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.05
REPORT_INTERVAL_S = 0.5
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class FileLock:
    """A held lock. `fd` may be written to."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.fd = fd
        self._released = False

    def release(self, *, remove: bool = False) -> None:
        """Unlocks, and deletes the file if no other process uses it. Idempotent."""
        if self._released:
            return
        self._released = True
        gone = remove and _unlinked(self.path)
        files.unlock(self.fd)
        os.close(self.fd)
        if remove and not gone:  # Windows deletes only files that are not open
            _unlinked(self.path)


def try_lock(path: Path, *, exclusive: bool) -> FileLock | None:
    """The lock, or None if another owner has it. Raises `InvalidParameter` if the file system has no locks."""
    while True:
        fd = files.open_plain(path, os.O_RDWR | os.O_CREAT)
        try:
            if not files.try_lock(fd, exclusive=exclusive):
                os.close(fd)
                return None
            if _is_at(fd, path):
                return FileLock(path, fd)
            os.close(fd)  # deleted since it was opened, so no other process would see this lock
        except OSError as error:
            os.close(fd)
            if error.errno not in _NO_LOCKS:
                raise
            raise InvalidParameter(
                f"the file system of {path.parent} does not support file locks ({error.strerror}), so two processes "
                "could corrupt each other's models; set --home or LOCALLLM_HOME to a folder on a local disk",
                param="home",
            ) from error


def _unlinked(path: Path) -> bool:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        return True
    return False


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False


class Hold:
    """Protects what one owner needs from `gc`, whether or not a manifest names it, until `close` or process exit."""

    def __init__(self, locks: Locks, lock: FileLock) -> None:
        self._locks = locks
        self._held = [lock]
        """The lock of the list, and those of items for which the disk has no room."""

    def add(self, *digests: Digest) -> None:
        """Protects these blobs from `gc`, whether or not they are in the store yet."""
        self.add_lines(*map(str, digests))

    def add_lines(self, *lines: str) -> None:
        with self._locks.gate(exclusive=False):
            self.note(lines, lines)

    def note(self, text: Iterable[str], items: Iterable[str]) -> None:
        """Writes the text, or else puts the items into names. The caller holds the gate."""
        listed = self._held[0]
        try:
            _write(listed.fd, "".join(f"{line}\n" for line in text).encode())
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._held += [_new_lock(listed.path.with_name(f"{listed.path.name}.{quote(item)}")) for item in items]

    def close(self) -> None:
        for lock in self._held:
            lock.release(remove=True)

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Locks:
    """The locks of one store."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    @contextlib.contextmanager
    def gate(self, *, exclusive: bool) -> Iterator[None]:
        """Holds the gate; shared holds may nest. Raises `Unavailable` after `GATE_TIMEOUT_S`."""
        self._layout.locks.mkdir(parents=True, exist_ok=True)
        until, pause_s = time.monotonic() + GATE_TIMEOUT_S, FIRST_PAUSE_S
        while (lock := try_lock(self._layout.gate, exclusive=exclusive)) is None:
            if time.monotonic() > until:
                raise Unavailable(
                    f"other processes have kept the model store {self._layout.root} locked for {GATE_TIMEOUT_S:.0f} s; "
                    "try again once they are done, or stop the one that hangs"
                )
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        try:
            yield
        finally:
            lock.release()

    @contextlib.contextmanager
    def claim(
        self, id: str, *, cancel: threading.Event | None = None, waiting: Callable[[], None] | None = None
    ) -> Iterator[None]:
        """Waits for the current owner, calling `waiting` now and then. Raises `Cancelled`."""
        cancel = cancel or threading.Event()
        report_at = 0.0
        while (lock := self._try_claim(id)) is None:
            if waiting is not None and time.monotonic() >= report_at:
                waiting()
                report_at = time.monotonic() + REPORT_INTERVAL_S
            if cancel.wait(LONGEST_PAUSE_S):
                raise Cancelled("cancelled while another process was downloading the same file")
        try:
            yield
        finally:
            lock.release(remove=True)

    def _try_claim(self, id: str) -> FileLock | None:
        with self.gate(exclusive=False):
            return try_lock(self._layout.claim(id), exclusive=True)

    def hold(self, what: str, lines: tuple[str, ...]) -> Hold:
        """A new hold on `lines`. `what` is shown to users: `qwen3:0.6b is loaded`."""
        with self.gate(exclusive=False):
            path = self._layout.locks / f"hold-{os.getpid()}-{secrets.token_hex(8)}"
            hold = Hold(self, _new_lock(path))
            try:
                hold.note((" ".join(f"{what} (process {os.getpid()})".split()), *lines), lines)
            except OSError:
                hold.close()
                raise
        return hold

    def survey(self) -> dict[str, str]:
        """Held items -> their owners, for display. Deletes dead holds. The caller holds the gate exclusively."""
        held: dict[str, str] = {}
        for path in _entries(self._layout.locks, "hold-"):
            lock = try_lock(path, exclusive=True)
            if lock is not None:
                lock.release(remove=True)
                continue
            what, *lines = _read_hold(path) or [f"process {path.name.split('-')[1]} uses it"]
            held.update(dict.fromkeys((*lines, *map(unquote, path.suffix.split(".")[1:])), what))
        return held

    def busy(self, id: str) -> bool:
        """Whether the claim is held; if not, deletes its file. The caller holds the gate exclusively."""
        path = self._layout.claim(id)
        if not path.exists():
            return False
        lock = try_lock(path, exclusive=True)
        if lock is None:
            return True
        lock.release(remove=True)
        return False

    def claim_ids(self) -> list[str]:
        """The ids of all claims, including dead ones."""
        return [path.name.removeprefix("claim-") for path in _entries(self._layout.locks, "claim-")]


def _new_lock(path: Path) -> FileLock:
    lock = try_lock(path, exclusive=True)
    assert lock is not None, "its name is random, so no other process has it open"
    return lock


def _entries(folder: Path, prefix: str) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.name.startswith(prefix))
    except FileNotFoundError:
        return []


def _read_hold(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode("utf-8", "replace").splitlines()
    except FileNotFoundError:  # closed meanwhile
        return []


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
