"""TCP and TLS connections to checked addresses, with timeouts, deadlines and prompt cancellation.

A host name is resolved once, and all its addresses are checked before connecting to one, so a second DNS answer cannot
lead elsewhere (DNS rebinding). The Host header and SNI still come from the URL. Sockets are non-blocking: threads wait
in slices of `SLICE_S` and check their `Patience` in between, because closing a socket from another thread does not wake
a reader. Knows nothing of HTTP or proxies.
"""

from __future__ import annotations

import os
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from localllm.errors import PullFailed
from localllm.registry.fetch.guard import check_address
from localllm.registry.remote import Cancelled

SLICE_S = 0.1
"""Upper bound on the time a wait continues after cancellation."""
MIN_CONNECT_S = 2.0
"""Minimum time given to each address of a host before the next one is tried."""

Resolve = Callable[[str, int], list[str]]
"""Host and port -> addresses, best first. Raises `OSError`."""

_Selector: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)
_T = TypeVar("_T")


class LinkError(Exception):
    """A connection broke or timed out."""


class NoConnection(LinkError):
    """A connection could not be opened."""


class Unresolved(NoConnection):
    """The host's name has no address, as far as the name server knows."""


class NotTrusted(NoConnection):
    """The certificate does not match the host, or no trusted CA issued it."""


@dataclass(frozen=True)
class Patience:
    """How long network operations may take."""

    is_cancelled: Callable[[], bool] = lambda: False
    deadline: float | None = None
    """As a time of `time.monotonic`."""

    def check(self) -> None:
        """Raises `Cancelled`, or `PullFailed` past the deadline."""
        if self.is_cancelled():
            raise Cancelled("cancelled; the bytes received so far are kept")
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise PullFailed("the server took too long to send a small response")


def resolve(host: str, port: int) -> list[str]:
    """Resolves a host with the system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Dialer:
    """Opens connections; if `guarded`, only to public addresses."""

    def __init__(self, resolver: Resolve = resolve, *, guarded: bool) -> None:
        self._resolve = resolver
        self._guarded = guarded
        self._good: dict[tuple[str, int], str] = {}
        """The address that last accepted a connection: tried first, to avoid waiting for dead ones."""

    def dial(self, host: str, port: int, timeout_s: float, patience: Patience) -> Stream:
        """Raises `NoConnection`, or `ForbiddenAddress` if any address of the host is not allowed."""
        deadline = time.monotonic() + timeout_s
        try:
            addresses = self._addresses(host, port, deadline, patience)
        except OSError as error:
            raise Unresolved(f"{host} cannot be resolved: {error.strerror or error}") from error
        if self._guarded:
            for address in addresses:
                check_address(address, host)
        good = self._good.get((host, port))
        failure = OSError("it has no address")
        for index, address in enumerate(sorted(addresses, key=lambda one: one != good)):
            share = (deadline - time.monotonic()) / (len(addresses) - index)
            try:
                connected = _connect(address, port, time.monotonic() + max(share, MIN_CONNECT_S), patience)
            except OSError as error:
                failure = error
                continue
            self._good[host, port] = address
            return Stream(connected, patience)
        raise NoConnection(f"{host} does not respond: {failure.strerror or failure}") from failure

    def _addresses(self, host: str, port: int, deadline: float, patience: Patience) -> list[str]:
        """Resolves in a thread that may outlive the request, since a resolver cannot be interrupted."""
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
            patience.check()
            if time.monotonic() > deadline:
                raise TimeoutError("the name server does not respond")
        if isinstance(found[0], OSError):
            raise found[0]
        return found[0]


def _connect(address: str, port: int, deadline: float, patience: Patience) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            sock.connect((address, port))
        except BlockingIOError:
            _wait(sock, selectors.EVENT_WRITE, deadline, patience)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, f"{address} port {port}: {os.strerror(code)}") from None
    except BaseException:
        sock.close()
        raise
    return sock


def _wait(sock: socket.socket, events: int, deadline: float, patience: Patience) -> None:
    """Waits until the socket is ready. Raises `TimeoutError` at the deadline, and what `patience` raises."""
    with _Selector() as selector:
        selector.register(sock, events)
        while True:
            patience.check()
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                raise TimeoutError("timed out")
            if selector.select(min(SLICE_S, remaining_s)):
                return


class Stream:
    """A connected socket, with or without TLS. Operations time out if no byte moves."""

    def __init__(self, sock: socket.socket, patience: Patience) -> None:
        self._sock = sock
        self.patience = patience
        """The patience of the current request."""

    def read_into(self, buffer: memoryview, timeout_s: float) -> int:
        """Receives what has arrived; 0 at the end. Raises `LinkError`."""
        receive = _receive_records if isinstance(self._sock, ssl.SSLSocket) else socket.socket.recv_into
        try:
            return self._patiently(lambda: receive(self._sock, buffer), selectors.EVENT_READ, timeout_s)
        except TimeoutError as error:
            raise LinkError("no more data arrived") from error
        except OSError as error:
            raise LinkError(str(error)) from error

    def write(self, data: bytes, timeout_s: float) -> None:
        """Sends all of it. Raises `LinkError`."""
        sent = 0
        try:
            while sent < len(data):
                rest = memoryview(data)[sent:]
                sent += self._patiently(partial(self._sock.send, rest), selectors.EVENT_WRITE, timeout_s)
        except TimeoutError as error:
            raise LinkError("the server stopped reading") from error
        except OSError as error:
            raise LinkError(str(error)) from error

    def close(self) -> None:
        """Closes the socket."""
        self._sock.close()

    def start_tls(self, context: ssl.SSLContext, server_name: str, timeout_s: float) -> None:
        """Adds TLS. Raises `NoConnection`, after closing the connection."""
        try:
            if isinstance(self._sock, ssl.SSLSocket):
                raise NoConnection("a proxy with an https URL cannot be used for https")
            wrapped = context.wrap_socket(self._sock, server_hostname=server_name, do_handshake_on_connect=False)
            self._sock = wrapped
            self._patiently(wrapped.do_handshake, selectors.EVENT_READ, timeout_s)
        except BaseException as error:
            self.close()
            if isinstance(error, TimeoutError):
                raise NoConnection("the TLS handshake timed out") from error
            if isinstance(error, ssl.SSLCertVerificationError):
                raise NotTrusted(error.verify_message) from error
            if isinstance(error, (OSError, ValueError)):  # ssl.SSLError is an OSError
                raise NoConnection(str(error)) from error
            raise

    @property
    def is_readable(self) -> bool:
        """Whether an idle connection is unusable: closed by the server, or with unsolicited bytes."""
        with _Selector() as selector:
            selector.register(self._sock, selectors.EVENT_READ)
            return bool(selector.select(0))

    def _patiently(self, operation: Callable[[], _T], events: int, timeout_s: float) -> _T:
        """Tries immediately, since data is usually ready; waits if it is not."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return operation()
            except ssl.SSLWantReadError:  # TLS may have to read in order to write, and the other way round
                wanted = selectors.EVENT_READ
            except ssl.SSLWantWriteError:
                wanted = selectors.EVENT_WRITE
            except BlockingIOError:
                wanted = events
            _wait(self._sock, wanted, deadline, self.patience)


def _receive_records(sock: socket.socket, buffer: memoryview) -> int:
    """A TLS record holds at most 16 KiB; reading several at a time saves work in every layer above."""
    total = sock.recv_into(buffer)
    while 0 < total < len(buffer):
        try:
            received = sock.recv_into(buffer[total:])
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            break
        if not received:
            break  # the next read reports the end again
        total += received
    return total
