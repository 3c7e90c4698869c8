"""Connections to a server, which another thread can close. Knows no request."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from localllm import __version__
from localllm.system.cancel import Cancel

CONNECT_TIMEOUT_S = 10.0
USER_AGENT = f"localllm/{__version__}"
"""A server names options of the command line to this client, and fields of requests to others."""
Trace = Callable[[str, dict[str, Any]], None]


def connect(base_url: str, token: str | None) -> httpx.Client:
    """An HTTP client, which connects on first use."""
    return httpx.Client(**_options(base_url, token))


def connect_async(base_url: str, token: str | None, connections: int) -> httpx.AsyncClient:
    """The same for so many requests at a time."""
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    return httpx.AsyncClient(**_options(base_url, token), limits=limits)


def _options(base_url: str, token: str | None) -> dict[str, Any]:
    return {
        "base_url": base_url,
        "headers": {"user-agent": USER_AGENT, **({"authorization": f"Bearer {token}"} if token else {})},
        # Answers may take long, but a server that does not accept the connection is not running.
        "timeout": httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
        # Loading certificates takes 30 ms, and a proxy must not be used for a server on this machine.
        "verify": base_url.startswith("https:"),
        "trust_env": False,
    }


@contextlib.contextmanager
def closing_connections(cancel: Cancel) -> Iterator[Trace]:
    """A `trace` extension for a request on a new connection; `cancel` then closes that connection.

    A socket that another thread reads from cannot be closed but can be shut down: the reader sees its end.
    """
    sockets: list[socket.socket] = []

    def stop() -> None:
        for each in sockets:
            with contextlib.suppress(OSError):  # the server has closed it already
                each.shutdown(socket.SHUT_RDWR)

    def trace(name: str, info: dict[str, Any]) -> None:
        if name in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            sockets.append(info["return_value"].get_extra_info("socket"))
            if cancel.cancelled:
                stop()

    cancel.attach(stop)
    try:
        yield trace
    finally:
        cancel.detach(stop)
