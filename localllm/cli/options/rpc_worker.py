"""Options and help of `localllm worker`. The body is imported when the command runs."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Annotated, Any

from typer import Exit, Option

from localllm.cli.options.settings import COMMON, takes


@takes(f"device threads runtime plugin_dir {COMMON}")
def worker(
    rpc: Annotated[
        str, Option("--rpc", metavar="HOST:PORT", help="Address to listen on: 127.0.0.1 or one in your own network")
    ] = "127.0.0.1:50052",
    clients: Annotated[
        str | None,
        Option(
            "--clients",
            metavar="NETWORKS",
            help="Networks that may connect, comma-separated [default: private addresses]",
        ),
    ] = None,
    max_clients: Annotated[
        int, Option("--max-clients", metavar="N", help="Concurrent clients; each gets a process")
    ] = 4,
    allow_public: Annotated[
        bool, Option("--allow-public", help="Allow 0.0.0.0 or a public address: anyone may use these devices")
    ] = False,
    cache: Annotated[
        bool, Option("--cache", help="Cache large tensors on disk, so that they are sent only once")
    ] = False,
    **settings: Any,
) -> None:
    """Serve this machine's devices to localllm on other machines (llama.cpp's RPC: no authentication)."""
    from localllm.cli.commands.rpc_worker import WorkerOptions, serve_devices
    from localllm.cli.shared import config

    raise Exit(serve_devices(config.load(settings), WorkerOptions(rpc, clients, max_clients, allow_public, cache)))


def add_to(commands: MutableMapping[str, Callable[..., None]]) -> None:
    """Register the command."""
    commands["worker"] = worker
