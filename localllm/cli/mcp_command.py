"""Names, options and help of `localllm mcp`, and of the options that let a chat use others' MCP servers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from localllm.cli import options as opt

Config = Annotated[
    Path | None, Option("--mcp", metavar="FILE", help="MCP servers (mcpServers in JSON): it may call their tools")
]
Allow = Annotated[
    list[str] | None,
    Option("--mcp-allow", metavar="NAME", help="Runs this tool without asking; also SERVER__* or *; may be repeated"),
]


def add_to(commands: dict[str, Callable[..., None]]) -> None:
    """In the order of the help."""
    commands["mcp"] = mcp


def mcp(
    model: Annotated[
        str | None, Argument(metavar="MODEL", help="Asked where a call names none [default: the one that is loaded]")
    ] = None,
    http: Annotated[
        int | None, Option("--http", metavar="PORT", help="Over HTTP on 127.0.0.1, not stdin and stdout; 0: any port")
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

    Asks the server that runs already (--host and --port say where), else starts one for as long as it is needed.
    """
    given = {name: value for name, value in locals().items() if name not in ("model", "http")}
    from localllm.cli.mcp import serve_mcp

    raise Exit(serve_mcp(model, given, http_port=http))
