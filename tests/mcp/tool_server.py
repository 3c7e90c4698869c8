"""An MCP server by the SDK, with tools of every kind: `python -P -m tests.mcp.tool_server [http]`.

Over HTTP its first line on stdout is its address. Over stdio its log says what was cancelled.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from typing import Any

import anyio
import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from tests.mcp.escapes import ESCAPES

server = MCPServer("tools")

SLEEPER = [sys.executable, "-c", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"]


@server.tool()
def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


@server.tool(structured_output=False)
def repeat(text: str) -> str:
    """The same text."""
    return text


@server.tool(structured_output=False)
def picture() -> list[Any]:
    """A word and an image."""
    return ["see", Image(data=b"\x89PNG", format="png")]


@server.tool()
def fail() -> str:
    """Never works."""
    raise ToolError("the disk is full")


@server.tool()
def escapes() -> str:
    """What a terminal would obey."""
    return ESCAPES


@server.tool()
async def wait() -> str:
    """Until it is cancelled."""
    print("waits", file=sys.stderr, flush=True)
    try:
        await anyio.sleep_forever()
    finally:
        print("was cancelled", file=sys.stderr, flush=True)
    raise AssertionError


@server.tool()
def leave() -> str:
    """Ends the server."""
    print("no more memory", file=sys.stderr, flush=True)
    os._exit(3)


@server.tool()
def start() -> int:
    """A process of its own that will not go by itself; its id."""
    return subprocess.Popen(SLEEPER, stdin=subprocess.DEVNULL).pid


@server.tool()
async def grow(context: Context) -> str:
    """One tool more."""

    def grown() -> str:
        """There since a moment ago."""
        return "new"

    server.add_tool(grown)
    await context.session.send_tool_list_changed()  # for clients that did the handshake
    await context.notify_tools_changed()  # for those that listen, as the protocol has it since 2026-07-28
    return "grown"


async def serve_http() -> None:
    http = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_config=None))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
        await http.serve(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        asyncio.run(serve_http())
    else:
        server.run()
