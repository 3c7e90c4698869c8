"""A connection of HTTP/1.1 whose bodies go from the socket to the reader without being copied on the way.

httpcore's own copies each body five times on its way through h11, which holds Python's lock and costs more than the
system's share of the work: 0.9 s of CPU for 512 MiB, against 0.6 s for receiving and writing them. Here h11 still reads
heads and chunked bodies, whatever is hard to read right; of a body with a Content-Length only the bytes are counted.
For GET without a body, and without a proxy. Knows nothing of what is fetched.
"""

from __future__ import annotations

import enum
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import h11
import httpcore

MAX_HEAD_BYTES = 64 * 1024
"""Of an answer's status line and headers."""
READ_BYTES = 64 * 1024


class _State(enum.Enum):
    NEW = "new"
    BUSY = "busy"
    IDLE = "idle"
    CLOSED = "closed"


class DirectConnection(httpcore.ConnectionInterface):
    """For one origin; a pool hands it out to one request at a time."""

    def __init__(
        self,
        origin: httpcore.Origin,
        ssl_context: ssl.SSLContext | None,
        backend: httpcore.NetworkBackend,
        idle_s: float,
    ) -> None:
        self._origin = origin
        self._ssl_context = ssl_context
        self._backend = backend
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._state = _State.NEW
        self._expires_at = 0.0
        self._stream: httpcore.NetworkStream | None = None

    def handle_request(self, request: httpcore.Request) -> httpcore.Response:
        """Sends it and reads the answer's head. Raises httpcore's exceptions, and what the backend raises."""
        with self._lock:
            if self._state not in (_State.NEW, _State.IDLE):
                raise httpcore.ConnectionNotAvailable
            self._state = _State.BUSY
        timeouts: dict[str, float | None] = request.extensions.get("timeout", {})
        try:
            if self._stream is None:
                self._stream = self._connect(timeouts.get("connect"))
            exchange = _Exchange(self._stream, timeouts)
            exchange.ask(request)
            head = exchange.read_head()
        except BaseException:
            self.close()
            raise
        return httpcore.Response(
            status=head.status_code,
            headers=head.headers.raw_items(),
            content=_Body(self, exchange),
            extensions={"http_version": b"HTTP/" + head.http_version, "reason_phrase": bytes(head.reason)},
        )

    def _connect(self, timeout_s: float | None) -> httpcore.NetworkStream:
        host = self._origin.host.decode("ascii")
        stream = self._backend.connect_tcp(host, self._origin.port, timeout_s)
        if self._ssl_context is None:
            return stream
        return stream.start_tls(self._ssl_context, host.strip("[]"), timeout_s)

    def release(self, *, reusable: bool) -> None:
        """The answer is read, or nobody wants the rest of it."""
        if not reusable:
            self.close()
            return
        with self._lock:
            if self._state is _State.BUSY:
                self._expires_at = time.monotonic() + self._idle_s
                self._state = _State.IDLE

    def close(self) -> None:
        """Whoever reads from it gets an error."""
        with self._lock:
            self._state = _State.CLOSED
            if self._stream is not None:
                self._stream.close()

    def info(self) -> str:
        return f"{self._origin!r}, {self._state.value}"

    def can_handle_request(self, origin: httpcore.Origin) -> bool:
        return origin == self._origin

    def is_available(self) -> bool:
        return self._state is _State.IDLE

    def has_expired(self) -> bool:
        if self._state is not _State.IDLE or self._stream is None:
            return False
        return time.monotonic() > self._expires_at or bool(self._stream.get_extra_info("is_readable"))

    def is_idle(self) -> bool:
        return self._state is _State.IDLE

    def is_closed(self) -> bool:
        return self._state is _State.CLOSED


class _Exchange:
    """One request and its answer."""

    def __init__(self, stream: httpcore.NetworkStream, timeouts: dict[str, Any]) -> None:
        self._stream = stream
        self._timeouts = timeouts
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._rest = b""
        """What came together with the head."""
        self._length: int | None = None
        """None: h11 finds the end."""
        self.is_reusable = False
        """The answer is read to its end, and the server will answer again."""
        self._keeps_alive = False

    def ask(self, request: httpcore.Request) -> None:
        with _translated():
            event = h11.Request(method=request.method, target=request.url.target, headers=request.headers)
            head = (self._h11.send(event) or b"") + (self._h11.send(h11.EndOfMessage()) or b"")
        assert isinstance(request.stream, Iterable)
        assert not b"".join(request.stream), "GET has no body"
        self._stream.write(head, self._timeouts.get("write"))

    def _read(self) -> bytes:
        return self._stream.read(READ_BYTES, self._timeouts.get("read"))

    def read_head(self) -> h11.Response:
        """Skips what is said in between (1xx)."""
        buffer = b""
        while True:
            end = buffer.find(b"\r\n\r\n") + 4
            if end == 3:
                if len(buffer) > MAX_HEAD_BYTES:
                    raise httpcore.RemoteProtocolError("the answer's head is too long")
                arrived = self._read()
                if not arrived:
                    raise httpcore.RemoteProtocolError("the server hung up without an answer")
                buffer += arrived
                continue
            with _translated():
                self._h11.receive_data(buffer[:end])
                event = self._h11.next_event()
            buffer = buffer[end:]
            if isinstance(event, h11.Response):
                self._rest = buffer
                self._frame(event)
                return event
            if not isinstance(event, h11.InformationalResponse):
                raise httpcore.RemoteProtocolError("what comes is no answer")

    def _frame(self, head: h11.Response) -> None:
        headers = {name: value.lower() for name, value in head.headers}
        self._keeps_alive = head.http_version == b"1.1" and b"close" not in headers.get(b"connection", b"")
        if head.status_code in (204, 304):
            self._length = 0
        elif b"transfer-encoding" not in headers and b"content-length" in headers:
            self._length = int(headers[b"content-length"])  # h11 has checked it

    def body(self) -> Iterator[bytes]:
        return self._counted() if self._length is not None else self._parsed()

    def _counted(self) -> Iterator[bytes]:
        left, piece = self._length or 0, self._rest
        while left:
            if not piece:
                piece = self._read()
                if not piece:
                    raise httpcore.RemoteProtocolError(f"the server hung up {left} bytes before the end")
            if len(piece) > left:
                piece, left = piece[:left], 0  # what comes behind the end is nobody's
                self._keeps_alive = False
            else:
                left -= len(piece)
            yield piece
            piece = b""
        self.is_reusable = self._keeps_alive and not piece

    def _parsed(self) -> Iterator[bytes]:
        with _translated():
            if self._rest:
                self._h11.receive_data(self._rest)
            while True:
                event = self._h11.next_event()
                if event is h11.NEED_DATA:
                    self._h11.receive_data(self._read())
                elif isinstance(event, h11.Data):
                    yield bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    break
                else:
                    raise httpcore.RemoteProtocolError("the server hung up before the end")
        self.is_reusable = self._keeps_alive and self._h11.trailing_data == (b"", False)


class _Body:
    """The stream of an `httpcore.Response`."""

    def __init__(self, connection: DirectConnection, exchange: _Exchange) -> None:
        self._connection = connection
        self._exchange = exchange
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        return self._exchange.body()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._connection.release(reusable=self._exchange.is_reusable)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except h11.LocalProtocolError as error:
        raise httpcore.LocalProtocolError(str(error)) from error
    except h11.RemoteProtocolError as error:
        raise httpcore.RemoteProtocolError(str(error)) from error
