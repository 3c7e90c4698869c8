"""Loading and unloading models as in llama-server's router, whose clients poll `status` in `GET /models`.

Knows nothing of how a model is loaded.
"""

from __future__ import annotations

import asyncio
import logging

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.errors import InvalidParameter, LocalLLMError, clipped
from localllm.registry import resolve
from localllm.runtime.runtime import among
from localllm.server.apis.llamacpp.props import Success
from localllm.server.edge import log
from localllm.server.edge.callers import caller_of
from localllm.server.requests.body import json_response
from localllm.server.requests.field_rules import known
from localllm.server.requests.reading import read
from localllm.server.state import ServerState
from localllm.types.wire import ModelRequest

_loads: set[asyncio.Task[None]] = set()
"""Background loads, referenced here so that their tasks are not garbage-collected."""


def routes() -> list[Route]:
    """Endpoints of this module."""
    return [
        Route("/models/load", load, methods=["POST"]),
        Route("/models/unload", unload, methods=["POST"]),
        Route("/models", remove, methods=["DELETE"]),
    ]


async def load(request: Request) -> Response:
    """`POST /models/load`: starts loading and replies immediately."""
    state, model, phase, headers = await _asked(request)
    if phase == "ready":
        raise InvalidParameter(f"{clipped(model)} is already loaded", param="model")
    task = asyncio.create_task(_load(state, model))
    _loads.add(task)
    task.add_done_callback(_loads.discard)
    return json_response(Success(), headers)


async def _load(state: ServerState, model: str) -> None:
    try:
        await state.runtime.ensure(model)
    except LocalLLMError as error:
        log.event(logging.WARNING, "load_failed", model=model, code=error.code, message=error.message)


async def unload(request: Request) -> Response:
    """`POST /models/unload`: running answers end with an error."""
    caller_of(request).check_may("unload models")
    state, model, phase, headers = await _asked(request)
    if phase is None:
        raise InvalidParameter(f"{clipped(model)} is not loaded", param="model")
    await state.runtime.unload(model)
    return json_response(Success(), headers)


async def remove(request: Request) -> Response:
    """`DELETE /models?model=NAME`."""
    caller_of(request).check_may("remove models")
    state: ServerState = request.app.state.server
    model = request.query_params.get("model")
    if not model:
        raise InvalidParameter("name the model in the query: DELETE /models?model=NAME", param="model")
    await state.runtime.remove(model)
    return json_response(Success())


async def _asked(request: Request) -> tuple[ServerState, str, str | None, dict[str, str]]:
    """Also the model's id and the phase of its process; None if it is not loaded. Raises `ModelNotFound`."""
    state, asked, headers = await read(request, known(ModelRequest))
    name = state.named(asked.model)
    phases: dict[str, str | None] = {model.id: model.phase for model in state.runtime.running()}
    if name not in phases:
        there = await state.listing.run(state.runtime.available)
        phases = dict.fromkeys((model.id for model in there), None) | phases
    id = among(phases, name)
    if id is None:
        raise resolve.unknown(name, phases)
    return state, id, phases[id], headers
