"""uvicorn on a socket that we bound, ended by us: it takes no signals, polls nothing and logs through our log."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import ssl
from collections.abc import Generator

from starlette.types import ASGIApp
from uvicorn import Config, Server

from localllm.server.protocol import Bounds, connection_class

_TICK_S = 1.0


class HttpServer:
    """One server on the running event loop: `start`, then `stop`."""

    def __init__(self, app: ASGIApp, bounds: Bounds, tls: ssl.SSLContext | None = None) -> None:
        config = Config(
            app,
            http=connection_class(bounds),
            h11_max_incomplete_event_size=bounds.max_header_bytes,
            ssl_context_factory=None if tls is None else lambda *_: tls,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=30,
        )
        config.load()
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

    def start(self, listener: socket.socket) -> None:
        """Answer on a socket that listens already."""
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]))

    async def stop(self, *, timeout_s: float) -> None:
        """Take no more connections; let running answers end within `timeout_s`, then cancel them."""
        if self._task is None:
            return
        self._server.config.timeout_graceful_shutdown = math.ceil(timeout_s)
        self._server.stopping.set()
        await self._task


class _Server(Server):
    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.stopping = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def main_loop(self) -> None:
        """As uvicorn's, which looks at its flag ten times a second; this one wakes up for the Date header alone."""
        while not await self.on_tick(0) and not self.stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), _TICK_S)
        self.should_exit = True
