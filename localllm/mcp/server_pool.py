"""Holds all MCP servers of a configuration, names their tools, and routes calls to them.

Knows no model and no API: a tool is a name, a description and a JSON Schema; a result is a text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from localllm.chat.surrogates import whole_json
from localllm.mcp.connection import Connection
from localllm.mcp.names import offered_names
from localllm.mcp.outcome import Outcome
from localllm.mcp.servers import McpServer

MAX_TOOLS = 128
"""Maximum tools shown to models, of all servers together: each takes a hundred tokens or more of the context."""
MAX_DESCRIPTION_CHARS = 4000
MAX_SCHEMA_BYTES = 32 * 1024


class HubTool(NamedTuple):
    """A tool as shown to models."""

    name: str
    server: str
    """Its server; `tool` is its name there."""
    tool: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema."""
    is_read_only: bool = False
    """Whether it is read-only, according to its server."""

    @property
    def function(self) -> dict[str, Any]:
        """In the format of OpenAI's `tools`."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


class Hub:
    """Servers, started together. Belongs to one event loop."""

    def __init__(self, servers: Iterable[McpServer], *, timeout_s: float) -> None:
        self._connections = {server.name: Connection(server, timeout_s=timeout_s) for server in servers}
        self._tools: dict[str, HubTool] = {}
        self._notes: dict[str, bool] = {}
        """Note -> whether it was reported."""

    async def open(self) -> None:
        """Start all of them; errors go to `notes`."""
        await asyncio.gather(*(connection.open() for connection in self._connections.values()))
        self._collect()

    async def close(self) -> None:
        """Stop all of them, and wait for their exit."""
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))

    async def refresh(self) -> bool:
        """List the tools of servers that announced changes; returns whether any did."""
        changed = await asyncio.gather(*(connection.refresh() for connection in self._connections.values()))
        if any(changed):
            self._collect()
        return any(changed)

    @property
    def tools(self) -> tuple[HubTool, ...]:
        """The tools, in the order of the servers."""
        return tuple(self._tools.values())

    def take_notes(self) -> list[str]:
        """Notes for the user, each reported once."""
        new = [note for note, is_reported in self._notes.items() if not is_reported]
        self._notes = dict.fromkeys(self._notes, True)
        return new

    def failure(self, server: str) -> str | None:
        """Why a server cannot be used; None: it can."""
        return self._connections[server].failure

    async def call(self, name: str, arguments: str) -> Outcome:
        """Call a tool as the model wrote it. Raises only when cancelled, which also cancels the call at the server."""
        tool = self._tools.get(name)
        if tool is None:
            return Outcome(f"unknown tool {name}", is_error=True)
        try:
            given = msgspec.json.decode(whole_json(arguments.encode()) or b"{}", type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return Outcome(f"the arguments are not a JSON object: {error}", is_error=True)
        return await self._connections[tool.server].call(tool.tool, given)

    def _note(self, note: str) -> None:
        self._notes.setdefault(note, False)

    def _collect(self) -> None:
        """Collect the tools of all servers by their names for models, and note omitted ones."""
        found = {}
        for connection in self._connections.values():
            if connection.failure is not None:
                self._note(f"MCP server {connection.name} cannot be used: {connection.failure}")
            if connection.num_unread:
                self._note(f"MCP server {connection.name}: only the first {len(connection.tools)} tools are read")
            found.update({(connection.name, tool.name): tool for tool in connection.tools})
        names = offered_names(found)
        self._tools = {}
        for name, (server, tool_name) in names.items():
            if len(self._tools) == MAX_TOOLS:
                self._note(
                    f"the MCP servers have {len(names)} tools, of which models see the first {MAX_TOOLS}; "
                    "select tools with a server's includeTools and excludeTools"
                )
                break
            tool = found[server, tool_name]
            if len(msgspec.json.encode(tool.input_schema)) > MAX_SCHEMA_BYTES:
                self._note(f"{name} is omitted: its schema is longer than {MAX_SCHEMA_BYTES} bytes")
                continue
            description = (tool.description or tool.title or "")[:MAX_DESCRIPTION_CHARS]
            is_read_only = tool.annotations is not None and tool.annotations.read_only_hint is True
            self._tools[name] = HubTool(name, server, tool_name, description, tool.input_schema, is_read_only)
