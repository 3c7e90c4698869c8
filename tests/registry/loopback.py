"""A small scriptable HTTP server on loopback that records requests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import parse_qs, unquote, urlsplit


class Asked(NamedTuple):
    """One request; header names in lower case."""

    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    raw_path: str


class Answer(NamedTuple):
    """One response."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


class LoopbackServer:
    """Answers with `self.answer`, unless `scripted` has an answer for that path. A context manager."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.scripted: dict[str, Answer | Callable[[Asked], Answer]] = {}
        """Path without query -> answer."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def answer(self, asked: Asked) -> Answer:
        """To be implemented by servers."""
        return Answer(404, f"nothing at {asked.path}".encode())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _respond(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        scripted = self.scripted.get(asked.path)
        if scripted is None:
            return self.answer(asked)
        return scripted if isinstance(scripted, Answer) else scripted(asked)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        respond = self._respond

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = 65536

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = respond(Asked(unquote(parts.path), parse_qs(parts.query), headers, self.path))
                self.send_response(answer.status)
                for name, value in answer.headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                try:
                    self.wfile.write(answer.body)
                    self.wfile.flush()
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True  # the client has read enough

            def log_message(self, format: str, *args: object) -> None:
                """Logs nothing."""

        return Handler


def no_pause(seconds: float, is_cancelled: Callable[[], bool]) -> None:
    """For `Net`, so that no test waits for a retry."""


def ranged(content: bytes, asked: Asked, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    """The content, or the part requested by a simple `Range` header."""
    wanted = asked.headers.get("range", "")
    if not wanted.startswith("bytes="):
        return Answer(200, content, (("Accept-Ranges", "bytes"), *headers))
    first, _, last = wanted[6:].partition("-")
    begin, end = int(first), min(int(last) if last else len(content) - 1, len(content) - 1)
    if begin > end:
        return Answer(416, b"", (("Content-Range", f"bytes */{len(content)}"),))
    span = ("Content-Range", f"bytes {begin}-{end}/{len(content)}")
    return Answer(206, content[begin : end + 1], (span, *headers))
