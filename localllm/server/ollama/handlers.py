"""The endpoints of `/api/*`.

A model is found by its name as Ollama writes it, and replies name it as it was asked for.
"""

from __future__ import annotations

import time

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from localllm.errors import InvalidParameter
from localllm.server import sse
from localllm.server.asking import Asking
from localllm.server.body import json_response
from localllm.server.callers import caller_of
from localllm.server.ollama import models
from localllm.server.ollama import replies as out
from localllm.server.ollama import requests as asking_for
from localllm.server.ollama.answers import Shape, Told
from localllm.server.ollama.asked import Given, available, model_of, read
from localllm.server.ollama.errors import ErrorBody, no_model
from localllm.server.ollama.lines import LineStream
from localllm.server.ollama.names import ours
from localllm.server.ollama.pulling import Pulling
from localllm.server.ollama.vectors import embed, embeddings
from localllm.server.state import ServerState
from localllm.types import LoadedModel

OLLAMA_VERSION = "0.33.0"
"""Whose API this is: clients ask for the version to know what there is."""


def routes() -> list[Route]:
    """What this package answers."""
    return [
        Route("/", alive),
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
        Route("/api/blobs/{digest}", blob, methods=["HEAD", "POST"]),
    ]


async def alive(_: Request) -> Response:
    """`GET /`: by this its clients know it."""
    return PlainTextResponse("Ollama is running")


async def version(_: Request) -> Response:
    """`GET /api/version`."""
    return json_response(out.Version(OLLAMA_VERSION))


async def list_models(request: Request) -> Response:
    """`GET /api/tags`: the newest first."""
    state: ServerState = request.app.state.server
    there = sorted((await available(state)).values(), key=lambda model: -model.created_unix_s)
    told = [await models.listed(state, model) for model in there]
    return json_response(models.Tags([each for each in told if each is not None]))


async def list_running(request: Request) -> Response:
    """`GET /api/ps`."""
    state: ServerState = request.app.state.server
    there = await available(state)
    told = [models.running(model, there) for model in state.runtime.running()]
    return json_response(models.Processes([each for each in told if each is not None]))


async def show(request: Request) -> Response:
    """`POST /api/show`."""
    state, body, given = await read(request, asking_for.ShowRequest)
    headers = given.headers(state)
    id = await model_of(state, body.asked_model)
    model = (await available(state)).get(id)
    if model is None:
        raise no_model(body.asked_model)
    return json_response(models.described(model, await state.runtime.described(model), state.loaded(id)), headers)


async def chat(request: Request) -> Response:
    """`POST /api/chat`."""
    started_s = time.perf_counter()
    state, body, given = await read(request, asking_for.ChatRequest)
    return await _answer(request, state, body, given, started_s)


async def generate(request: Request) -> Response:
    """`POST /api/generate`."""
    started_s = time.perf_counter()
    state, body, given = await read(request, asking_for.GenerateRequest)
    return await _answer(request, state, body, given, started_s)


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
    """`POST /api/pull`. Hanging up cancels it; it goes on from there the next time."""
    caller_of(request).check_may("pull models")
    state, body, given = await read(request, asking_for.PullRequest)
    headers = given.headers(state)
    ours(body.asked_model)  # what is no name is an error from the start
    pulling = Pulling(state, body.asked_model)
    if body.stream is not False:
        return LineStream(state, pulling.lines(), pulling.close, headers)
    try:
        await sse.unless_gone(request.receive, pulling.task)
    finally:
        await pulling.close()
    return json_response(out.PullLine(status="success"), headers)


async def create(request: Request) -> Response:
    """`POST /api/create`."""
    return _not_served(request, "create", "localllm create makes a model from a Modelfile")


async def push(request: Request) -> Response:
    """`POST /api/push`."""
    return _not_served(request, "push", "localllm sends no models anywhere")


async def blob(request: Request) -> Response:
    """`/api/blobs/{digest}`, which `create` takes files from."""
    return _not_served(request, "blobs", "localllm create takes files of this machine")


def _not_served(request: Request, what: str, instead: str) -> Response:
    """Named, so that nobody searches for a mistake of their own."""
    caller_of(request).check_may(f"{what} models")
    body = ErrorBody(f"{what} is not served by localllm: {instead}")
    return Response(msgspec.json.encode(body), 501, media_type="application/json")


async def _answer(
    request: Request,
    state: ServerState,
    body: asking_for.ChatRequest | asking_for.GenerateRequest,
    given: Given,
    started_s: float,
) -> Response:
    name, made_of = body.asked_model, body.generation()
    given.check(state)
    asking = Asking(request, await model_of(state, name), body)
    shape = Shape(name, is_chat=isinstance(body, asking_for.ChatRequest))
    if made_of is None:
        return await _loaded(request, state, asking.model, asking.keep_alive_s, shape, stream=body.stream is not False)
    # What is wrong with a model or a prompt has a status, as of Ollama's, so also a stream waits for its answer.
    answering = await asking.answers([made_of], stream=False, field="prompt")
    (answer,) = answering.result()
    try:
        loaded = asking.loaded
        _check_thoughts(loaded, name, body)
        headers = asking.headers | given.headers(state, None if loaded is None else loaded.ctx)
        told = Told(answer, shape, started_s, time.perf_counter() - started_s)
    except BaseException:
        await answer.aclose()
        raise
    if body.stream is not False:
        return LineStream(state, told.lines(), answer.aclose, headers)
    return json_response(await asking.whole([answer], told.whole()), headers)


async def _loaded(
    request: Request, state: ServerState, id: str, keep_alive_s: float | None, shape: Shape, *, stream: bool
) -> Response:
    """Nothing is asked: the model is to be there, or to leave."""
    if keep_alive_s == 0:
        await _unloaded(state, id)
        line = shape.line(reason="unload")
    else:
        await sse.unless_gone(request.receive, state.runtime.ensure(id, keep_alive_s))
        line = shape.line(reason="load")
    if not stream:
        return json_response(line)
    return Response(msgspec.json.encode(line) + b"\n", media_type="application/x-ndjson")


async def _unloaded(state: ServerState, id: str) -> None:
    """At once, or when the answers of others that it is making have ended; what is not loaded is as it should be."""
    there = next((model for model in state.runtime.running() if model.id == id), None)
    if there is not None and there.num_requests:
        await state.runtime.ensure(id, 0.0)
    elif there is not None:
        await state.runtime.unload(id)


def _check_thoughts(
    loaded: LoadedModel | None, name: str, body: asking_for.ChatRequest | asking_for.GenerateRequest
) -> None:
    """Raises `InvalidParameter` where thoughts are wanted of a model that has none."""
    if body.wants_thoughts and loaded is not None and loaded.format.thinking == "never":
        raise InvalidParameter(f'"{name}" does not support thinking', param="think")
