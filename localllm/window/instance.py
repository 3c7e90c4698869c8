"""Allows one window per home. The first process holds a lock and listens; a second asks it to show itself, and exits.

The request is a line of JSON over loopback, with a secret from a file that only its owner can read. Knows nothing of
windows.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from localllm.errors import Unavailable, naming
from localllm.system import files

logger = logging.getLogger("localllm")

LOOPBACK = "127.0.0.1"
ANSWER_S = 5.0
"""Time for the first window to show itself, since it may still be starting."""
POLL_S = 0.05
CALL_S = 2.0
"""Time for a caller to send its request."""
MAX_CALL_BYTES = 4096
_SHOWN = b"shown\n"


class Address(msgspec.Struct, frozen=True):
    """Where the first process listens."""

    port: int
    secret: str


class Call(msgspec.Struct, frozen=True):
    """The request of a second process."""

    secret: str
    model: str | None = None
    """The model to chat with."""


OnCall = Callable[[str | None], None]


class Instance:
    """The first process."""

    def __init__(self, listener: socket.socket, secret: str) -> None:
        self._listener = listener
        self._secret = secret

    def answer(self, show: OnCall) -> None:
        """Call `show`, on a new thread, with the model of each second process."""
        threading.Thread(target=self._serve, args=(show,), name="window-calls", daemon=True).start()

    def _serve(self, show: OnCall) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed, because the window is closed
            with connection:
                try:
                    self._reply(connection, show)
                except OSError:
                    pass  # the caller has gone
                except Exception:  # later callers are served all the same
                    logger.exception("the window could not be shown")

    def _reply(self, connection: socket.socket, show: OnCall) -> None:
        connection.settimeout(CALL_S)
        call = _read_call(connection)
        if call is not None and hmac.compare_digest(call.secret.encode(), self._secret.encode()):
            show(call.model)
            connection.sendall(_SHOWN)


@contextlib.contextmanager
def single(folder: Path, model: str | None = None) -> Iterator[Instance | None]:
    """The instance for this folder; None if another process has it, which has then shown its window.

    Raises `Unavailable` if that process does not answer, `OSError`.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = folder / "lock"
    files.private_file(lock)
    fd = os.open(lock, os.O_RDWR)
    address = folder / "address.json"
    try:
        if not _lock_or_call(fd, address, model):
            yield None
            return
        with socket.create_server((LOOPBACK, 0)) as listener:
            secret = secrets.token_urlsafe()
            _write(address, Address(listener.getsockname()[1], secret))
            try:
                yield Instance(listener, secret)
            finally:
                files.remove_file(address)
    finally:
        os.close(fd)


def _lock_or_call(fd: int, address: Path, model: str | None) -> bool:
    """Lock the file (True), or call the process that holds the lock (False). Raises `Unavailable`."""
    deadline_s = time.monotonic() + ANSWER_S
    while not files.try_lock(fd, exclusive=True):
        if _call(address, model):
            return False
        if time.monotonic() > deadline_s:
            raise Unavailable(
                f"a window is already open and does not answer; end its process and try again (its lock is "
                f"{address.with_name('lock')})"
            )
        time.sleep(POLL_S)  # the first process has not written its address yet, or is exiting
    return True


def _call(path: Path, model: str | None) -> bool:
    """Ask the first process to show its window; returns whether it did."""
    try:
        address = msgspec.json.decode(path.read_bytes(), type=Address)
        with socket.create_connection((LOOPBACK, address.port), CALL_S) as connection:
            connection.sendall(msgspec.json.encode(Call(address.secret, model)) + b"\n")
            return connection.recv(len(_SHOWN)) == _SHOWN
    except (OSError, msgspec.DecodeError):
        return False


def _read_call(connection: socket.socket) -> Call | None:
    """Read a request; None if it is not valid."""
    raw = b""
    deadline_s = time.monotonic() + CALL_S
    while not raw.endswith(b"\n") and len(raw) < MAX_CALL_BYTES and time.monotonic() < deadline_s:
        part = connection.recv(MAX_CALL_BYTES - len(raw))
        if not part:
            break
        raw += part
    try:
        return msgspec.json.decode(raw, type=Call)
    except msgspec.DecodeError:
        return None


def _write(path: Path, address: Address) -> None:
    files.remove_file(path)  # left by a killed process
    files.private_file(path)
    with naming(path):
        path.write_bytes(msgspec.json.encode(address))
