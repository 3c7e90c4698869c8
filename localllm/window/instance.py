"""One window for each home. The first holds a lock and listens; a second start asks it to show itself, and ends.

Asking is a line of JSON over a loopback connection, with a secret out of a file that only its owner reads. Knows
nothing of windows.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from localllm import osdep
from localllm.errors import Unavailable, naming

LOOPBACK = "127.0.0.1"
ANSWER_S = 5.0
"""For the first window to show itself; it may just be starting."""
POLL_S = 0.05
CALL_S = 2.0
"""For whoever connects to say what it wants."""
MAX_CALL_BYTES = 4096
_SHOWN = b"shown\n"


class Address(msgspec.Struct, frozen=True):
    """Where the first one listens."""

    port: int
    secret: str


class Call(msgspec.Struct, frozen=True):
    """What a second start sends."""

    secret: str
    model: str | None = None
    """To chat with."""


OnCall = Callable[[str | None], None]


class Instance:
    """The first window's side."""

    def __init__(self, listener: socket.socket, secret: str) -> None:
        self._listener = listener
        self._secret = secret

    def answer(self, show: OnCall) -> None:
        """Have `show` called, on a thread of this object, with the model that a second start names."""
        threading.Thread(target=self._serve, args=(show,), name="window-calls", daemon=True).start()

    def _serve(self, show: OnCall) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed: the window ends
            with connection, contextlib.suppress(OSError):  # whoever called is gone
                connection.settimeout(CALL_S)
                call = _read_call(connection)
                if call is not None and hmac.compare_digest(call.secret.encode(), self._secret.encode()):
                    show(call.model)
                    connection.sendall(_SHOWN)


@contextlib.contextmanager
def single(folder: Path, model: str | None = None) -> Iterator[Instance | None]:
    """The instance of this folder, or None where there was one, which has shown itself.

    Raises `Unavailable` if that one does not answer, `OSError`.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = folder / "lock"
    osdep.private_file(lock)
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
                osdep.remove_file(address)
    finally:
        os.close(fd)


def _lock_or_call(fd: int, address: Path, model: str | None) -> bool:
    """Whether this is the first one. Raises `Unavailable`."""
    deadline_s = time.monotonic() + ANSWER_S
    while not osdep.try_lock(fd, exclusive=True):
        if _call(address, model):
            return False
        if time.monotonic() > deadline_s:
            raise Unavailable(
                f"a window is open already and does not answer; end its process, then start again (its lock is "
                f"{address.with_name('lock')})"
            )
        time.sleep(POLL_S)  # the first one has not written its address yet, or is ending
    return True


def _call(path: Path, model: str | None) -> bool:
    """Whether the first one has shown itself."""
    try:
        address = msgspec.json.decode(path.read_bytes(), type=Address)
        with socket.create_connection((LOOPBACK, address.port), CALL_S) as connection:
            connection.sendall(msgspec.json.encode(Call(address.secret, model)) + b"\n")
            return connection.recv(len(_SHOWN)) == _SHOWN
    except (OSError, msgspec.DecodeError):
        return False


def _read_call(connection: socket.socket) -> Call | None:
    """None for what is no call."""
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
    osdep.remove_file(path)  # of one that was killed
    osdep.private_file(path)
    with naming(path):
        path.write_bytes(msgspec.json.encode(address))
