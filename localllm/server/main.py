"""Runs the server: binds, loads the model, answers, ends. Knows nothing of the command line and prints nothing.

The socket is bound before anything slow, so a port in use is an immediate error, and a free port is never closed and
reopened. HTTP modules are imported while the model loads. Requests during the load wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import ssl
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from localllm.errors import InvalidParameter
from localllm.runtime.runtime import Runtime
from localllm.server.edge import log
from localllm.server.edge.callers import KeyRing
from localllm.server.edge.tls import tls_context
from localllm.server.edge.waking import wakes_on_signals
from localllm.server.listening import bind_ollamas, listener_of, url_of
from localllm.server.loading import load_all
from localllm.server.naming import server_name
from localllm.server.reloading import Reloading, warn_of_equal_keys
from localllm.settings.config import Settings
from localllm.system import processes, service_manager

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from localllm.server.edge.http import HttpServer
    from localllm.server.state import ServerState

EXIT_INTERRUPTED = 130
STDIN_FD = 0
WANTED_FILES = 8192
"""Limit of open files to set; macOS allows about ten thousand."""
LAST_WORDS_S = 1.0
"""Time for streams to send an error event after the grace period."""


class Announcer(Protocol):
    """Receives events for a user or a parent process."""

    def loading(self, fraction: float, /) -> None:
        """Load progress from 0 to 1, on the event loop's thread."""

    def ready(self, url: str, model_id: str | None, /) -> None:
        """The server at `url` accepts requests now."""


async def serve(
    settings: Settings,
    models: Sequence[str],
    announce: Announcer,
    *,
    token: str | None = None,
    ends_with_stdin: bool = False,
    make_runtime: Callable[[Settings], Runtime] = Runtime,
) -> int:
    """Serve until told to stop; returns the exit code. `token`: an additional API key. `models` are loaded at startup.

    With `ends_with_stdin`, end-of-file on stdin (if a pipe or socket) stops the server: the parent has exited.
    Raises `InvalidParameter` for an unsafe bind, `LocalLLMError` for a port in use, and what loading raises.
    """
    if settings.max_bodies_mb * 10**6 < settings.max_body_bytes:
        raise InvalidParameter(
            f"max_bodies_mb must have room for one body of max_body_bytes ({settings.max_body_bytes})",
            param="max_bodies_mb",
        )
    server_name(settings, settings.port)  # raises for a bad one before anything is opened
    keys = KeyRing(settings, token)
    tls = tls_context(settings.tls_cert_file, settings.tls_key_file)
    if "*" in settings.origins() and not keys.pairs:
        log.event(
            logging.WARNING,
            "any_web_page_can_use_this_server",
            cors_origins="*",
            remedy="set --api-key-file or LOCALLLM_API_KEY",
        )
    warn_of_equal_keys(keys)
    stop, reloading = Stop(), Reloading(settings, keys, tls)
    with contextlib.ExitStack() as open_, stop.on_signals(), reloading.on_signal(stop.at_once):
        listener = open_.enter_context(listener_of(settings, has_key=bool(keys.pairs)))
        plain = [open_.enter_context(bind_ollamas(settings.ollama_port))] if settings.ollama_compat else []
        if ends_with_stdin:
            stop.at_end_of_stdin()
        runtime, resumes = make_runtime(settings), token is None
        serving = _Serving(settings, models, announce, keys, tls, listener, plain, stop, runtime, resumes)
        reloads = asyncio.create_task(reloading.run())
        try:
            await serving.run()
        finally:
            reloads.cancel()
            await serving.runtime.aclose()
    return stop.exit_code


@dataclass(frozen=True)
class _Serving:
    """The server from the bound socket to the last answer."""

    settings: Settings
    models: Sequence[str]
    announce: Announcer
    keys: KeyRing
    tls: ssl.SSLContext | None
    listener: socket.socket
    plain: Sequence[socket.socket]
    """Additional sockets without TLS."""
    stop: Stop
    runtime: Runtime
    resumes: bool
    """Whether batches that another process left are gone on with: not by one that serves another program."""

    async def run(self) -> None:
        """Runs until stopped. Raises what loading raises."""
        load = asyncio.create_task(self._load())
        stopped = asyncio.create_task(self.stop.event.wait())
        http: HttpServer | None = None
        try:
            # In a thread, so that loading continues.
            state, app, server = await asyncio.to_thread(self._http_server)
            server.start(self.listener, self.plain)
            http = server
            await asyncio.wait({load, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if load.done():
                model_id = load.result()
                state.loading, state.first = None, model_id
                state.only = model_id if state.starts_one else None
                state.started.set()
                await state.batches.start(app, self.keys, resumes=self.resumes)
                for other in self.plain:
                    log.event(logging.INFO, "ollama_compat", url=url_of(other))
                self.announce.ready(url_of(self.listener, "http" if self.tls is None else "https"), model_id)
                service_manager.notify("READY=1", f"STATUS=serving at {url_of(self.listener)}")
                await self.stop.event.wait()
                service_manager.notify("STOPPING=1", "STATUS=running answers end")
                await self._leave(state)
            self.stop.now.set()
            await state.drain()
        finally:
            for task in (load, stopped):
                task.cancel()
            await asyncio.gather(load, stopped, return_exceptions=True)
            if http is not None:
                await self._drain(http, self.settings.grace_s if self.stop.graceful else 0.0)
                await state.close()

    async def _leave(self, state: ServerState) -> None:
        """Goes on serving while `/ready` tells load balancers to go elsewhere."""
        delay_s = self.settings.drain_delay_s
        if delay_s and not self.stop.now.is_set():
            state.leaving = True
            log.event(logging.INFO, "leaving", drain_delay_s=delay_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stop.now.wait(), delay_s)

    async def _drain(self, http: HttpServer, grace_s: float) -> None:
        ending = asyncio.create_task(http.stop(timeout_s=grace_s + LAST_WORDS_S))
        await asyncio.wait({ending}, timeout=grace_s)
        if not ending.done():
            # Running answers now fail with `draining`, which their streams report before they are closed.
            await self.runtime.aclose()
        await ending

    async def _load(self) -> str | None:
        """Returns the first model's id, or its name with adapters."""
        return await load_all(self.runtime, self.models, self.settings, self.announce.loading)

    def _http_server(self) -> tuple[ServerState, ASGIApp, HttpServer]:
        """Also the application behind the gate."""
        from localllm.server.app import build_app
        from localllm.server.edge.connections import most_connections
        from localllm.server.edge.http import HttpServer
        from localllm.server.edge.protocol import Bounds
        from localllm.server.state import ServerState

        settings = self.settings
        state = ServerState(
            self.runtime,
            settings,
            name=server_name(settings, self.listener.getsockname()[1]),
            loading=next(iter(self.models), None),
            starts_one=len(self.models) == 1,
        )
        self.runtime.observe(state.metrics)
        hosts = [name.strip() for name in settings.allowed_hosts.split(",") if name.strip()]
        bounds = Bounds(settings.max_header_bytes, settings.body_timeout_s, settings.slow_reader_timeout_s)
        most = most_connections(settings.max_connections, processes.raise_file_limit(WANTED_FILES))
        if most < settings.max_connections:
            log.event(
                logging.WARNING, "fewer_connections", max_connections=most, remedy="raise the limit of open files"
            )
        app, inner = build_app(state, keys=self.keys, allowed_hosts=hosts)
        return state, inner, HttpServer(app, bounds, self.tls, max_connections=most)


class Stop:
    """Why and how the server ends. A signal drains within the grace period, a second Ctrl-C exits immediately."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.now = asyncio.Event()
        """Set when the delay before draining is over, or there shall be none."""
        self.graceful = True
        self.exit_code = 0
        self._loop = asyncio.get_running_loop()

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """Take SIGINT and SIGTERM for as long as the block lasts; in a thread other than the main one, do nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        with wakes_on_signals(self._loop):
            previous = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
            try:
                yield
            finally:
                for number, handler in previous.items():
                    signal.signal(number, handler)

    def at_end_of_stdin(self) -> None:
        """Stop without grace at end-of-file on stdin, if it is a pipe or socket: the parent has exited."""
        mode = os.fstat(STDIN_FD).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            threading.Thread(target=self._watch_stdin, name="stdin-watch", daemon=True).start()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self.now.is_set() and number == signal.SIGINT:
            # Not SIGTERM, which `timeout` and others send twice. The worker ends at end-of-file of its stdin.
            os._exit(EXIT_INTERRUPTED)
        if number == signal.SIGINT:
            self.exit_code = EXIT_INTERRUPTED
        self._loop.call_soon_threadsafe(self.at_once if number == signal.SIGINT else self.event.set)

    def _watch_stdin(self) -> None:
        # os.read, not sys.stdin: a daemon thread inside a buffered reader aborts the interpreter's shutdown.
        with contextlib.suppress(OSError):
            while os.read(STDIN_FD, 4096):
                pass
        with contextlib.suppress(RuntimeError):  # the loop is closed: the server is already stopping
            self._loop.call_soon_threadsafe(self._abandoned)

    def at_once(self) -> None:
        """Stop without the delay before draining."""
        self.now.set()
        self.event.set()

    def _abandoned(self) -> None:
        self.graceful = False
        self.at_once()
