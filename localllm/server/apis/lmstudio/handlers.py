"""`/api/v0/models` and `/api/v1/models`. LM Studio's other endpoints are OpenAI's."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.server.answers import catalog
from localllm.server.apis.lmstudio import models as listed
from localllm.server.requests.body import json_response
from localllm.server.state import ServerState

PREFIXES = ("/api/v0/", "/api/v1/")
"""Path prefixes with OpenAI's error format, although they are within Ollama's prefix."""


def routes() -> list[Route]:
    """Endpoints of this package."""
    return [
        Route("/api/v0/models", list_models),
        Route("/api/v0/models/{model_id:path}", get_model),
        Route("/api/v1/models", list_keys),
    ]


async def list_models(request: Request) -> Response:
    """`GET /api/v0/models`."""
    state: ServerState = request.app.state.server
    return json_response(listed.ModelList([listed.model(entry) for entry in await catalog.entries(state)]))


async def get_model(request: Request) -> Response:
    """`GET /api/v0/models/{id}`."""
    state: ServerState = request.app.state.server
    id = request.path_params["model_id"]
    found = await catalog.entry(state, id)
    if found is None:
        raise await catalog.missing(state, id)
    return json_response(listed.model(found))


async def list_keys(request: Request) -> Response:
    """`GET /api/v1/models`."""
    state: ServerState = request.app.state.server
    return json_response(listed.KeyList([listed.key(entry) for entry in await catalog.entries(state)]))
