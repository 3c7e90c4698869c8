"""Provides the server behind the window: the one already running on this machine, or else one of the window's own.

Browsers store a page's data per address, so the window's own server uses the usual `port`, and if another program has
that, always the same other port. Knows nothing of windows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from localllm.client.api import Client
from localllm.client.discovery import find_server, is_anybody_there
from localllm.client.server_process import OnExit
from localllm.client.sidecar import Sidecar
from localllm.errors import LoadFailed, LocalLLMError
from localllm.settings.config import Settings

START_S = 60.0

Say = Callable[[str], None]


class Where(NamedTuple):
    """Address and key of the page."""

    url: str
    token: str | None

    def client(self) -> Client:
        return Client(self.url, self.token)


class Server:
    """A running server, or the window's own."""

    def __init__(self, running: Client | None, start: Callable[[int], Sidecar] | None, port: int) -> None:
        self._running = running
        self._start = start
        self._port = port
        self._sidecar = None if start is None else start(port)

    @property
    def is_own(self) -> bool:
        return self._start is not None

    def where(self) -> Where:
        """Wait until the server answers; returns its address. Raises `LocalLLMError`s with the end of its log."""
        if self._running is not None:
            return Where(self._running.url, self._running.token)
        assert self._sidecar is not None
        try:
            ready = self._sidecar.wait_ready(timeout=START_S)
        except LocalLLMError:
            if self._port == 0:
                raise
            self._port = 0  # another program took the port first
            return self.restarted()
        return Where(ready.url, ready.token)

    def restarted(self) -> Where:
        """Start the window's own server again, at the same port. Raises `LocalLLMError`s."""
        if self._start is None:
            raise LoadFailed("the server is not the window's own")
        self.close()
        self._sidecar = self._start(self._port)
        return self.where()

    def close(self) -> None:
        """End the window's own server. Idempotent."""
        if self._sidecar is not None:
            self._sidecar.close()
        if self._running is not None:
            self._running.close()


@contextlib.contextmanager
def begin(settings: Settings, arguments: list[str], last_port: int, *, on_exit: OnExit, say: Say) -> Iterator[Server]:
    """Find a running server, or start one without waiting for it, which ends with the context.

    `arguments`: those of `serve`. `last_port`: last port of the window's own server, if it was not the usual one.
    """
    with contextlib.ExitStack() as stack:
        running, port = None, settings.port
        if is_anybody_there(settings):
            running = find_server(settings)
            if running is not None and not running.has_page():
                running.close()
                running = None
                say(f"the server at port {settings.port} has no page (--no-ui), so this window starts its own")
            elif running is None:
                say(
                    f"the server at port {settings.port} refuses this window or is not localllm's, so this window "
                    "starts its own; if it needs a key, set LOCALLLM_API_KEY"
                )
            port = last_port if last_port != settings.port else 0
        if running is not None:
            server = Server(running, None, 0)
        else:
            log = None if settings.verbose else stack.enter_context(_log_file(settings.data_dir))
            server = Server(None, lambda port: Sidecar.spawn(arguments, stderr=log, port=port, on_exit=on_exit), port)
        try:
            yield server
        finally:
            server.close()


def _log_file(data_dir: Path) -> BinaryIO:
    folder = data_dir / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return (folder / "app.log").open("wb")
