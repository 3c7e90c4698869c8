"""An MCP server that offers local models as tools, over stdin and stdout or Streamable HTTP on loopback.

Knows no model and no localllm server: `answering` does the work. The gate for HTTP is passed in.
"""

from __future__ import annotations

import functools
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio
import anyio.from_thread
import anyio.to_thread
import mcp_types as types
import msgspec
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError

from localllm import __version__
from localllm.errors import LocalLLMError, clipped
from localllm.mcp.offered import OFFERED, ChatAnswer, OfferedTool, json_schema
from localllm.mcp.tool_answers import Answering
from localllm.system.cancel import Cancel
from localllm.types.mismatches import mismatch

if TYPE_CHECKING:
    from starlette.types import ASGIApp

PATH = "/mcp"
HOST = "127.0.0.1"
MAX_CALLS = 32
"""Maximum concurrent tool calls, each on a thread; more wait."""
END_S = 2.0
"""Seconds for the last answers when the HTTP server is stopped."""
INSTRUCTIONS = "Language models that run on this machine: ask them, embed texts, rank documents. Nothing leaves it."

Context = ServerRequestContext[Any, Any]


def build(answering: Answering) -> Server[Any]:
    """The server, for any transport."""
    by_name = {tool.name: tool for tool in OFFERED}
    limiter = anyio.CapacityLimiter(MAX_CALLS)

    async def list_tools(_: Context, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_declared(tool) for tool in OFFERED])

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = by_name.get(params.name)
        if tool is None:
            names = ", ".join(by_name)
            raise MCPError(types.INVALID_PARAMS, f"unknown tool {clipped(params.name)!r}; available: {names}")
        try:
            asked = msgspec.convert(params.arguments or {}, tool.takes)
        except msgspec.ValidationError as error:
            path, what = mismatch(error)
            return _failed(f"invalid arguments for {tool.name}: {path or 'the object'} {what}")
        cancel = Cancel()
        work = functools.partial(answering.answer, asked, cancel, _progress(context))
        try:
            found = await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)
        except LocalLLMError as error:
            return _failed(error.public)
        finally:
            cancel.cancel()  # the client has gone, or the answer is complete
        return _given(found)

    return Server(
        "localllm",
        version=__version__,
        title="localllm",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve_stdio(answering: Answering) -> None:
    """Serve until stdin ends."""
    server = build(answering)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def serve_http(
    answering: Answering, port: int, guard: Callable[[ASGIApp], ASGIApp], ready: Callable[[str], None]
) -> None:
    """Serve on loopback until stopped. `guard`: the gate; `ready`: called with the address. Raises `OSError`."""
    app = build(answering).streamable_http_app(
        streamable_http_path=PATH,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # `guard` does that
    )
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen()
        config = uvicorn.Config(
            guard(app),
            log_config=None,
            access_log=False,
            lifespan="on",
            timeout_graceful_shutdown=int(END_S),
            server_header=False,
        )
        ready(f"http://{HOST}:{listener.getsockname()[1]}{PATH}")
        await uvicorn.Server(config).serve(sockets=[listener])


def _declared(tool: OfferedTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=json_schema(tool.takes),
        output_schema=json_schema(tool.gives),
        annotations=types.ToolAnnotations(
            title=tool.title, read_only_hint=True, destructive_hint=False, open_world_hint=False
        ),
    )


def _progress(context: Context) -> Callable[[int, int | None, str], None]:
    """Called on a worker thread; sends nothing if the client requested no progress."""

    def report(num_tokens: int, most: int | None, news: str) -> None:
        anyio.from_thread.run(context.session.report_progress, float(num_tokens), most, news or None)

    return report


def _given(found: msgspec.Struct) -> types.CallToolResult:
    """A result as structured content, and as text for clients without: answers verbatim, everything else as JSON."""
    text = found.text if isinstance(found, ChatAnswer) else msgspec.json.encode(found).decode()
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=msgspec.to_builtins(found)
    )


def _failed(why: str) -> types.CallToolResult:
    """An error result, so that the calling model can correct its request."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=why)], is_error=True)
