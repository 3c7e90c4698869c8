"""Connections for httpcore that go to the address that was checked, and that let go at once when nobody wants them.

The name is resolved once, every address of it is checked, and one of these is connected to: there is no second look-up
that could say something else (DNS rebinding). Host header and SNI still come from the URL.
Sockets never block: a thread waits in slices of `SLICE_S` and looks at its `patience` in between, because closing a
socket from another thread does not wake up who waits for it. Knows nothing of HTTP or of proxies.
"""

from __future__ import annotations

import os
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import httpcore

from localllm.errors import PullFailed
from localllm.registry.fetch.guard import check_address
from localllm.registry.remote import Cancelled

SLICE_S = 0.1
"""The longest that a wait goes on after somebody cancelled it."""
READ_BYTES = 256 * 1024
"""Read at once, if so much has arrived."""
MIN_CONNECT_S = 2.0
"""For each address of a host before the next one is tried."""

DEFAULT_TIMEOUT_S = 60.0
"""For whom names none."""

Resolve = Callable[[str, int], list[str]]
"""Host and port -> addresses, best first. Raises `OSError`."""

_Selector: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)
_T = TypeVar("_T")


class NotTrusted(httpcore.ConnectError):
    """The certificate is not that of the host, or of no authority that is believed."""


@dataclass(frozen=True)
class Patience:
    """How long the thread's network operations may take."""

    is_cancelled: Callable[[], bool] = lambda: False
    deadline: float | None = None
    """On `time.monotonic`'s clock."""

    def check(self) -> None:
        """Raises `Cancelled` or, past the deadline, `PullFailed`."""
        if self.is_cancelled():
            raise Cancelled("cancelled; what has arrived stays")
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise PullFailed("the server takes too long for a small answer")


_thread = threading.local()


@contextmanager
def patience(value: Patience) -> Iterator[None]:
    """What this thread does on the network inside has this patience. httpcore has no way to pass it along."""
    before = _patience()
    _thread.patience = value
    try:
        yield
    finally:
        _thread.patience = before


def _patience() -> Patience:
    return getattr(_thread, "patience", None) or Patience()


def resolve(host: str, port: int) -> list[str]:
    """The system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Backend(httpcore.NetworkBackend):
    """What httpcore connects with. `guarded`: public addresses only."""

    def __init__(self, resolver: Resolve = resolve, *, guarded: bool) -> None:
        self._resolve = resolver
        self._guarded = guarded
        self._good: dict[tuple[str, int], str] = {}
        """The address that answered last, so that eight connections don't wait for the same dead one."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Raises `ForbiddenAddress` if one of the host's addresses is none that we may go to."""
        assert local_address is None, "nobody asks for one"
        assert not socket_options, "nobody asks for any"
        deadline = time.monotonic() + (DEFAULT_TIMEOUT_S if timeout is None else timeout)
        try:
            addresses = self._addresses(host, port, deadline)
        except OSError as error:
            raise httpcore.ConnectError(f"{host} cannot be found: {error}") from error
        if self._guarded:
            for address in addresses:
                check_address(address, host)
        good = self._good.get((host, port))
        failure: Exception = OSError("it has no address")
        for index, address in enumerate(sorted(addresses, key=lambda one: one != good)):
            share = (deadline - time.monotonic()) / (len(addresses) - index)
            try:
                connected = _connect(address, port, time.monotonic() + max(share, MIN_CONNECT_S))
            except OSError as error:
                failure = error
                continue
            self._good[host, port] = address
            return Stream(connected)
        kind = httpcore.ConnectTimeout if isinstance(failure, TimeoutError) else httpcore.ConnectError
        raise kind(f"{host} does not answer: {failure}") from failure

    def _addresses(self, host: str, port: int, deadline: float) -> list[str]:
        """A resolver cannot be interrupted, so it gets a thread of its own, which may outlive our interest."""
        found: list[list[str] | OSError] = []
        done = threading.Event()

        def ask() -> None:
            try:
                found.append(self._resolve(host, port))
            except (OSError, UnicodeError) as error:
                found.append(error if isinstance(error, OSError) else OSError(str(error)))
            finally:
                done.set()

        threading.Thread(target=ask, name="resolve", daemon=True).start()
        while not done.wait(SLICE_S):
            _patience().check()
            if time.monotonic() > deadline:
                raise TimeoutError("the name server does not answer")
        if isinstance(found[0], OSError):
            raise found[0]
        return found[0]


def _connect(address: str, port: int, deadline: float) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            sock.connect((address, port))
        except BlockingIOError:
            _wait(sock, selectors.EVENT_WRITE, deadline)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, f"{address} port {port}: {os.strerror(code)}") from None
    except BaseException:
        sock.close()
        raise
    return sock


def _wait(sock: socket.socket, events: int, deadline: float) -> None:
    """Until the socket is ready. Raises `TimeoutError` at the deadline, and what the thread's patience raises."""
    with _Selector() as selector:
        selector.register(sock, events)
        while True:
            _patience().check()
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            if selector.select(min(SLICE_S, left)):
                return


class Stream(httpcore.NetworkStream):
    """A socket, with TLS or without. Times out when nothing moves."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What has arrived, and more than `max_bytes` if there is more: h11 takes any amount."""
        size = max(max_bytes, READ_BYTES)
        receive = _read_records if isinstance(self._sock, ssl.SSLSocket) else socket.socket.recv
        try:
            return self._patiently(lambda: receive(self._sock, size), selectors.EVENT_READ, timeout)
        except TimeoutError as error:
            raise httpcore.ReadTimeout("nothing arrives any more") from error
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        sent = 0
        try:
            while sent < len(buffer):
                rest = memoryview(buffer)[sent:]
                sent += self._patiently(partial(self._sock.send, rest), selectors.EVENT_WRITE, timeout)
        except TimeoutError as error:
            raise httpcore.WriteTimeout("nothing is taken any more") from error
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    def close(self) -> None:
        self._sock.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        if isinstance(self._sock, ssl.SSLSocket):
            self.close()
            raise httpcore.ConnectError("a proxy that is itself reached by https cannot be used for https")
        try:
            wrapped = ssl_context.wrap_socket(
                self._sock, server_hostname=server_hostname, do_handshake_on_connect=False
            )
        except (OSError, ValueError) as error:
            self.close()
            raise httpcore.ConnectError(str(error)) from error
        stream = Stream(wrapped)
        try:
            stream._patiently(wrapped.do_handshake, selectors.EVENT_READ, timeout)
        except TimeoutError as error:
            stream.close()
            raise httpcore.ConnectTimeout("no TLS handshake") from error
        except ssl.SSLCertVerificationError as error:
            stream.close()
            raise NotTrusted(error.verify_message) from error
        except OSError as error:  # ssl.SSLError is one
            stream.close()
            raise httpcore.ConnectError(str(error)) from error
        except PullFailed:
            stream.close()
            raise
        return stream

    def get_extra_info(self, info: str) -> Any:
        if info == "ssl_object" and isinstance(self._sock, ssl.SSLSocket):
            return self._sock
        if info == "socket":
            return self._sock
        if info == "is_readable":  # asked of idle connections: then the server has closed it
            with _Selector() as selector:
                selector.register(self._sock, selectors.EVENT_READ)
                return bool(selector.select(0))
        return None

    def _patiently(self, operation: Callable[[], _T], events: int, timeout: float | None) -> _T:
        """Tries at once, since what is wanted is mostly there, and waits if not."""
        deadline = time.monotonic() + (DEFAULT_TIMEOUT_S if timeout is None else timeout)
        while True:
            try:
                return operation()
            except ssl.SSLWantReadError:  # TLS may want to read in order to write, and the other way round
                wanted = selectors.EVENT_READ
            except ssl.SSLWantWriteError:
                wanted = selectors.EVENT_WRITE
            except BlockingIOError:
                wanted = events
            _wait(self._sock, wanted, deadline)


def _read_records(sock: socket.socket, size: int) -> bytes:
    """A TLS record has 16 KiB at most; several at once are less work for everybody above."""
    first: bytes = sock.recv(size)
    parts, total = [first], len(first)
    while parts[-1] and total < size:
        try:
            parts.append(sock.recv(size - total))
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            break
        total += len(parts[-1])
    return parts[0] if len(parts) == 1 else b"".join(parts)
