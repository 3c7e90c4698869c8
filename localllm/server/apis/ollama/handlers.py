"""The endpoints of `/api/*`.

Models are found by Ollama's names, and replies use the name from the request.
"""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.server.apis.ollama import models, pulling
from localllm.server.apis.ollama import replies as out
from localllm.server.apis.ollama import requests as asking_for
from localllm.server.apis.ollama.answering import answer
from localllm.server.apis.ollama.asked import available, model_of, read
from localllm.server.apis.ollama.creating import create, has_blob, push, upload_blob
from localllm.server.apis.ollama.errors import no_model
from localllm.server.apis.ollama.names import ours
from localllm.server.apis.ollama.progress import Report, respond
from localllm.server.apis.ollama.vectors import embed, embeddings
from localllm.server.edge.callers import caller_of
from localllm.server.requests.body import json_response
from localllm.server.state import ServerState

OLLAMA_VERSION = "0.33.0"
"""The version of Ollama whose API this is; clients check it for features."""


def routes() -> list[Route]:
    """Endpoints of this package."""
    return [
        Route("/api/version", version),
        Route("/api/tags", list_models),
        Route("/api/ps", list_running),
        Route("/api/show", show, methods=["POST"]),
        Route("/api/chat", chat, methods=["POST"]),
        Route("/api/generate", generate, methods=["POST"]),
        Route("/api/embed", embed, methods=["POST"]),
        Route("/api/embeddings", embeddings, methods=["POST"]),
        Route("/api/delete", delete, methods=["DELETE"]),
        Route("/api/copy", copy, methods=["POST"]),
        Route("/api/pull", pull, methods=["POST"]),
        Route("/api/create", create, methods=["POST"]),
        Route("/api/push", push, methods=["POST"]),
        Route("/api/blobs/{digest}", has_blob, methods=["HEAD"]),
        Route("/api/blobs/{digest}", upload_blob, methods=["POST"]),
    ]


async def version(_: Request) -> Response:
    """`GET /api/version`."""
    return json_response(out.Version(OLLAMA_VERSION))


async def list_models(request: Request) -> Response:
    """`GET /api/tags`: newest first."""
    state: ServerState = request.app.state.server
    there = sorted((await available(state)).values(), key=lambda model: -model.created_unix_s)
    found = [await models.listed(state, model) for model in there]
    return json_response(models.Tags([each for each in found if each is not None]))


async def list_running(request: Request) -> Response:
    """`GET /api/ps`."""
    state: ServerState = request.app.state.server
    there = await available(state)
    found = [models.running(model, there) for model in state.runtime.running()]
    return json_response(models.Processes([each for each in found if each is not None]))


async def show(request: Request) -> Response:
    """`POST /api/show`."""
    state, body, given = await read(request, asking_for.ShowRequest)
    headers = given.headers(state)
    id = await model_of(state, body.asked_model)
    here = await available(state)
    model = here.get(id)
    if model is None:
        raise no_model(body.asked_model, here)
    return json_response(models.described(model, await state.runtime.described(model), state.loaded(id)), headers)


async def chat(request: Request) -> Response:
    """`POST /api/chat`."""
    started_s = time.perf_counter()
    state, body, given = await read(request, asking_for.ChatRequest)
    return await answer(request, state, body, given, started_s)


async def generate(request: Request) -> Response:
    """`POST /api/generate`."""
    started_s = time.perf_counter()
    state, body, given = await read(request, asking_for.GenerateRequest)
    return await answer(request, state, body, given, started_s)


async def delete(request: Request) -> Response:
    """`DELETE /api/delete`."""
    caller_of(request).check_may("remove models")
    state, body, given = await read(request, asking_for.ModelRequest)
    headers = given.headers(state)
    await state.runtime.remove(await model_of(state, body.asked_model))
    return Response(headers=headers)


async def copy(request: Request) -> Response:
    """`POST /api/copy`."""
    caller_of(request).check_may("copy models")
    state, body, given = await read(request, asking_for.CopyRequest)
    headers = given.headers(state)
    await state.runtime.copy(await model_of(state, body.source), ours(body.destination))
    return Response(headers=headers)


async def pull(request: Request) -> Response:
    """`POST /api/pull`. Disconnecting cancels it; the next one resumes."""
    caller_of(request).check_may("pull models")
    state, body, given = await read(request, asking_for.PullRequest)
    headers = given.headers(state)
    ours(body.asked_model)  # an invalid name gets a status

    async def work(report: Report) -> None:
        await pulling.pull(state, body.asked_model, report)

    return await respond(request, state, work, headers, stream=body.stream is not False)
