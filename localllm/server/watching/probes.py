"""Monitoring endpoints: liveness, readiness, metrics. Knows nothing of any API."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.errors import Draining, Loading
from localllm.server.edge.paths import both
from localllm.server.requests.body import json_response
from localllm.server.state import ServerState
from localllm.types.wire import Ready


def routes() -> list[Route]:
    """Endpoints of this module."""
    return [*both("/v1/health", health), Route("/ready", ready), Route("/metrics", metrics)]


async def health(request: Request) -> Response:
    """`GET /health`, in llama-server's format: 503 while the model of the command line is being loaded."""
    state: ServerState = request.app.state.server
    if state.loading is not None:
        raise Loading("Loading model")
    return Response(b'{"status":"ok"}', media_type="application/json")


async def ready(request: Request) -> Response:
    """`GET /ready`: whether a request can be answered now; otherwise 503 with the reason.

    Models are named only to those who know the server's name: another Host may be a page's own (DNS rebinding).
    """
    state: ServerState = request.app.state.server
    may_name = bool(request.state.has_own_host)
    try:
        state.check_ready()
    except Loading:
        if may_name:
            raise
        raise Loading("a model is still loading; try again in a moment") from None
    if state.leaving:
        raise Draining("the server is about to shut down; it still answers requests")
    restarting = state.runtime.restarting()
    if restarting:
        raise Loading(f"the process of {restarting[0] if may_name else 'a model'} died and is being restarted")
    return json_response(Ready([model.id for model in state.runtime.loaded()] if may_name else []))


async def metrics(request: Request) -> Response:
    """`GET /metrics`, in Prometheus' text format or OpenMetrics."""
    state: ServerState = request.app.state.server
    text, content_type = await state.metrics.render(state.runtime, request.headers.get("accept", ""))
    headers = {"content-type": content_type}
    if state.metrics.names in ("llamacpp", "both"):
        headers["process-start-time-unix"] = str(state.metrics.totals.started_unix_s)
    return Response(text, headers=headers)
