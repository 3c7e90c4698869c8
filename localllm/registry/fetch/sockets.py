"""The network backend of httpcore: TCP and TLS to checked addresses, with timeouts, deadlines and prompt cancellation.

A host name is resolved once, and all its addresses are checked before connecting to one, so a second DNS answer cannot
lead elsewhere (DNS rebinding). The Host header and SNI still come from the URL. Sockets are non-blocking: threads wait
in slices of `SLICE_S` and check the `Patience` of their request in between, because closing a socket from another
thread does not wake a reader. Knows nothing of proxies or of what is fetched; of HTTP, only where a response ends.
"""

from __future__ import annotations

import os
import re
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import httpcore

from localllm.errors import PullFailed
from localllm.registry.fetch.guard import check_address
from localllm.registry.remote import Cancelled

SLICE_S = 0.1
"""Upper bound on the time a wait continues after cancellation."""
MIN_CONNECT_S = 2.0
"""Minimum time given to each address of a host before the next one is tried."""

Resolve = Callable[[str, int], list[str]]
"""Host and port -> addresses, best first. Raises `OSError`."""

BODY_READ_BYTES = 512 * 1024
"""Most of a body that is received at once: h11 copies every piece several times, but each costs it as much again."""
_BLANK_LINE = re.compile(rb"\n\r?\n")
"""Ends the head of a response and the trailers of a chunked body, as h11 understands them."""
_Selector: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)
_T = TypeVar("_T")


class LinkError(Exception):
    """A connection broke or timed out."""


class NoConnection(LinkError):
    """A connection could not be opened."""


class Unresolved(NoConnection):
    """The host's name has no address, as far as the name server knows."""


class ProxyFailed(NoConnection):
    """The proxy cannot connect to the host."""


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


@dataclass
class _Scope:
    """The request that this thread is making."""

    patience: Patience = field(default_factory=Patience)
    opened: list[Stream] = field(default_factory=list)


_scope: ContextVar[_Scope] = ContextVar("_scope")


@contextmanager
def requesting(patience: Patience) -> Iterator[None]:
    """Applies `patience` to this thread's network operations inside the block. If it fails, closes the connections
    opened in it: httpcore leaves them open if a proxy refuses."""
    scope = _Scope(patience)
    token = _scope.set(scope)
    try:
        yield
    except BaseException:
        for stream in scope.opened:
            stream.close()
        raise
    finally:
        _scope.reset(token)


def resolve(host: str, port: int) -> list[str]:
    """Resolves a host with the system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Dialer(httpcore.NetworkBackend):
    """Opens connections; if `guarded`, only to public addresses."""

    def __init__(self, resolver: Resolve = resolve, *, guarded: bool, body_read_bytes: int = BODY_READ_BYTES) -> None:
        self._resolve = resolver
        self._guarded = guarded
        self._body_read_bytes = body_read_bytes
        self._good: dict[tuple[str, int], str] = {}
        """The address that last accepted a connection: tried first, to avoid waiting for dead ones."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,  # noqa: ARG002
    ) -> Stream:
        """Raises `NoConnection`, or `ForbiddenAddress` if any address of the host is not allowed."""
        assert timeout is not None
        host, scope = host.strip("[]"), _scope.get()
        deadline = time.monotonic() + timeout
        try:
            addresses = self._addresses(host, port, deadline, scope.patience)
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
                connected = _connect(address, port, time.monotonic() + max(share, MIN_CONNECT_S), scope.patience)
            except OSError as error:
                failure = error
                continue
            self._good[host, port] = address
            scope.opened.append(stream := Stream(connected, timeout, self._body_read_bytes))
            return stream
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


class Stream(httpcore.NetworkStream):
    """A connected socket, with or without TLS. Operations time out if no byte moves.

    Passes on no byte that follows a response, so that stray bytes never become the next response: `read` ends at blank
    lines, where a head or a chunked body may end, and at the end of a body whose length `expect_body` gives. A
    connection with stray bytes counts as readable, which makes the pool close it.
    """

    def __init__(self, sock: socket.socket, timeout_s: float, body_read_bytes: int) -> None:
        """`timeout_s`: for a handshake with a SOCKS proxy, the only operations without a timeout of their own."""
        self._sock = sock
        self._timeout_s = timeout_s
        self._body_read_bytes = body_read_bytes
        self._held = b""
        """Received, but not passed on."""
        self._tail = b""
        """The last bytes passed on, which may begin a blank line."""
        self._num_missing: int | None = None
        """Bytes of the body still to come; None: blank lines show where it may end."""

    def expect_body(self, length: int) -> None:
        """To be called after the head of a response whose body has this length."""
        self._num_missing = length

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What has arrived, more than `max_bytes` of a body whose length is known; empty at the end.

        Raises `LinkError`.
        """
        if timeout is None:
            return self._receive(max_bytes, self._timeout_s)
        most = max_bytes if self._num_missing is None else min(self._body_read_bytes, self._num_missing)
        data = self._held or self._receive(most, timeout)
        end = min(most, len(data))
        if self._num_missing is not None:
            if not data:
                raise LinkError(f"the server closed the connection {self._num_missing:,} bytes before the end")
            self._num_missing -= end
        elif blank := _BLANK_LINE.search(self._tail + data[:end]):
            end, self._tail = blank.end() - len(self._tail), b""
        else:
            self._tail = (self._tail + data[:end])[-2:]
        self._held = data[end:]
        return data[:end]

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Sends all of it. Raises `LinkError`, or `httpcore.WriteError` if the server may have responded early."""
        self._num_missing, self._tail = None, b""
        sent = 0
        try:
            while sent < len(buffer):
                rest = memoryview(buffer)[sent:]
                sent += self._patiently(partial(self._sock.send, rest), selectors.EVENT_WRITE, timeout)
        except TimeoutError as error:
            raise LinkError("the server stopped reading") from error
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    def close(self) -> None:
        """Closes the socket."""
        self._sock.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> Stream:
        """Adds TLS. Raises `NoConnection`, after closing the connection."""
        try:
            if isinstance(self._sock, ssl.SSLSocket):
                raise NoConnection("a proxy with an https URL cannot be used for https")
            if self._held:
                raise ProxyFailed("it sent data before the tunnel was used")
            name = (server_hostname or "").strip("[]")
            wrapped = ssl_context.wrap_socket(self._sock, server_hostname=name, do_handshake_on_connect=False)
            self._sock = wrapped
            self._patiently(wrapped.do_handshake, selectors.EVENT_READ, timeout)
        except BaseException as error:
            self.close()
            if isinstance(error, TimeoutError):
                raise NoConnection("the TLS handshake timed out") from error
            if isinstance(error, ssl.SSLCertVerificationError):
                raise NotTrusted(error.verify_message) from error
            if isinstance(error, (OSError, ValueError)):  # ssl.SSLError is an OSError
                raise NoConnection(str(error)) from error
            raise
        return self

    def get_extra_info(self, info: str) -> object:
        """`is_readable`: whether an idle connection is unusable: closed by the server, or with unsolicited bytes."""
        if info != "is_readable":
            return None
        if self._held or (isinstance(self._sock, ssl.SSLSocket) and self._sock.pending()):
            return True
        with _Selector() as selector:
            selector.register(self._sock, selectors.EVENT_READ)
            return bool(selector.select(0))

    def _receive(self, most: int, timeout_s: float) -> bytes:
        receive = _receive_records if isinstance(self._sock, ssl.SSLSocket) else socket.socket.recv
        try:
            return self._patiently(lambda: receive(self._sock, most), selectors.EVENT_READ, timeout_s)
        except TimeoutError as error:
            raise LinkError("no more data arrived") from error
        except OSError as error:
            raise LinkError(str(error)) from error

    def _patiently(self, operation: Callable[[], _T], events: int, timeout_s: float | None) -> _T:
        """Tries immediately, since data is usually ready; waits if it is not."""
        deadline = time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        while True:
            try:
                return operation()
            except ssl.SSLWantReadError:  # TLS may have to read in order to write, and the other way round
                wanted = selectors.EVENT_READ
            except ssl.SSLWantWriteError:
                wanted = selectors.EVENT_WRITE
            except BlockingIOError:
                wanted = events
            _wait(self._sock, wanted, deadline, _scope.get().patience)


def _receive_records(sock: socket.socket, most: int) -> bytes:
    """A TLS record holds at most 16 KiB; reading several at a time saves work in every layer above."""
    pieces = [sock.recv(most)]
    most -= len(pieces[0])
    while pieces[-1] and most:
        try:
            pieces.append(sock.recv(most))
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            break
        most -= len(pieces[-1])
    return b"".join(pieces)
