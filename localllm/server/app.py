"""The ASGI application: routes, with the gate before them and the edge around everything.

The edge gives each request an id, turns errors into responses and writes the log line. Knows of no model.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Iterable

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from localllm.errors import LocalLLMError
from localllm.server import log
from localllm.server.errors import MethodNotAllowed, NotFound, defect, response_parts
from localllm.server.gate import Gate
from localllm.server.openai import handlers as openai
from localllm.server.sse import ClientGone
from localllm.server.state import ServerState

logger = logging.getLogger("localllm")
_REQUEST_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)


def build_app(state: ServerState, *, keys: Iterable[str] = (), allowed_hosts: Iterable[str] = ()) -> ASGIApp:
    """Everything between a socket and the runtime."""
    routes = _Routes(
        routes=[
            Route("/health", health),
            Route("/v1/models", openai.list_models),
            Route("/v1/models/{model_id:path}", openai.get_model),
            Route("/v1/chat/completions", openai.chat_completions, methods=["POST"]),
            Route("/v1/completions", openai.completions, methods=["POST"]),
        ]
    )
    routes.router.redirect_slashes = False
    routes.state.server = state
    return Edge(Gate(routes, keys=keys, allowed_hosts=allowed_hosts))


async def health(_: Request) -> Response:
    """Alive; whether a model can answer is what /v1/models says."""
    return Response(b'{"status":"ok"}', media_type="application/json")


class _Routes(Starlette):
    """Starlette's own stack would answer errors before the edge sees them."""

    def build_middleware_stack(self) -> ASGIApp:
        return self.router


class Edge:
    """ASGI middleware around everything, the gate included."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        exchange = Exchange(scope, send)
        try:
            refusal = await self._answer(scope, receive, exchange)
            if refusal is not None:
                exchange.outcome = refusal.code
                if exchange.status is None:
                    await Response(**response_parts(refusal))(scope, receive, exchange.send)
        finally:
            exchange.log()

    async def _answer(self, scope: Scope, receive: Receive, exchange: Exchange) -> LocalLLMError | None:
        try:
            await self.app(scope, receive, exchange.send)
        except ClientGone:
            exchange.outcome = "client_gone"
        except LocalLLMError as error:
            return error
        except HTTPException as error:
            return _routing_error(scope, error)
        except Exception as error:
            logger.exception("defect in a request")
            return defect(error)
        return None


def _routing_error(scope: Scope, error: HTTPException) -> LocalLLMError:
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return MethodNotAllowed(f"{scope['path']} takes {allowed}, not {scope['method']}")
    return NotFound(f"there is no {scope['path']} here")


class Exchange:
    """One request and its response, as the log sees them."""

    def __init__(self, scope: Scope, send: Send) -> None:
        given = Headers(scope=scope).get("x-request-id", "")
        self.id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        self.status: int | None = None
        self.outcome: str | None = None
        self._scope = scope
        self._send = send
        self._started_s = time.perf_counter()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message)["x-request-id"] = self.id
        await self._send(message)

    def log(self) -> None:
        log.event(
            logging.INFO,
            "request",
            id=self.id,
            method=self._scope["method"],
            path=self._scope["path"],
            status=self.status,
            outcome=self.outcome,
            duration_ms=round((time.perf_counter() - self._started_s) * 1000, 1),
        )
