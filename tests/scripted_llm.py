"""An OpenAI-style server on loopback that answers as a test tells it to: a function gets each request and writes.

Real HTTP with connections that stay open, a thread for each. Knows nothing of localllm.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE_S = 60.0
"""Nothing here waits longer; a test that needs it has failed."""
MODELS = {"object": "list", "data": [{"id": "scripted", "object": "model"}]}


class Call:
    """One request, and what can be said to it."""

    def __init__(
        self, number: int, body: dict[str, Any], handler: BaseHTTPRequestHandler, closing: threading.Event
    ) -> None:
        self.number = number
        """From 0, in the order in which requests came."""
        self.body = body
        self.path = handler.path
        self.headers = dict(handler.headers)
        self.port = handler.client_address[1]
        """The client's: one for each connection."""
        self._handler = handler
        self._closing = closing

    @property
    def content(self) -> str:
        """The last message's text."""
        return str(self.body["messages"][-1]["content"])

    def start(self, content_type: str = "text/event-stream") -> None:
        self._handler.send_response(200)
        self._handler.send_header("content-type", content_type)
        self._handler.send_header("transfer-encoding", "chunked")
        self._handler.end_headers()

    def raw(self, data: bytes) -> None:
        """One HTTP chunk."""
        self._handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def event(self, data: dict[str, Any] | str) -> None:
        text = data if isinstance(data, str) else json.dumps(data)
        self.raw(f"data: {text}\n\n".encode())

    def text(self, piece: str) -> None:
        self.event({"choices": [{"index": 0, "delta": {"content": piece}}]})

    def finish(self, **usage: Any) -> None:
        """The end of a whole answer; with what is said of its tokens, if anything is."""
        self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
        if usage:
            self.event({"choices": [], "usage": usage})
        self.event("[DONE]")
        self.raw(b"")

    def answer(self, num_tokens: int | None = None) -> None:
        """All of an ordinary answer: a prompt token for each word and four for the template."""
        count = int(self.body.get("max_tokens", 4)) if num_tokens is None else num_tokens
        self.start()
        for _ in range(count):
            self.text("word ")
        words = sum(len(str(message["content"]).split()) for message in self.body["messages"])
        self.finish(prompt_tokens=words + 4, completion_tokens=count)

    def fail(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self._handler.send_response(status)
        self._handler.send_header("content-type", "application/json")
        self._handler.send_header("content-length", str(len(data)))
        self._handler.end_headers()
        self._handler.wfile.write(data)

    def hang_up(self) -> None:
        """Close the connection, whatever was promised."""
        self._handler.close_connection = True
        self._handler.connection.shutdown(socket.SHUT_RDWR)

    def stay_silent(self) -> None:
        """Until the server is closed."""
        self._closing.wait(PATIENCE_S)
        self._handler.close_connection = True


class ScriptedLLM:
    """A context manager; `calls` are all requests for answers so far."""

    def __init__(self, script: Callable[[Call], None] = Call.answer, models: dict[str, Any] | int = MODELS) -> None:
        self.calls: list[Call] = []
        lock, closing = threading.Lock(), threading.Event()
        calls = self.calls

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = PATIENCE_S
            disable_nagle_algorithm = True  # it would hold each piece back for 40 ms

            def do_GET(self) -> None:
                call = Call(-1, {}, self, closing)
                if isinstance(models, int):
                    call.fail(models, {"error": {"message": "no list for you"}})
                else:
                    call.fail(200, models)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with lock:
                    call = Call(len(calls), body, self, closing)
                    calls.append(call)
                try:
                    script(call)
                except ConnectionError:  # the client went away, which some tests want
                    self.close_connection = True

            def log_message(self, *_: Any) -> None:
                pass

        self._closing = closing
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ScriptedLLM:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
