"""`/v1/models`, which two APIs have: Anthropic's clients send `anthropic-version`, OpenAI's do not.

Knows nothing of the formats themselves.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from localllm.server.answers import catalog
from localllm.server.apis.anthropic import models as anthropic
from localllm.server.apis.openai import models as openai
from localllm.server.edge.paths import both
from localllm.server.requests.body import json_response
from localllm.server.state import ServerState

PATH = "/v1/models"
_HEADER = b"anthropic-version"


def routes() -> list[Route]:
    """Endpoints of this module."""
    return [*both(PATH, list_models), Route(f"{PATH}/{{model_id:path}}", get_model)]


async def list_models(request: Request) -> Response:
    """`GET /v1/models`: loaded models first, then those loaded on demand."""
    state: ServerState = request.app.state.server
    if is_anthropics(request.scope):
        page = anthropic.parse_page(request.query_params)
        return json_response(anthropic.model_page(await catalog.entries(state), page))
    return json_response(openai.model_list(await catalog.entries(state), state.runtime.running()))


async def get_model(request: Request) -> Response:
    """`GET /v1/models/{id}`."""
    state: ServerState = request.app.state.server
    id = request.path_params["model_id"]
    found = await catalog.entry(state, id)
    if is_anthropics(request.scope):
        found = found or await catalog.entry(state, state.named(id))
    if found is None:
        raise await catalog.missing(state, id)
    if is_anthropics(request.scope):
        return json_response(anthropic.model_info(found))
    (entry,) = openai.model_list([found], state.runtime.running()).data
    return json_response(entry)


def is_anthropics(scope: Scope) -> bool:
    """Whether the request comes from an Anthropic client."""
    path = scope["path"]
    return (path == PATH or path.startswith(f"{PATH}/")) and any(name == _HEADER for name, _ in scope["headers"])
