"""Locks between processes and threads, on files that the system unlocks when their owner dies.

Three kinds, all in the store's `locks` folder:

    gate        shared by whoever makes something needed, for moments; exclusive for `gc`, while it decides and deletes
    claim-ID    exclusive: one download of one file
    hold-...    exclusive, by one owner: a list of what it needs, which `gc` reads and leaves alone

Whoever has the gate to himself meets nobody who is just opening another lock: `gc` clears away what the dead left.
A lock belongs to a file descriptor, so two threads exclude each other as two processes do. Knows nothing of models.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from localllm import osdep
from localllm.errors import InvalidParameter, Unavailable
from localllm.registry.digest import Digest
from localllm.registry.disk.layout import Layout
from localllm.registry.remote import Cancelled

GATE_TIMEOUT_S = 120.0
"""`gc` has the gate for as long as it takes to unlink what is not needed."""
FIRST_PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.05
TELL_EVERY_S = 0.5
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class FileLock:
    """A lock that is held. `fd` may be written to."""

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
        osdep.unlock(self.fd)
        os.close(self.fd)
        if remove and not gone:  # Windows deletes no open file: not before, and not now if somebody else has opened it
            _unlinked(self.path)


def try_lock(path: Path, *, exclusive: bool) -> FileLock | None:
    """None: another owner has it. Raises `InvalidParameter` where the file system has no locks."""
    while True:
        fd = osdep.open_plain(path, os.O_RDWR | os.O_CREAT)
        try:
            if not osdep.try_lock(fd, exclusive=exclusive):
                os.close(fd)
                return None
            if _is_at(fd, path):
                return FileLock(path, fd)
            os.close(fd)  # deleted since it was opened: others would not see this lock
        except OSError as error:
            os.close(fd)
            if error.errno not in _NO_LOCKS:
                raise
            raise InvalidParameter(
                f"the file system of {path.parent} has no file locks ({error.strerror}), without which two processes "
                "would spoil each other's models; set LOCALLLM_HOME to a folder on a local disk",
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
    """What one owner needs and no manifest names, perhaps: `gc` leaves it until `close`, or until the process ends."""

    def __init__(self, locks: Locks, lock: FileLock) -> None:
        self._locks = locks
        self._lock = lock

    def add(self, *digests: Digest) -> None:
        """Keeps these blobs from `gc`, as far as they are in the store by now."""
        self.add_lines(*map(str, digests))

    def add_lines(self, *lines: str) -> None:
        with self._locks.gate(exclusive=False):
            _write(self._lock.fd, "".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        self._lock.release(remove=True)

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
        """Shared may be taken within shared. Raises `Unavailable` after `GATE_TIMEOUT_S`."""
        self._layout.locks.mkdir(parents=True, exist_ok=True)
        until, pause_s = time.monotonic() + GATE_TIMEOUT_S, FIRST_PAUSE_S
        while (lock := try_lock(self._layout.gate, exclusive=exclusive)) is None:
            if time.monotonic() > until:
                raise Unavailable(
                    f"other processes have kept the model store {self._layout.root} busy for {GATE_TIMEOUT_S:.0f} s; "
                    "try again when they are done, or end the one that hangs"
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
        tell_at = 0.0
        while (lock := self._try_claim(id)) is None:
            if waiting is not None and time.monotonic() >= tell_at:
                waiting()
                tell_at = time.monotonic() + TELL_EVERY_S
            if cancel.wait(LONGEST_PAUSE_S):
                raise Cancelled("stopped while another process was downloading the same file")
        try:
            yield
        finally:
            lock.release(remove=True)

    def _try_claim(self, id: str) -> FileLock | None:
        with self.gate(exclusive=False):
            return try_lock(self._layout.claim(id), exclusive=True)

    def hold(self, what: str, lines: tuple[str, ...]) -> Hold:
        """`what` is said to people: `qwen3:0.6b is loaded`."""
        with self.gate(exclusive=False):
            path = self._layout.locks / f"hold-{os.getpid()}-{secrets.token_hex(8)}"
            lock = try_lock(path, exclusive=True)
            assert lock is not None, "nobody else knows its name"
            first = " ".join(f"{what} (process {os.getpid()})".split())
            _write(lock.fd, "".join(f"{line}\n" for line in (first, *lines)).encode())
        return Hold(self, lock)

    def survey(self) -> dict[str, str]:
        """What is held -> by whom, for display. The caller holds the gate exclusively. Dead holds are deleted."""
        held: dict[str, str] = {}
        for path in _entries(self._layout.locks, "hold-"):
            lock = try_lock(path, exclusive=True)
            if lock is not None:
                lock.release(remove=True)
                continue
            what, *lines = _read_hold(path) or [""]
            held.update(dict.fromkeys(lines, what))
        return held

    def busy(self, id: str) -> bool:
        """Whether the claim is taken; if not, deletes its file. The caller holds the gate exclusively."""
        path = self._layout.claim(id)
        if not path.exists():
            return False
        lock = try_lock(path, exclusive=True)
        if lock is None:
            return True
        lock.release(remove=True)
        return False

    def claim_ids(self) -> list[str]:
        """Of all claims, dead ones too."""
        return [path.name.removeprefix("claim-") for path in _entries(self._layout.locks, "claim-")]


def _entries(folder: Path, prefix: str) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.name.startswith(prefix))
    except FileNotFoundError:
        return []


def _read_hold(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode("utf-8", "replace").splitlines()
    except FileNotFoundError:  # closed this moment
        return []


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
