"""Options and help of `localllm mcp`, and the options that let a chat use MCP servers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from localllm.cli.options import common as opt

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


def mcp(
    model: Annotated[
        str | None, Argument(metavar="MODEL", help="For calls that name no model [default: the loaded one]")
    ] = None,
    http: Annotated[
        int | None, Option("--http", metavar="PORT", help="Serve HTTP on 127.0.0.1 instead of stdio; 0: any free port")
    ] = None,
    host: opt.Host = None,
    port: opt.Port = None,
    ctx: opt.Ctx = None,
    slots: opt.Slots = None,
    threads: opt.Threads = None,
    gpu_layers: opt.GpuLayers = None,
    device: opt.Device = None,
    chat_template: opt.ChatTemplate = None,
    plugin_dir: opt.PluginDir = None,
    home: opt.Home = None,
    verbose: opt.Verbose = None,
) -> None:
    """Offer local models as tools of an MCP server.

    Uses the running server (--host and --port tell where), or starts one for as long as it is needed.
    """
    given = {name: value for name, value in locals().items() if name not in ("model", "http")}
    from localllm.cli.commands.mcp import serve_mcp

    raise Exit(serve_mcp(model, given, http_port=http))
