"""The ASGI application: routes behind the gate, and the edge around everything.

The edge gives each request an id, turns errors into responses and writes the log line. Knows nothing of models.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from localllm.chat.surrogates import REPLACED
from localllm.errors import LocalLLMError, clipped
from localllm.server.apis import adapters, gateways, models
from localllm.server.apis.anthropic import handlers as anthropic
from localllm.server.apis.anthropic.replies import response_parts as anthropic_parts
from localllm.server.apis.audio import handlers as audio
from localllm.server.apis.batches import files, message_batches
from localllm.server.apis.batches import handlers as batches
from localllm.server.apis.batches.sending import behind_gate
from localllm.server.apis.embeddings import handlers as embeddings
from localllm.server.apis.llamacpp import completion, props, router, tools
from localllm.server.apis.llamacpp import errors as llamacpp_errors
from localllm.server.apis.llamacpp import handlers as llamacpp
from localllm.server.apis.lmstudio import handlers as lmstudio
from localllm.server.apis.manage import blobs as manage_blobs
from localllm.server.apis.manage import handlers as manage
from localllm.server.apis.manage import offers as manage_offers
from localllm.server.apis.manage import settings as manage_settings
from localllm.server.apis.ollama import errors as ollama_errors
from localllm.server.apis.ollama import handlers as ollama
from localllm.server.apis.openai import handlers as openai
from localllm.server.apis.responses import handlers as responses
from localllm.server.apis.selecting import handlers as selecting
from localllm.server.apis.tei import errors as tei_errors
from localllm.server.apis.tei import handlers as tei
from localllm.server.edge import log
from localllm.server.edge.callers import KeyRing, caller_in
from localllm.server.edge.cors import Cors
from localllm.server.edge.decoding import DecodedBody
from localllm.server.edge.gate import Gate, is_open
from localllm.server.edge.hints import hint
from localllm.server.edge.limits import KeyLimits, Limited
from localllm.server.edge.sse import ClientGone
from localllm.server.edge.trace_context import trace_context
from localllm.server.errors import (
    OWN_CLIENT,
    MethodNotAllowed,
    NotFound,
    is_command_line,
    is_told_in_part,
    response_parts,
    unexpected,
)
from localllm.server.requests.body import NOTES, HeldBodies, TimedBody
from localllm.server.state import ServerState
from localllm.server.ui import docs as ui_docs
from localllm.server.ui import doctor
from localllm.server.ui import files as ui_files
from localllm.server.ui import handlers as ui
from localllm.server.watching import probes
from localllm.server.watching.metrics import Metrics
from localllm.server.watching.spans import Served, spans_of
from localllm.server.watching.tally import Tally

if TYPE_CHECKING:
    from localllm.server.watching.tracing import Tracer

_ANTHROPIC = "/v1/messages"
_ASCII = "".join(map(chr, range(ord(" "), ord("~") + 1))).replace("%", "")
"""What stands in a header as it is; the rest of a model's name is percent-encoded."""
"""Path prefix of Anthropic's API."""
MAX_MODEL_CHARS = 200
"""Maximum length of a logged model name: clients may send any."""
MAX_CACHE_KEY_CHARS = 64


def routes() -> list[Route]:
    """All endpoints."""
    return [
        *probes.routes(),
        Route("/openapi.json", openapi_document),
        *models.routes(),
        *adapters.routes(),
        *openai.routes(),
        *responses.routes(),
        *anthropic.routes(),
        *selecting.routes(),
        *embeddings.routes(),
        *audio.routes(),
        *files.routes(),
        *batches.routes(),
        *message_batches.routes(),
        *llamacpp.routes(),
        *completion.routes(),
        *props.routes(),
        *tools.routes(),
        *router.routes(),
        *tei.routes(),
        *gateways.routes(),
        *manage.routes(),
        *manage_blobs.routes(),
        *manage_offers.routes(),
        *manage_settings.routes(),
        *ui_files.routes(),
        *ui_docs.routes(),
        *ui.routes(),
        *doctor.routes(),
        *lmstudio.routes(),
        *ollama.routes(),
    ]


def build_app(
    state: ServerState, *, keys: KeyRing | None = None, allowed_hosts: Iterable[str] = ()
) -> tuple[ASGIApp, ASGIApp]:
    """Everything between a socket and the runtime; and the same without the gate, for the lines of batches."""
    served = routes()
    router = _Routes(routes=served)
    router.router.redirect_slashes = False
    router.state.server = state
    paths = {route.endpoint: route.path for route in served}
    settings, cors = state.settings, Cors(state.settings.origins())
    gate = Gate(
        DecodedBody(
            HeldBodies(
                TimedBody(Limited(router, KeyLimits(time.monotonic)), timeout_s=settings.body_timeout_s),
                max_bytes=settings.max_bodies_mb * 10**6,
            )
        ),
        keys=keys or KeyRing(settings),
        cors=cors,
        allowed_hosts=allowed_hosts,
        max_header_bytes=settings.max_header_bytes,
    )
    edge = partial(
        Edge, metrics=state.metrics, paths=paths, cors=cors, routes=served, name=state.name, tracer=state.tracer
    )
    return edge(gate), edge(behind_gate(router))


async def openapi_document(_: Request) -> Response:
    """`GET /openapi.json`."""
    from localllm.server.described import openapi  # rarely needed, and expensive

    return Response(openapi.document(), media_type="application/json")


class _Routes(Starlette):
    """Starlette's own stack would answer errors before the edge sees them."""

    def build_middleware_stack(self) -> ASGIApp:
        return self.router


class Edge:
    """ASGI middleware around everything, the gate included."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        paths: Mapping[Any, str],
        cors: Cors,
        routes: Sequence[Route] = (),
        *,
        name: str = "",
        tracer: Tracer | None = None,
    ) -> None:
        """`paths`: endpoint -> its label in the metrics; `name`: of this server, for a header of every reply."""
        self._name = name
        self._tracer = tracer
        self._routes = routes
        self.app = app
        self._cors = cors
        self._metrics = metrics
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        exchange = Exchange(scope, send, self._cors, self._name)
        context = exchange.context
        exchange.tally.is_traced = self._tracer is not None and (context is None or context.is_sampled)
        log.request_id.set(exchange.id)
        is_command_line.set(Headers(scope=scope).get("user-agent", "").startswith(OWN_CLIENT))
        try:
            refusal = await self._answer(scope, receive, exchange)
            if refusal is not None:
                exchange.outcome = refusal.code
                if exchange.status is None:
                    await Response(**_refused(refusal, scope, exchange.id))(scope, receive, exchange.send)
        finally:
            exchange.log()
            if exchange.tally.is_traced and self._tracer is not None:
                exchange.trace(self._tracer)
            self._metrics.asked(exchange.key_name, exchange.tally, exchange.end)
            # Unknown paths share one label: a scanner must not fill the memory with its paths.
            self._metrics.answered(self._paths.get(scope.get("endpoint"), "other"), exchange.status)

    async def _answer(self, scope: Scope, receive: Receive, exchange: Exchange) -> LocalLLMError | None:
        try:
            await self.app(scope, receive, exchange.send)
        except ClientGone:
            exchange.outcome = "slow_reader" if scope["state"].get("slow_reader") else "client_gone"
        except LocalLLMError as error:
            if is_told_in_part(error):
                reason = error.details.get("reason")
                log.event(logging.WARNING, "request_failed", code=error.code, message=error.message, reason=reason)
            return error
        except HTTPException as error:
            return self._routing_error(scope, error)
        except Exception as error:  # noqa: BLE001 (`unexpected` logs it)
            return unexpected(error, "a request")
        return None

    def _routing_error(self, scope: Scope, error: HTTPException) -> LocalLLMError:
        path = clipped(scope["path"])
        if error.status_code == 405:
            # Of all routes of this path: starlette's own header names the methods of the first.
            there = [each for each in self._routes if each.path_regex.match(scope["path"])]
            found = ", ".join(sorted({method for each in there for method in each.methods or ()}))
            allowed = found or (error.headers or {}).get("Allow", "")
            return MethodNotAllowed(f"{path} takes {allowed}, not {clipped(scope['method'], 20)}", allow=allowed)
        return NotFound(f"{path} is not served here{hint(scope['path'], self._routes)}")


def _refused(error: LocalLLMError, scope: Scope, id: str) -> dict[str, Any]:
    """An error response in the format of the API that the path belongs to."""
    path = scope["path"]
    if tei_errors.is_teis(scope):
        return tei_errors.response_parts(error)
    if path.startswith(ollama_errors.PREFIX) and not path.startswith(lmstudio.PREFIXES):
        return ollama_errors.response_parts(error)
    if llamacpp_errors.has_path(path):
        return llamacpp_errors.response_parts(error)
    if path == _ANTHROPIC or path.startswith(f"{_ANTHROPIC}/") or models.is_anthropics(scope):
        return anthropic_parts(error, id)
    return response_parts(error)


class Exchange:
    """One request and its response, as logged."""

    def __init__(self, scope: Scope, send: Send, cors: Cors, server: str) -> None:
        headers = Headers(scope=scope)
        self.id = log.id_of(scope)
        self.context = trace_context(scope)
        self._session = log.session_of(scope)
        self._own_headers = {"x-request-id": self.id, "x-localllm-server": server}
        if self._session is not None:
            self._own_headers["x-session-id"] = self._session
        self.status: int | None = None
        self.outcome: str | None = None
        self.tally = scope.setdefault("state", {})["tally"] = Tally()
        self._cors_headers = cors.response_headers(headers.get("origin"))
        self._scope = scope
        self._send = send
        self._started_s = time.perf_counter()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = {**self._own_headers, **self._cors_headers}
            if self.tally.answering is not None:
                headers["x-localllm-model"] = quote(self.tally.answering, safe=_ASCII)
            if self.tally.routed is not None:
                routed = f"{self.tally.routed.route}; {self.tally.routed.reason}"
                headers["x-localllm-route"] = quote(routed, safe=_ASCII)
            given = MutableHeaders(scope=message)
            if self.tally.has_replaced_surrogates:
                headers[NOTES] = ", ".join(filter(None, [given.get(NOTES), REPLACED]))
            given.update(headers)
        await self._send(message)

    @property
    def key_name(self) -> str | None:
        """The name of the key; None if no key was required, or no valid one was sent."""
        return caller_in(self._scope).name if "caller" in self._scope["state"] else None

    @property
    def end(self) -> str | None:
        """The error that ended it, before the answer or in the middle of a stream."""
        return self.outcome or self.tally.error

    def trace(self, tracer: Tracer) -> None:
        """Send the spans of a request for a model."""
        tally, scope = self.tally, self._scope
        if tally.asked is None and tally.model is None:
            return
        ended_ns = time.time_ns()
        served = Served(
            id=self.id,
            method=scope["method"],
            path=scope["path"],
            status=self.status,
            error=self.end,
            began_ns=ended_ns - int((time.perf_counter() - self._started_s) * 1e9),
            ended_ns=ended_ns,
            context=self.context,
            session=self._session,
        )
        tracer.add(spans_of(served, tally))

    def log(self) -> None:
        tally = self.tally
        has_tokens = tally.prompt_tokens > 0
        # Opening the page asks for thirty files, and a load balancer probes every few seconds.
        is_quiet = self.status is not None and self.status < 400 and is_open(self._scope["path"])
        log.event(
            logging.DEBUG if is_quiet else logging.INFO,
            "request",
            method=self._scope["method"],
            path=self._scope["path"],
            trace_id=self.context and self.context.trace_id,
            span_id=self.context and self.context.span_id,
            key=self.key_name,
            session=self._session,
            cache_key=tally.cache_key and tally.cache_key[:MAX_CACHE_KEY_CHARS],
            model=tally.model or (tally.asked and tally.asked[:MAX_MODEL_CHARS]),
            prompt_tokens=tally.prompt_tokens if has_tokens else None,
            cached_tokens=tally.cached_tokens if has_tokens else None,
            cache_miss=tally.cache_miss or None,
            completion_tokens=tally.completion_tokens if has_tokens else None,
            status=self.status,
            outcome=self.end,
            queue_ms=None if tally.queue_s is None else round(tally.queue_s * 1000, 1),
            duration_ms=round((time.perf_counter() - self._started_s) * 1000, 1),
        )
