"""Options and help of `localllm mcp`, and the options that let a chat use MCP servers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option

from localllm.cli.options.settings import COMMON, takes

Config = Annotated[
    Path | None, Option("--mcp", metavar="FILE", help="MCP servers whose tools it may call (JSON with mcpServers)")
]
Allow = Annotated[
    list[str] | None,
    Option("--mcp-allow", metavar="NAME", help="Run this tool without asking: a name, SERVER__* or *; repeatable"),
]


def add_to(commands: dict[str, Callable[..., None]]) -> None:
    """Register the command."""
    commands["mcp"] = mcp


@takes(f"host port ctx slots threads gpu_layers device {COMMON}", "chat_template plugin_dir")
def mcp(
    model: Annotated[
        str | None, Argument(metavar="MODEL", help="For calls that name no model [default: the loaded one]")
    ] = None,
    http: Annotated[
        int | None, Option("--http", metavar="PORT", help="Serve HTTP on 127.0.0.1 instead of stdio; 0: any free port")
    ] = None,
    **settings: Any,
) -> None:
    """Offer local models as tools of an MCP server.

    Uses the running server (--host and --port tell where), or starts one for as long as it is needed.
    """
    from localllm.cli.commands.mcp import serve_mcp
    from localllm.settings.server_settings import HIGHEST_PORT
    from localllm.types.ranges import check_range

    check_range("--http", http, 0, HIGHEST_PORT)
    raise Exit(serve_mcp(model, settings, http_port=http))
