"""Wraps the hub for blocking code, with an event loop on its own thread. Knows no server."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from localllm.mcp.outcome import Outcome
from localllm.mcp.server_pool import Hub, HubTool
from localllm.mcp.servers import McpServer

T = TypeVar("T")

WAIT_SLICE_S = 0.25
"""Windows delivers Ctrl-C only between two waits."""


class BlockingHub:
    """A context manager. When it exits, all servers have exited."""

    def __init__(self, servers: Iterable[McpServer], *, timeout_s: float) -> None:
        self._servers = tuple(servers)
        self._timeout_s = timeout_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="mcp", daemon=True)
        self._hub: Hub | None = None

    def __enter__(self) -> BlockingHub:
        self._thread.start()
        try:
            self._wait(self._open())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        hub = self._hub
        if hub is not None:
            # A second Ctrl-C must not leave a process behind; this takes a few seconds at most.
            asyncio.run_coroutine_threadsafe(hub.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    @property
    def tools(self) -> tuple[HubTool, ...]:
        """The available tools, as last listed."""
        return () if self._hub is None else self._hub.tools

    def take_notes(self) -> list[str]:
        """Notes for the user, each reported once."""
        return [] if self._hub is None else self._hub.take_notes()

    def refresh(self) -> bool:
        """List changed tools again; returns whether any changed."""
        assert self._hub is not None
        return self._wait(self._hub.refresh())

    def call(self, name: str, arguments: str) -> Outcome:
        """Call a tool. `KeyboardInterrupt` also cancels the call at the server."""
        assert self._hub is not None
        return self._wait(self._hub.call(name, arguments))

    async def _open(self) -> None:
        self._hub = Hub(self._servers, timeout_s=self._timeout_s)
        await self._hub.open()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            while True:
                try:
                    return future.result(WAIT_SLICE_S)
                except concurrent.futures.TimeoutError:
                    if future.done():  # its own timeout, or it ended just after this one
                        return future.result()
        except BaseException:
            future.cancel()
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        # Servers' errors are reported as notes or results; the SDK's log lines would disturb the terminal.
        logging.getLogger("mcp").addHandler(logging.NullHandler())
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()
