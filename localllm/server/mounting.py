"""The server's endpoints as an ASGI application that another one mounts under a path. Knows no socket and no signal.

The host binds sockets, limits connections and shuts down; `serve` in `main` does all of that itself. The host's router
puts its prefix into `root_path`; everything behind this module sees paths without it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from localllm.errors import InvalidParameter, LocalLLMError, Unavailable
from localllm.runtime.runtime import Runtime
from localllm.server.app import build_app
from localllm.server.edge.callers import KeyRing
from localllm.server.errors import ForbiddenHost, response_parts
from localllm.server.naming import server_name
from localllm.server.state import ServerState
from localllm.settings import config
from localllm.settings.config import Settings


class ServerApp:
    """All endpoints of `localllm serve`, for `app.mount("/llm", server_app)`.

    An async context manager, to be entered in the host's lifespan, since Starlette does not run the lifespan of a
    mounted application. Entering loads `models` and raises what loading raises; leaving ends running answers and the
    models' processes. Settings of the socket (host, port, TLS, connections, `ollama_compat`) have no effect, since the
    host owns it.
    """

    def __init__(self, *models: str | Path, settings: Settings | None = None) -> None:
        """`settings`: None reads this user's configuration, as `localllm serve` does."""
        if settings is not None and not isinstance(settings, Settings):
            raise InvalidParameter(
                f"settings must be a localllm.Settings, got {type(settings).__name__}", param="settings"
            )
        self._models: Sequence[str | Path] = models
        self._settings = settings or config.load()
        self._keys = KeyRing(self._settings)
        self._state: ServerState | None = None
        self._app: ASGIApp | None = None

    async def __aenter__(self) -> Self:
        if self._state is not None:
            raise LocalLLMError("this ServerApp is already in use; create one for each application")
        runtime = Runtime(self._settings)
        try:
            ids = [runtime.adapters.shown(str(model), (await runtime.load(model)).id) for model in self._models]
            name = server_name(self._settings, self._settings.port)
            state = ServerState(runtime, self._settings, name=name, first=ids[0] if ids else None)
            runtime.observe(state.metrics)
            hosts = [name.strip() for name in self._settings.allowed_hosts.split(",") if name.strip()]
            self._app, inner = build_app(state, keys=self._keys, allowed_hosts=hosts)
            await state.batches.start(inner, self._keys, resumes=True)
        except BaseException:
            await runtime.aclose()
            raise
        self._state = state
        return self

    async def __aexit__(self, *_: object) -> None:
        state, self._state, self._app = self._state, None, None
        assert state is not None
        await state.drain()
        await state.runtime.aclose()
        await state.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        elif scope["type"] == "http":
            try:
                await self._entered(scope)(unmounted(scope), receive, send)
            except LocalLLMError as error:  # from this module; the inner application handles its own
                await Response(**response_parts(error))(scope, receive, send)

    def _entered(self, scope: Scope) -> ASGIApp:
        """The application, if it may answer this request. Raises `Unavailable`, `ForbiddenHost`."""
        if self._app is None:
            raise Unavailable("the ServerApp is not running; enter it with `async with` in the host's lifespan")
        if not (self._keys.pairs or self._settings.allow_remote_without_key or is_local(scope)):
            raise ForbiddenHost(
                "without an API key only requests over loopback are answered; set LOCALLLM_API_KEYS or "
                "Settings.api_keys, or Settings.allow_remote_without_key if anyone on the network may use this server"
            )
        return self._app


def unmounted(scope: Scope) -> Scope:
    """The request as it would be without the mount, with a `state` of its own, since the host uses the original."""
    path, prefix = scope["path"], scope.get("root_path", "")
    if prefix and (path == prefix or path.startswith(f"{prefix}/")):  # some servers have already removed it
        path = path.removeprefix(prefix) or "/"
    return {**scope, "path": path, "raw_path": scope.get("raw_path") or path.encode(), "root_path": "", "state": {}}


def is_local(scope: Scope) -> bool:
    """Whether the connection arrived at a loopback address or a Unix socket, which clients cannot forge."""
    server = scope.get("server")
    if server is None or server[1] is None:  # the latter is a Unix socket
        return server is not None
    try:
        return ipaddress.ip_address(server[0]).is_loopback
    except ValueError:
        return False
