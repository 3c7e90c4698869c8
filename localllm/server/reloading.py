"""SIGHUP: reload the API key file and the certificate without interrupting requests. Knows nothing of HTTP.

Unusable files are logged and change nothing. The same signal arrives when the server's terminal is closed; then it
stops the server, as it does by default.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from localllm.errors import InvalidParameter
from localllm.server.edge import log
from localllm.server.edge.callers import KeyRing
from localllm.server.edge.tls import load_certificate, tls_context
from localllm.settings.config import Settings
from localllm.system import processes, service_manager, terminals


class Reloading:
    """Used on the running event loop, where `run` reloads after a signal."""

    def __init__(self, settings: Settings, keys: KeyRing, tls: ssl.SSLContext | None) -> None:
        self._settings = settings
        self._keys = keys
        self._tls = tls
        self._asked = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    @contextlib.contextmanager
    def on_signal(self, stop: Callable[[], None]) -> Iterator[None]:
        """Handle SIGHUP within the block; `stop` is called if the terminal was closed.

        Does nothing on Windows, or in a thread other than the main one.
        """
        number = processes.reload_signal()
        if number is None or threading.current_thread() is not threading.main_thread():
            yield
            return
        # Under nohup the signal is ignored, so closing the terminal must not stop the server.
        may_lose_terminal = terminals.has_terminal() and signal.getsignal(number) is not signal.SIG_IGN

        def on_signal(_: int, __: FrameType | None) -> None:
            is_closed = may_lose_terminal and not terminals.has_terminal()
            self._loop.call_soon_threadsafe(stop if is_closed else self._asked.set)

        previous = signal.signal(number, on_signal)
        try:
            yield
        finally:
            signal.signal(number, previous)

    async def run(self) -> None:
        """Reload after each signal, until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            service_manager.notify_reloading()
            await asyncio.to_thread(self._reload)  # the files may be on a slow disk
            service_manager.notify("READY=1")

    def _reload(self) -> None:
        settings = self._settings
        if settings.api_key_file is None and settings.tls_cert_file is None:
            log.event(logging.INFO, "nothing_to_reload", remedy="set api_key_file or tls_cert_file")
        if settings.api_key_file is not None:
            self._reload_keys()
        if self._tls is not None and settings.tls_cert_file is not None:
            self._reload_certificate(self._tls, settings.tls_cert_file)

    def _reload_keys(self) -> None:
        before = self._keys.names
        try:
            self._keys.reload()
        except InvalidParameter as error:
            log.event(logging.ERROR, "api_keys_not_reloaded", reason=error.message, effect="the old ones stay valid")
            return
        now = self._keys.names
        log.event(
            logging.INFO,
            "api_keys_reloaded",
            keys=len(now),
            admins=self._keys.num_admins,
            added=",".join(sorted(now - before)) or None,
            removed=",".join(sorted(before - now)) or None,
        )
        warn_of_equal_keys(self._keys)

    def _reload_certificate(self, tls: ssl.SSLContext, cert: Path) -> None:
        key = self._settings.tls_key_file
        try:
            tls_context(cert, key)  # first in a separate context: half of a new pair must not replace the old one
            load_certificate(tls, cert, key)
        except InvalidParameter as error:
            log.event(
                logging.ERROR, "certificate_not_reloaded", reason=error.message, effect="the old certificate stays"
            )
            return
        log.event(logging.INFO, "certificate_reloaded")


def warn_of_equal_keys(keys: KeyRing) -> None:
    """Logs a warning if several keys exist and none is an admin's: each may unload the others' models."""
    if keys.num_admins == 0 and len(keys.names) > 1:
        log.event(
            logging.WARNING,
            "every_key_may_manage_models",
            keys=len(keys.names),
            remedy="give one of them the role admin: NAME(admin)=KEY",
        )
