"""llama-server's `/tools`, for the MCP servers in the settings; refused if there are none.

llama-server's built-in tools read files and run commands for any client, so they are always refused by name.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.errors import UnsupportedParameter, clipped
from localllm.server.edge.callers import caller_of
from localllm.server.edge.sse import unless_gone
from localllm.server.errors import FeatureDisabled, NotFound
from localllm.server.mcp import McpHubs
from localllm.server.requests.body import json_response
from localllm.server.requests.field_rules import known
from localllm.server.requests.reading import read
from localllm.server.state import ServerState

BUILT_IN = frozenset(
    ("read_file", "file_glob_search", "grep_search", "exec_shell_command", "write_file", "edit_file", "get_info")
)
"""llama-server's own."""
HEADERS = ("x-tool-cwd", "x-tool-runtime", "x-resp-type")
"""Headers of llama-server's built-in tools."""


class Permissions(msgspec.Struct, frozen=True):
    write: bool
    """Whether it may modify something, according to its server."""


class ListedTool(msgspec.Struct, frozen=True, kw_only=True):
    """One element of `GET /tools`."""

    display_name: str
    tool: str
    type: str = "mcp"
    permissions: Permissions
    uses_cwd: bool = False
    definition: dict[str, Any]
    """In the format of a chat's `tools`."""


class ToolRequest(msgspec.Struct, frozen=True):
    """`POST /tools`."""

    tool: str
    params: dict[str, Any] = {}
    stream: bool | None = None


class ToolReply(msgspec.Struct, frozen=True):
    """The result: a text or an error."""

    plain_text_response: str | UnsetType = UNSET
    error: str | UnsetType = UNSET
    content: Raw | UnsetType = UNSET
    """The parts in MCP's shape, if there are pictures, sounds or other files among them. llama-server has no such
    field."""


class _Place(NamedTuple):
    """A tool's server, and its name there."""

    label: str
    name: str


def routes() -> list[Route]:
    """Endpoints of this module."""
    return [Route("/tools", list_tools), Route("/tools", call_tool, methods=["POST"])]


async def list_tools(request: Request) -> Response:
    """`GET /tools`: the tools of all usable servers; the log says why others are not."""
    hubs = _hubs(request, "list the tools of MCP servers")
    listed, _ = await unless_gone(request.receive, _tools(hubs, hubs.labels))
    return Response(msgspec.json.encode(listed), media_type="application/json")


async def call_tool(request: Request) -> Response:
    """`POST /tools`: a failed tool is reported with status 200, as in llama-server."""
    hubs = _hubs(request, "run tools of MCP servers")
    _, asked, headers = await read(request, known(ToolRequest))
    for header in HEADERS:
        if header in request.headers:
            raise UnsupportedParameter(
                f"{header} belongs to llama-server's built-in tools, which are not supported", param=header
            )
    if asked.stream:
        raise UnsupportedParameter("stream: MCP tools return their result at the end; leave it out", param="stream")
    return json_response(await unless_gone(request.receive, _called(hubs, asked)), headers)


async def _called(hubs: McpHubs, asked: ToolRequest) -> ToolReply:
    _, places = await _tools(hubs, [label for label in hubs.labels if asked.tool.startswith(f"{label}_")])
    place = places.get(asked.tool)
    if place is None:
        if asked.tool in BUILT_IN:
            raise FeatureDisabled(
                f"{asked.tool} is a built-in tool of llama-server: this server reads no files and runs no commands"
            )
        raise NotFound(f"unknown tool {clipped(asked.tool)!r}; GET /tools lists them", param="tool")
    hub = await hubs.hub(place.label)
    outcome = await hub.call(place.name, msgspec.json.encode(asked.params).decode())
    if outcome.is_error:
        return ToolReply(error=outcome.text)
    return ToolReply(outcome.text, content=Raw(outcome.content.encode()) if outcome.content else UNSET)


async def _tools(hubs: McpHubs, labels: list[str]) -> tuple[list[ListedTool], dict[str, _Place]]:
    """Tools by llama-server's names, `SERVER_TOOL`; of several with the same name, the first."""
    found = await asyncio.gather(*(hubs.hub(label) for label in labels))
    listed: list[ListedTool] = []
    places: dict[str, _Place] = {}
    for label, hub in zip(labels, found, strict=True):
        for tool in hub.tools:
            name = f"{label}_{tool.tool}"
            if name in places:
                continue
            places[name] = _Place(label, tool.name)
            function = {"name": name, "description": tool.description, "parameters": tool.parameters}
            listed.append(
                ListedTool(
                    display_name=name,
                    tool=name,
                    permissions=Permissions(write=not tool.is_read_only),
                    definition={"type": "function", "function": function},
                )
            )
    return listed, places


def _hubs(request: Request, what: str) -> McpHubs:
    """Raises `FeatureDisabled` if the settings name no servers, and `PermissionDenied`."""
    state: ServerState = request.app.state.server
    if not state.mcp.is_on:
        raise FeatureDisabled(
            "only tools of MCP servers in the settings are available, and there are none: --mcp-servers"
        )
    caller_of(request).check_may(what)
    return state.mcp
