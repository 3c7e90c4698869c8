"""An HTTP server on loopback that misbehaves as a test demands, on real sockets.

A test sets what `Nasty` offers, or `script` answers for single requests: a function that gets the request and may
return a `Reply`, or None for the ordinary answer.
"""

from __future__ import annotations

import hashlib
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from localllm.registry.names.digest import Digest

PIECE = 64 * 1024


@dataclass
class Asked:
    """One request."""

    number: int
    path: str
    headers: dict[str, str]
    """Header names in lower case."""

    @property
    def range(self) -> tuple[int, int] | None:
        """[start, end)"""
        value = self.headers.get("range")
        if value is None:
            return None
        first, last = value.removeprefix("bytes=").split("-")
        return int(first), int(last) + 1


@dataclass
class Reply:
    """One response, exactly as sent over the wire."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | Iterable[bytes] = b""
    length: int | None = -1
    """Content-Length; -1: the correct one; None: none, so closing the connection ends the body."""
    stall: bool = False
    """After the body, sends nothing more and keeps the connection open."""
    drop: bool = False
    """Closes the connection after the body, whatever the length says."""
    raw: bytes | None = None
    """Sent instead of everything else."""


Script = Callable[[Asked], Reply | None]


class Nasty:
    """A context manager. `url` is the file's."""

    def __init__(self, content: bytes = b"", *, host: str = "127.0.0.1", context: ssl.SSLContext | None = None) -> None:
        self.content = content
        self.etag: str | None = '"one"'
        self.ranges = True
        self.script: Script = lambda _: None
        self.keep_unframed = False
        """Keeps connections open even after a response without Content-Length."""
        self.pause_s = 0.0
        """Pause after each piece sent."""
        self.asked: list[Asked] = []
        self.sent_bytes = 0
        """Of bodies."""
        self.most_at_once = 0
        self.num_connections = 0
        self.buffer_bytes: int | None = None
        """The system's send buffer."""
        self._at_once = 0
        self._lock = threading.Condition()
        self._closing = threading.Event()
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._context = context
        self._listener = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.port: int = self._listener.getsockname()[1]
        self.host = f"[{host}]" if ":" in host else host

    @property
    def origin(self) -> str:
        return f"{'http' if self._context is None else 'https'}://{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.origin}/file.gguf"

    @property
    def digest(self) -> Digest:
        return Digest(hashlib.sha256(self.content).hexdigest())

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closing.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        with self._lock:
            for connection in self._connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # the client was faster
        for thread in list(self._threads):
            thread.join()
        self._listener.close()

    def sent_when_idle(self) -> int:
        """`sent_bytes` once no response is in progress: a server keeps filling its buffers for a while."""
        with self._lock:
            assert self._lock.wait_for(lambda: self._at_once == 0, timeout=30)
            return self.sent_bytes

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if self.buffer_bytes is not None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.buffer_bytes)
            with self._lock:
                self.num_connections += 1
                self._connections.add(connection)
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._context is not None:
                wrapped: socket.socket = self._context.wrap_socket(connection, server_side=True)
            else:
                wrapped = connection
            with wrapped, wrapped.makefile("rb") as reader:
                while (asked := self._read(reader)) is not None:
                    with self._lock:
                        self._at_once += 1
                        self.most_at_once = max(self.most_at_once, self._at_once)
                    try:
                        if not self._answer(wrapped, self.script(asked) or self.ordinary(asked)):
                            return
                    finally:
                        with self._lock:
                            self._at_once -= 1
                            self._lock.notify_all()
        except OSError:
            return  # the client went away, as it may
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def _read(self, reader: Iterable[bytes]) -> Asked | None:
        lines: list[str] = []
        for line in reader:
            if line in (b"\r\n", b"\n"):
                break
            lines.append(line.decode("latin-1").rstrip())
        if not lines:
            return None
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        with self._lock:
            asked = Asked(len(self.asked), lines[0].split()[1], headers)
            self.asked.append(asked)
        return asked

    def ordinary(self, asked: Asked) -> Reply:
        """A well-behaved server's response."""
        headers = {} if self.etag is None else {"ETag": self.etag}
        content, wanted = self.content, asked.range
        if wanted is None or not self.ranges or asked.headers.get("if-range", self.etag) != self.etag:
            return Reply(200, headers, self.paced(content), len(content))
        start, end = wanted[0], min(wanted[1], len(content))
        if start >= end:
            return Reply(416, {**headers, "Content-Range": f"bytes */{len(content)}"})
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(content)}"
        return Reply(206, headers, self.paced(content[start:end]), end - start)

    def paced(self, body: bytes) -> Iterator[bytes]:
        """Sends pieces with `pause_s` between them."""
        for start in range(0, len(body), PIECE):
            yield body[start : start + PIECE]
            if self.pause_s:
                time.sleep(self.pause_s)

    def _answer(self, connection: socket.socket, reply: Reply) -> bool:
        """Whether the connection can be reused."""
        if reply.raw is not None:
            connection.sendall(reply.raw)
            return not reply.drop
        length = reply.length
        if length == -1:
            length = len(reply.body) if isinstance(reply.body, bytes) else None
        headers = dict(reply.headers)
        if length is not None:
            headers.setdefault("Content-Length", str(length))
        lines = [f"HTTP/1.1 {reply.status} Whatever", *(f"{name}: {value}" for name, value in headers.items())]
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
        for piece in [reply.body] if isinstance(reply.body, bytes) else reply.body:
            connection.sendall(piece)
            with self._lock:
                self.sent_bytes += len(piece)
        if reply.stall:
            self._closing.wait()
        return not reply.drop and not reply.stall and (length is not None or self.keep_unframed)


def content(size: int, seed: int = 7) -> bytes:
    """Content in which no two parts are equal."""
    return random.Random(seed).randbytes(size)


def chunked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """For `Transfer-Encoding: chunked`."""
    for piece in pieces:
        yield b"%x\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"
