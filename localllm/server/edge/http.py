"""uvicorn on a socket that we bound and close: without signal handlers or polling, logging through our log."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import ssl
from collections.abc import Generator, Sequence

from starlette.types import ASGIApp
from uvicorn import Config, Server

from localllm.server.edge.connections import Acceptor, Connections
from localllm.server.edge.protocol import Bounds, Connection, connection_class

_TICK_S = 1.0


class HttpServer:
    """One server on the running event loop: `start`, then `stop`."""

    def __init__(
        self, app: ASGIApp, bounds: Bounds, tls: ssl.SSLContext | None = None, *, max_connections: int = 1000
    ) -> None:
        connections = Connections[Connection](max_connections)
        config = Config(
            app,
            http=connection_class(bounds, connections),
            h11_max_incomplete_event_size=bounds.max_header_bytes,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=30,
        )
        config.load()
        self._server = _Server(config, connections, tls)
        self._task: asyncio.Task[None] | None = None

    def start(self, listener: socket.socket, plain: Sequence[socket.socket] = ()) -> None:
        """Serve on a listening socket, and on others without TLS."""
        self._server.plain = plain
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]))

    async def stop(self, *, timeout_s: float) -> None:
        """Accept no more connections; give running answers `timeout_s` to finish, then cancel them."""
        if self._task is None:
            return
        self._server.config.timeout_graceful_shutdown = math.ceil(timeout_s)
        self._server.stopping.set()
        await self._task


class _Server(Server):
    def __init__(self, config: Config, connections: Connections[Connection], tls: ssl.SSLContext | None) -> None:
        super().__init__(config)
        self.stopping = asyncio.Event()
        self._connections = connections
        self._tls = tls
        self.plain: Sequence[socket.socket] = ()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """uvicorn with an accept loop that limits connections."""
        listeners = [(listener, self._tls) for listener in sockets or ()] + [(each, None) for each in self.plain]
        acceptors = [Acceptor(each, self._connection, self._connections, tls) for each, tls in listeners]
        self.servers = acceptors  # type: ignore[assignment]  # uvicorn calls `close` and `wait_closed` only
        self.started = True

    def _connection(self, has_room: bool) -> asyncio.Protocol:
        kind: type[Connection] = self.config.http_protocol_class  # type: ignore[assignment]
        connection = kind(self.config, self.server_state, {})
        connection.has_room = has_room
        return connection

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def main_loop(self) -> None:
        """Like uvicorn's, which polls a flag ten times a second; this one wakes only to update the Date header."""
        while not await self.on_tick(0) and not self.stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), _TICK_S)
        self.should_exit = True
