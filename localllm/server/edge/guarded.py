"""Puts this server's gate (hosts, origins, keys) before another ASGI application."""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from localllm.errors import LocalLLMError
from localllm.server.edge.callers import KeyRing
from localllm.server.edge.cors import Cors
from localllm.server.edge.gate import Gate
from localllm.server.errors import response_parts
from localllm.settings.config import Settings


def guarded(app: ASGIApp, settings: Settings) -> ASGIApp:
    """Refuses what the server itself would refuse, with the same errors."""
    gate = Gate(
        app,
        keys=KeyRing(settings),
        cors=Cors(settings.origins()),
        allowed_hosts=[name.strip() for name in settings.allowed_hosts.split(",") if name.strip()],
        max_header_bytes=settings.max_header_bytes,
    )

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        try:
            await gate(scope, receive, send)
        except LocalLLMError as error:
            await Response(**response_parts(error))(scope, receive, send)

    return guard
