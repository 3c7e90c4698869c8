"""The connection to one MCP server: starting, listing tools, calling, stopping. Knows no model and no names.

One task holds the SDK's client from beginning to end; calls may come from any task of the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared._httpx_utils import create_mcp_http_client

from localllm import __version__
from localllm.errors import clipped
from localllm.mcp.child import Child, running
from localllm.mcp.outcome import Outcome
from localllm.mcp.results import outcome_of
from localllm.mcp.servers import McpServer, StdioServer

logger = logging.getLogger("localllm")

MAX_TOOLS = 1000
"""Maximum tools of one server; more are not read."""
MAX_PAGES = 100
LAST_WORDS_S = 1.0
"""Seconds to wait for the exit of a program whose stdout has closed, to report its exit status."""
MAX_WORDS = 500
"""Maximum length of a server's message in an error."""
CLOSED = "Connection closed"
"""The SDK's message for a closed connection; its error code is also used by servers for their own errors."""
_FAILURES = (MCPError, OSError, RuntimeError, ValueError, httpx2.HTTPError, anyio.ClosedResourceError)
"""What the SDK raises for faulty servers, possibly in an `ExceptionGroup`."""


class Connection:
    """The connection to one server. Belongs to one event loop."""

    def __init__(self, server: McpServer, *, timeout_s: float) -> None:
        self.server = server
        self.tools: tuple[types.Tool, ...] = ()
        """As last listed, without excluded ones."""
        self.failure: str | None = None
        """Why it cannot be used; None if it can."""
        self.num_unread = 0
        """At least how many tools were beyond the limit."""
        self._timeout_s = timeout_s
        self._child = Child()
        self._client: Client | None = None
        self.changed = asyncio.Event()
        """Whether it has announced that its tools changed."""
        self._scope = anyio.CancelScope()
        self._closing = asyncio.Event()
        self._opened: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.server.name

    @property
    def num_dropped(self) -> int:
        """The number of lines on its stdout that were not messages."""
        return self._child.num_dropped

    async def open(self) -> None:
        """Start it and list its tools, within a time limit. Errors go to `failure`."""
        self._opened = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(), name=f"mcp {self.name}")
        done, _ = await asyncio.wait([self._opened], timeout=self._timeout_s)
        if not done:
            self._fail(f"it did not answer within {self._timeout_s:g} s")
            self._scope.cancel()

    async def refresh(self) -> bool:
        """List its tools again if it announced a change; returns whether it did."""
        if not self.changed.is_set() or self._client is None or self.failure is not None:
            return False
        self.changed.clear()
        try:
            await self._list(self._client)
        except (*_FAILURES, ExceptionGroup) as error:
            self._fail(await self._reason(error))
        return True

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call a tool; errors are results, too. Cancelling also cancels the call at the server."""
        if self._client is None or self.failure is not None:
            return Outcome(f"{self.name} cannot be used: {self.failure or 'it is not connected'}", is_error=True)
        try:
            result = await self._client.call_tool(tool, dict(arguments), read_timeout_seconds=self._timeout_s)
        except (*_FAILURES, ExceptionGroup) as error:
            reason = await self._reason(error)
            if self._is_over(error):
                self._fail(reason)
            return Outcome(f"the call failed: {reason}", is_error=True)
        return outcome_of(result)

    async def close(self) -> None:
        """Stop it, and wait for its exit. Idempotent."""
        self._closing.set()
        if self._opened is not None and not self._opened.done():
            self._scope.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _live(self) -> None:
        """Its whole lifetime in one task: contexts entered here are exited here."""
        opened = self._opened
        assert opened is not None
        try:
            with self._scope:
                await self._serve(opened)
        except (*_FAILURES, ExceptionGroup) as error:
            self._fail(await self._reason(error))
        finally:
            self._client = None
            self._fail("it was stopped")
            if not opened.done():
                opened.set_result(None)

    async def _serve(self, opened: asyncio.Future[None]) -> None:
        async with contextlib.AsyncExitStack() as stack:
            if isinstance(self.server, StdioServer):
                transport: Any = running(self.server, self._child)
            else:
                http = create_mcp_http_client(dict(self.server.headers))
                await stack.enter_async_context(http)
                transport = streamable_http_client(self.server.url, http_client=http)
            client = await stack.enter_async_context(
                Client(
                    transport,
                    read_timeout_seconds=self._timeout_s,
                    message_handler=self._heard,
                    client_info=types.Implementation(name="localllm", version=__version__),
                    cache=None,
                )
            )
            await self._list(client)
            self._client = client
            opened.set_result(None)
            listening = asyncio.create_task(self._listen(client))
            try:
                await self._closing.wait()
            finally:
                listening.cancel()
                await asyncio.wait([listening])

    async def _heard(self, message: types.ServerNotification | Exception) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.changed.set()

    async def _listen(self, client: Client) -> None:
        """Subscribe to changes, if the protocol version requires it."""
        capability = client.server_capabilities.tools
        if capability is None or not capability.list_changed:
            return
        try:
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self.changed.set()
        except (ListenNotSupportedError, SubscriptionLost):
            return  # an older protocol without subscriptions, or the server is exiting
        except (*_FAILURES, ExceptionGroup) as error:
            logger.debug("mcp: %s does not announce changes of its tools: %s", self.name, await self._reason(error))

    async def _list(self, client: Client) -> None:
        """Raises what the SDK raises."""
        found: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if cursor is None or len(found) > MAX_TOOLS:
                break
        self.num_unread = max(0, len(found) - MAX_TOOLS)
        include, exclude = self.server.include, self.server.exclude
        self.tools = tuple(
            tool for tool in found[:MAX_TOOLS] if (include is None or tool.name in include) and tool.name not in exclude
        )

    def _fail(self, reason: str) -> None:
        """Keep only the first reason."""
        if self.failure is None:
            self.failure = reason

    async def _reason(self, error: BaseException) -> str:
        """An error message: how the program exited, or else the SDK's error."""
        if self._is_over(error):
            await self._child.has_ended(LAST_WORDS_S)
        if self._is_over(error) and self._child.end:
            return clipped(self._child.end, MAX_WORDS)
        first = next(_leaves(error))
        if isinstance(first, MCPError) and first.code == types.REQUEST_TIMEOUT:
            return f"it did not answer within {self._timeout_s:g} s"
        words = str(first).partition("\n")[0] or type(first).__name__
        if isinstance(first, OSError) and isinstance(self.server, StdioServer):
            words = f"{self.server.command} cannot be run: {first.strerror or first}"
        dropped = self._child.num_dropped
        said = f" (it wrote {dropped} lines that are not messages to its stdout)" if dropped else ""
        return clipped(words, MAX_WORDS) + said

    def _is_over(self, error: BaseException) -> bool:
        """Whether the connection failed, not only the call."""
        codes = {leaf.code for leaf in _leaves(error) if isinstance(leaf, MCPError) and leaf.message == CLOSED}
        return types.CONNECTION_CLOSED in codes or bool(self._child.fault)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
