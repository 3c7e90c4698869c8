"""The MCP servers of the settings, whose tools requests may use: started on first use, stopped with the server.

Knows no API. A failed MCP server is restarted on its next use.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from localllm.mcp import check_installed
from localllm.mcp.servers import McpServer, load_servers
from localllm.server.edge import log
from localllm.settings.config import Settings

if TYPE_CHECKING:
    from localllm.mcp.server_pool import Hub

PARAM = "mcp_servers"


class McpHubs:
    """One hub per MCP server, so that a slow one delays no other requests. Belongs to one event loop."""

    def __init__(self, settings: Settings) -> None:
        """Raises `InvalidParameter`, `UnsupportedParameter`, for an invalid file."""
        self._timeout_s = settings.mcp_timeout_s
        self._servers: dict[str, McpServer] = {}
        self._hubs: dict[str, Hub] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}
        if settings.mcp_servers is not None:
            check_installed(PARAM)
            found = load_servers(settings.mcp_servers, os.environ, param=PARAM)
            self._servers = {server.name: server for server in found.servers}
            for note in found.notes:
                log.event(logging.WARNING, "mcp_servers", note=note)

    @property
    def is_on(self) -> bool:
        """Whether the settings name any MCP servers."""
        return bool(self._servers)

    @property
    def labels(self) -> list[str]:
        return list(self._servers)

    async def hub(self, label: str) -> Hub:
        """The hub of one server with its current tools; it may have failed. Cancelling affects no other caller."""
        task = self._opening.get(label)
        if task is None or (task.done() and self._hubs[label].failure(label) is not None):
            self._opening[label] = task = asyncio.create_task(self._open(label), name=f"mcp {label}")
        await asyncio.shield(task)
        hub = self._hubs[label]
        await hub.refresh()
        for note in hub.take_notes():
            log.event(logging.WARNING, "mcp_server", label=label, note=note)
        return hub

    async def close(self) -> None:
        """Stop all of them, and wait until they have exited."""
        await asyncio.gather(*(hub.close() for hub in self._hubs.values()))
        await asyncio.gather(*self._opening.values())

    async def _open(self, label: str) -> None:
        from localllm.mcp.server_pool import Hub

        if label in self._hubs:
            await self._hubs[label].close()
        hub = self._hubs[label] = Hub([self._servers[label]], timeout_s=self._timeout_s)
        await hub.open()
