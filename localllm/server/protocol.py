"""One HTTP/1.1 connection: uvicorn's own, that also gives up clients which send too much, too slowly, or take nothing.

What uvicorn answers with plain text, or not at all, is an error object here. Knows nothing of requests' contents.
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
from localllm.server import log
from localllm.server.connections import Connections
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
"""For a refused client to read why: a socket that is closed with unread bytes is reset, and the answer lost."""

SEND_BUFFER_BYTES = 128 * 1024
"""Left to itself the system keeps megabytes, of which a client that reads is noticed only when a third is taken; and
what waits here is stale, while what waits in a mailbox is merged."""


class Bounds(NamedTuple):
    """Of one connection. Times of 0 are for ever."""

    max_header_bytes: int = 64 * 1024
    timeout_s: float = 60.0
    slow_reader_timeout_s: float = 60.0


class Connection(H11Protocol):
    """How a client is given up:

    opened, or first byte of a head --timeout_s--> head complete     else 408, or closed if nothing came at all
    answered with the body unread   --timeout_s--> body complete     else closed     (before that: `TimedBody`)
    write buffer over its high mark --slow_reader_timeout_s--> something was taken, else dropped
    """

    bounds: ClassVar[Bounds] = Bounds()
    others: ClassVar[Connections[Connection]] = Connections(1000)
    has_room = True
    """False: it is told so and closed."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._arrival: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        if not self.has_room:
            self.others.refused(self)
            self._refuse(too_many_connections(self.others.most))
            return
        self.others.opened(self)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self.others.lost(self)
        self._arrived()
        self._took()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        if self.conn.their_state is h11.IDLE:
            self._expect()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE and not self._is_leftover():
            self._arrived()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.others.rested(self)
        begun = self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
        if begun or self._is_leftover():
            self._expect()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (uvicorn's signature)
        """Called while h11's error is being handled, which knows better what is wrong."""
        error = sys.exception()
        if isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == 431:
            self._refuse(headers_too_large(self.bounds.max_header_bytes))
        else:
            self._refuse(MalformedRequest(f"this is not a request in HTTP/1.1: {clipped(str(error))}"))

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        self._took()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch_reader()  # closing waits until all is written, be it for ever

    @property
    def is_idle(self) -> bool:
        """Nothing was asked that is not answered; a head that is not whole yet is nothing."""
        is_answered = self.cycle is None or self.cycle.response_complete
        is_written = not self.transport.get_write_buffer_size()
        return self.conn.their_state is h11.IDLE and is_answered and is_written and not self.transport.is_closing()

    def drop(self) -> None:
        """For another that has something to ask."""
        self.transport.abort()

    def _is_leftover(self) -> bool:
        """Whether what still comes is the body of a request that was answered already."""
        return self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.DONE

    def _expect(self) -> None:
        if self._arrival is None and self.bounds.timeout_s:
            self._arrival = self.loop.call_later(self.bounds.timeout_s, self._did_not_arrive)

    def _arrived(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _did_not_arrive(self) -> None:
        self._arrival = None
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._refuse(slow_request("head", self.bounds.timeout_s))
        else:
            self.transport.close()
            self._watch_reader()

    def _refuse(self, error: LocalLLMError) -> None:
        """Answer without a request: the log line is here, too, since the application never sees one."""
        self._is_refused = True
        self._arrived()
        id = self._request_id()
        log.event(logging.INFO, "refused", id=id, code=error.code, client=self.client and self.client[0])
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()  # in the middle of an answer there is no place for another
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
        """That of the request at hand, which the application uses as well; a new one where none has come that far."""
        if self.cycle is not None and not self.cycle.response_complete:
            return log.id_of(self.cycle.scope)
        return secrets.token_hex(8)

    def _watch_reader(self) -> None:
        self._took()
        if self.bounds.slow_reader_timeout_s:
            waiting_bytes = self.transport.get_write_buffer_size()
            self._stall = self.loop.call_later(self.bounds.slow_reader_timeout_s, self._took_nothing, waiting_bytes)

    def _took(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _took_nothing(self, waiting_bytes: int) -> None:
        """Unless it did: one that takes little by little is slow, but there."""
        if self.transport.get_write_buffer_size() < waiting_bytes:
            self._watch_reader()
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.scope["state"]["slow_reader"] = True
        self.transport.abort()


def connection_class(given: Bounds, connections: Connections[Connection]) -> type[Connection]:
    """What uvicorn makes for every connection: it takes a class and passes no more than itself."""

    class BoundedConnection(Connection):
        bounds = given
        others = connections

    return BoundedConnection
