"""Connections to a server, and hanging one up from another thread. Knows no request."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from localllm.cancel import Cancel

CONNECT_TIMEOUT_S = 10.0
Trace = Callable[[str, dict[str, Any]], None]


def connect(base_url: str, token: str | None) -> httpx.Client:
    """Connects when it is first used."""
    return httpx.Client(
        base_url=base_url,
        headers={"authorization": f"Bearer {token}"} if token else {},
        # An answer may take its time; a server that does not even accept is not there.
        timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
        # Certificates cost 30 ms to load, and a proxy has no business with a server on this machine.
        verify=base_url.startswith("https:"),
        trust_env=False,
    )


@contextlib.contextmanager
def hung_up(cancel: Cancel) -> Iterator[Trace]:
    """What the `trace` extension of a request on a new connection wants, so that `cancel` hangs that up.

    A socket that another thread reads from cannot be closed, but shut down: the reader gets its end.
    """
    sockets: list[socket.socket] = []

    def stop() -> None:
        for each in sockets:
            with contextlib.suppress(OSError):  # the server was faster
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
