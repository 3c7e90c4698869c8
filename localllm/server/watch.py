"""For who watches a server: is it alive, can it answer, how does it do. Knows nothing of any API."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.errors import Loading
from localllm.server.body import json_response
from localllm.server.paths import both
from localllm.server.state import ServerState
from localllm.wire import Ready


def routes() -> list[Route]:
    """What this module answers."""
    return [*both("/v1/health", health), Route("/ready", ready), Route("/metrics", metrics)]


async def health(_: Request) -> Response:
    """`GET /health`: the process is alive and answers HTTP, whatever its model does."""
    return Response(b'{"status":"ok"}', media_type="application/json")


async def ready(request: Request) -> Response:
    """`GET /ready`: an answer can be had now; else a 503 that says what is being waited for."""
    state: ServerState = request.app.state.server
    state.check_ready()
    restarting = state.runtime.restarting()
    if restarting:
        raise Loading(f"the process of {restarting[0]} died and is being started again")
    return json_response(Ready([model.id for model in state.runtime.loaded()]))


async def metrics(request: Request) -> Response:
    """`GET /metrics`, in Prometheus' text format or OpenMetrics."""
    state: ServerState = request.app.state.server
    text, content_type = await state.metrics.render(state.runtime, request.headers.get("accept", ""))
    return Response(text, headers={"content-type": content_type})
