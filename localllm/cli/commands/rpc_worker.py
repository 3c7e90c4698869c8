"""`localllm worker`: serves this machine's devices to other machines over llama.cpp's RPC, until Ctrl-C.

Does not load llama.cpp itself: child processes do.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from localllm.cli.render.units import size
from localllm.cli.shared import report
from localllm.errors import InvalidParameter
from localllm.rpc.front import Front
from localllm.rpc.messages import Serve, Serving
from localllm.rpc.serving_child import ServingChild
from localllm.settings.config import Settings
from localllm.types.rpc_endpoints import Endpoint, check_bind, parse_endpoint, parse_networks

CACHE = "rpc-cache"
"""The name of the cache folder in the data directory."""


class WorkerOptions(NamedTuple):
    """The options of the command line that are not settings."""

    endpoint: str
    clients: str | None
    max_clients: int
    allow_public: bool
    cache: bool


def serve_devices(settings: Settings, options: WorkerOptions, *, command: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C; returns the exit code. Raises `InvalidParameter`, `LoadFailed`, `WorkerCrashed`."""
    endpoint = parse_endpoint(options.endpoint)
    networks = parse_networks(options.clients)
    if options.max_clients < 1:
        raise InvalidParameter("max_clients must be at least 1", param="max_clients")
    address = check_bind(endpoint, allow_public=options.allow_public)
    request = Serve(
        data_dir=str(settings.data_dir.absolute()),
        runtime=settings.runtime,
        plugin_dir=None if settings.plugin_dir is None else str(settings.plugin_dir.absolute()),
        devices=settings.devices,
        threads=settings.threads,
        cache_dir=str(_cache_dir(settings.data_dir)) if options.cache else None,
        verbose=settings.verbose,
    )
    with _listen(Endpoint(str(address), endpoint.port)) as listener:
        _warn(endpoint, is_here=address.is_loopback)
        first = None
        try:
            first = ServingChild(request, command)
            front = Front(
                listener,
                lambda: ServingChild(request, command),
                clients=networks,
                most=options.max_clients,
                say=lambda text: report.say(f"localllm: {text}"),
                first=first,
            )
            with contextlib.closing(front):
                _introduce(endpoint, first.serving)
                front.run()
        except KeyboardInterrupt:
            report.say("localllm: stopped; models on other machines that use these devices fail until it runs again")
        finally:
            if first is not None:
                first.close()
    return report.OK


def _listen(endpoint: Endpoint) -> socket.socket:
    """Raises `InvalidParameter`."""
    try:
        return socket.create_server(endpoint, backlog=16)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise InvalidParameter(
            f"rpc: cannot listen on {endpoint}: {reason}; use an address of this machine and a free port",
            param="rpc",
        ) from error


def _cache_dir(data_dir: Path) -> Path:
    folder = data_dir.absolute() / CACHE
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _warn(endpoint: Endpoint, *, is_here: bool) -> None:
    who = "Every user and program on this machine" if is_here else f"Anyone who can reach {endpoint}"
    report.say(
        f"localllm: WARNING: this protocol has no authentication and no encryption. {who} can use these devices, read "
        "and change what is computed on them, and may be able to compromise this process. Use it only in networks that "
        "you trust, through a VPN or through an SSH tunnel"
    )


def _introduce(endpoint: Endpoint, serving: Serving) -> None:
    for device in serving.devices:
        free = f"{size(device.free_bytes)} of {size(device.total_bytes)} free"
        report.say(f"localllm: serving {device.name}: {device.description}, {free}")
    if serving.warning:
        report.say(f"localllm: WARNING: {serving.warning}")
    report.say(f"localllm: on the other machine: localllm run MODEL --rpc {endpoint} (Ctrl-C to stop)")
