"""One HTTP/1.1 connection: uvicorn's, which also drops clients that send too much or too slowly, or read nothing.

Where uvicorn replies with plain text, or not at all, this sends an error object. Knows nothing of requests' contents.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import sys
from typing import Any, ClassVar, NamedTuple

import h11
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from localllm.errors import LocalLLMError, clipped
from localllm.server.edge import log
from localllm.server.edge.connections import Connections
from localllm.server.errors import (
    MalformedRequest,
    error_body,
    error_headers,
    headers_too_large,
    slow_request,
    status_of,
    too_many_connections,
)  # fmt: skip

LINGER_S = 2.0
"""Time for a refused client to read the error: closing a socket with unread bytes resets it and loses the reply."""

FIRST_HEAD_S = 1.0
"""Time for the first request of a client that has connected just before the server ends."""

SEND_BUFFER_BYTES = 128 * 1024
"""By default the system buffers megabytes, and shows that a client reads only after a third of them. Besides, events
waiting here become stale, while those waiting in a mailbox are merged."""


class Bounds(NamedTuple):
    """Limits of one connection. Times of 0 mean no limit."""

    max_header_bytes: int = 64 * 1024
    timeout_s: float = 60.0
    slow_reader_timeout_s: float = 60.0


class Connection(H11Protocol):
    """When a client is dropped:

    opened, or first byte of a head --timeout_s--> head complete     else 408, or closed if nothing arrived
    answered with the body unread   --timeout_s--> body complete     else closed     (before that: `TimedBody`)
    write buffer over its high mark --slow_reader_timeout_s--> something was read, else dropped
    """

    bounds: ClassVar[Bounds] = Bounds()
    others: ClassVar[Connections[Connection]] = Connections(1000)
    has_room = True
    """False: it gets an error and is closed."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._arrival_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._is_refused = False
        self._was_used = False
        """Whether a request ever came."""
        self._is_ending = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        if not self.has_room:
            self.others.refused(self)
            self._refuse(too_many_connections(self.others.most))
            return
        self.others.opened(self)
        self._start_arrival_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self.others.lost(self)
        self._stop_arrival_timer()
        self._stop_stall_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        if self.conn.their_state is h11.IDLE:
            self._start_arrival_timer()
        super().data_received(data)
        self._was_used = self._was_used or self.conn.their_state is not h11.IDLE
        if self._is_ending and self._was_used and not self._is_refused:
            self.cycle.keep_alive = False
        if self.conn.their_state is not h11.IDLE and not self._is_leftover():
            self._stop_arrival_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.others.rested(self)
        begun = self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
        if begun or self._is_leftover():
            self._start_arrival_timer()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (uvicorn's signature)
        """Called while h11's error is being handled, which has the details."""
        error = sys.exception()
        if isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == 431:
            self._refuse(headers_too_large(self.bounds.max_header_bytes))
        else:
            self._refuse(MalformedRequest(f"not a valid HTTP/1.1 request: {clipped(str(error))}"))

    def pause_writing(self) -> None:
        super().pause_writing()
        self._restart_stall_timer()

    def resume_writing(self) -> None:
        self._stop_stall_timer()
        super().resume_writing()

    def shutdown(self) -> None:
        """Close it once its answer is sent; if no request ever came, soon."""
        if self._was_used or self._is_refused or self._is_ending:
            super().shutdown()
            return
        self._is_ending = True
        self.loop.call_later(FIRST_HEAD_S, self._end_unused)

    def _end_unused(self) -> None:
        if not self._was_used and not self.transport.is_closing():
            super().shutdown()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._restart_stall_timer()  # closing waits until everything is written, possibly indefinitely

    @property
    def is_idle(self) -> bool:
        """Whether no request is unanswered; incomplete headers do not count as one."""
        is_answered = self.cycle is None or self.cycle.response_complete
        is_written = not self.transport.get_write_buffer_size()
        return self.conn.their_state is h11.IDLE and is_answered and is_written and not self.transport.is_closing()

    def drop(self) -> None:
        """Close it to make room for another connection."""
        self.transport.abort()

    def _is_leftover(self) -> bool:
        """Whether the bytes still arriving are the body of an answered request."""
        return self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.DONE

    def _start_arrival_timer(self) -> None:
        if self._arrival_timer is None and self.bounds.timeout_s:
            self._arrival_timer = self.loop.call_later(self.bounds.timeout_s, self._on_late_arrival)

    def _stop_arrival_timer(self) -> None:
        if self._arrival_timer is not None:
            self._arrival_timer.cancel()
            self._arrival_timer = None

    def _on_late_arrival(self) -> None:
        self._arrival_timer = None
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._refuse(slow_request("head", self.bounds.timeout_s))
        else:
            self.transport.close()
            self._restart_stall_timer()

    def _refuse(self, error: LocalLLMError) -> None:
        """Reply without a request. Also logs, since the application never sees it."""
        self._is_refused = True
        self._stop_arrival_timer()
        id = self._request_id()
        log.event(logging.INFO, "refused", id=id, code=error.code, client=self.client and self.client[0])
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()  # an error cannot be sent in the middle of a response
            return
        body = error_body(error)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
            (b"x-request-id", id.encode()),
            *((name.encode(), value.encode()) for name, value in error_headers(error).items() if name != "connection"),
        ]
        status = status_of(error)
        for event in (h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.transport.close)

    def _request_id(self) -> str:
        """The current request's id, which the application uses as well; a new one if there is no request yet."""
        if self.cycle is not None and not self.cycle.response_complete:
            return log.id_of(self.cycle.scope)
        return secrets.token_hex(8)

    def _restart_stall_timer(self) -> None:
        self._stop_stall_timer()
        if self.bounds.slow_reader_timeout_s:
            waiting_bytes = self.transport.get_write_buffer_size()
            self._stall_timer = self.loop.call_later(self.bounds.slow_reader_timeout_s, self._on_stall, waiting_bytes)

    def _stop_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _on_stall(self, waiting_bytes: int) -> None:
        """Drop the client unless it has read something: a slow reader is still there."""
        if self.transport.get_write_buffer_size() < waiting_bytes:
            self._restart_stall_timer()
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.scope["state"]["slow_reader"] = True
        self.transport.abort()


def connection_class(given: Bounds, connections: Connections[Connection]) -> type[Connection]:
    """The class that uvicorn instantiates per connection, passing only its own arguments."""

    class BoundedConnection(Connection):
        bounds = given
        others = connections

    return BoundedConnection
