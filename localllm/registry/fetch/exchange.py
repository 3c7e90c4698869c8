"""HTTP/1.1 on one connection: sends a request, reads the head of the response, and receives its body in place.

h11 writes requests and parses heads and chunked bodies. A body with a Content-Length is received into one reused
buffer: h11 would copy it five times under the GIL, which costs more than receiving and writing it. A connection is
reused only if nothing followed the response, so stray bytes never become the next response. Knows nothing of redirects,
proxies or what is fetched.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import h11

from localllm.registry.fetch.sockets import LinkError, Patience, Stream

MAX_HEAD_BYTES = 64 * 1024
"""Limit on the status line and headers of a response."""
BUFFER_BYTES = 512 * 1024
"""Upper limit of one receive."""
READ_BYTES = 64 * 1024
"""Passed to h11 at a time."""
IDLE_S = 30.0
"""How long an idle connection is kept."""

Headers = list[tuple[bytes, bytes]]


class ProtocolError(LinkError):
    """The response is not valid HTTP, or is truncated."""


class InvalidRequest(Exception):
    """HTTP cannot carry this URL or header."""


@dataclass(frozen=True)
class Request:
    """A request as sent over the wire."""

    method: bytes
    target: bytes
    headers: Headers
    """Complete, with Host, and with Content-Length if there is a body."""
    body: Iterable[bytes] = ()


class Connection:
    """Serves one request at a time."""

    def __init__(self, stream: Stream, buffer_bytes: int = BUFFER_BYTES) -> None:
        """`buffer_bytes`: upper limit of one receive, at least `MAX_HEAD_BYTES`."""
        self.stream = stream
        self._buffer_bytes = max(MAX_HEAD_BYTES, buffer_bytes)
        self._buffer: memoryview | None = None
        self._idle_since = 0.0

    @property
    def buffer(self) -> memoryview:
        """Receives bodies; allocated with the first one."""
        if self._buffer is None:
            self._buffer = memoryview(bytearray(self._buffer_bytes))
        return self._buffer

    def rest(self) -> None:
        """Marks it idle."""
        self._idle_since = time.monotonic()
        self.stream.patience = Patience()

    @property
    def is_usable(self) -> bool:
        """Whether an idle connection is still open at the server's end."""
        return time.monotonic() - self._idle_since < IDLE_S and not self.stream.is_readable

    def send(self, request: Request, read_timeout_s: float, patience: Patience) -> Exchange:
        """Sends the request and reads the head of the response. Raises `LinkError`, after closing the connection."""
        self.stream.patience = patience
        exchange = Exchange(self, read_timeout_s)
        try:
            exchange.ask(request)
            exchange.read_head(is_head=request.method == b"HEAD")
        except BaseException:
            self.stream.close()
            raise
        return exchange


class Exchange:
    """One request and its response."""

    def __init__(self, connection: Connection, timeout_s: float) -> None:
        self.connection = connection
        self._stream = connection.stream
        self._timeout_s = timeout_s
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._rest: memoryview | bytes = b""
        """The bytes that arrived together with the head."""
        self._length: int | None = None
        """Bytes of the body still to come; None: h11 finds the end."""
        self._keeps_alive = False
        self.is_reusable = False
        """Whether the response has been read to its end and the server accepts another request."""
        self.status = 0
        self.headers: Headers = []

    def ask(self, request: Request) -> None:
        """Writes the request."""
        with _translated():
            event = h11.Request(method=request.method, target=request.target, headers=request.headers)
            self._write(self._h11.send(event))
            for piece in request.body:
                self._write(self._h11.send(h11.Data(data=piece)))
            self._write(self._h11.send(h11.EndOfMessage()))

    def _write(self, data: bytes | None) -> None:
        if data:
            self._stream.write(data, self._timeout_s)

    def read_head(self, *, is_head: bool) -> None:
        """Skips interim responses (1xx)."""
        buffer, filled = self.connection.buffer, 0
        while True:
            end = bytes(buffer[: min(filled, MAX_HEAD_BYTES)]).find(b"\r\n\r\n") + 4
            if end == 3:
                if filled >= MAX_HEAD_BYTES:
                    raise ProtocolError("the headers of the response are too long")
                received = self._stream.read_into(buffer[filled:], self._timeout_s)
                if not received:
                    raise ProtocolError("the server closed the connection without a response")
                filled += received
                continue
            with _translated():
                self._h11.receive_data(bytes(buffer[:end]))
                event = self._h11.next_event()
            if isinstance(event, h11.Response):
                self._rest = buffer[end:filled]
                self._frame(event, is_head=is_head)
                return
            if not isinstance(event, h11.InformationalResponse):
                raise ProtocolError("the server did not respond with HTTP")
            rest = bytes(buffer[end:filled])
            filled = len(rest)
            buffer[:filled] = rest

    def _frame(self, head: h11.Response, *, is_head: bool) -> None:
        self.status, self.headers = head.status_code, list(head.headers)
        values = {name: value.lower() for name, value in head.headers}
        self._keeps_alive = head.http_version == b"1.1" and b"close" not in values.get(b"connection", b"")
        if is_head or head.status_code in (204, 304):
            self._length = 0
        elif b"transfer-encoding" not in values and b"content-length" in values:
            self._length = int(values[b"content-length"])  # h11 has checked it

    def body(self) -> Iterator[memoryview | bytes]:
        """Yields the body; each piece is valid until the next. Raises `LinkError`."""
        return self._counted() if self._length is not None else self._parsed()

    def end_tunnel(self) -> Stream:
        """The raw connection after a successful CONNECT. Raises `ProtocolError`."""
        if len(self._rest):
            raise ProtocolError("the proxy sent data before the tunnel was used")
        return self._stream

    def _counted(self) -> Iterator[memoryview | bytes]:
        buffer, num_missing = self.connection.buffer, self._length or 0
        if len(self._rest) > num_missing:
            self._rest, self._keeps_alive = self._rest[:num_missing], False
        if len(self._rest):
            num_missing -= len(self._rest)
            yield self._rest
        while num_missing:
            received = self._stream.read_into(buffer[:num_missing], self._timeout_s)
            if not received:
                raise ProtocolError(f"the server closed the connection {num_missing:,} bytes before the end")
            num_missing -= received
            yield buffer[:received]
        self.is_reusable = self._keeps_alive

    def _parsed(self) -> Iterator[bytes]:
        buffer = self.connection.buffer[:READ_BYTES]
        with _translated():
            if len(self._rest):
                self._h11.receive_data(bytes(self._rest))
            while True:
                event = self._h11.next_event()
                if event is h11.NEED_DATA:
                    received = self._stream.read_into(buffer, self._timeout_s)
                    self._h11.receive_data(bytes(buffer[:received]))
                elif isinstance(event, h11.Data):
                    yield bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    break
                else:
                    raise ProtocolError("the server closed the connection before the end")
        self.is_reusable = self._keeps_alive and self._h11.trailing_data == (b"", False)


class Idle:
    """Idle connections by route. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: dict[object, list[Connection]] = {}

    def take(self, key: object) -> Connection | None:
        """Takes a usable connection, if there is one."""
        while True:
            with self._lock:
                waiting = self._connections.get(key)
                if not waiting:
                    return None
                connection = waiting.pop()
            if connection.is_usable:
                return connection
            connection.stream.close()

    def give(self, key: object, connection: Connection) -> None:
        """Returns a connection for the next request."""
        connection.rest()
        with self._lock:
            self._connections.setdefault(key, []).append(connection)

    def close(self) -> None:
        """Closes all of them."""
        with self._lock:
            for waiting in self._connections.values():
                for connection in waiting:
                    connection.stream.close()
            self._connections.clear()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except h11.RemoteProtocolError as error:
        raise ProtocolError(str(error)) from error
    except h11.LocalProtocolError as error:
        raise InvalidRequest(str(error)) from error
