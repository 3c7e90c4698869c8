"""`/api/embed` and `/api/embeddings`."""

from __future__ import annotations

import time

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from localllm.errors import ContextLengthExceeded, LocalLLMError, UnsupportedParameter
from localllm.server.apis.ollama import replies as out
from localllm.server.apis.ollama.asked import heeded, model_of, read
from localllm.server.apis.ollama.errors import too_long
from localllm.server.apis.ollama.requests import EmbeddingsRequest, EmbedRequest
from localllm.server.common.body import json_response
from localllm.server.edge import sse
from localllm.server.edge.callers import caller_of
from localllm.server.state import ServerState
from localllm.server.watching.tally import tally_of
from localllm.types.embeddings import EmbeddingRequest, Embeddings


async def embed(request: Request) -> Response:
    """`POST /api/embed`."""
    started_s = time.perf_counter()
    state, body, given = await read(request, EmbedRequest)
    id, asked = await model_of(state, body.asked_model), body.asked(*state.time_limits_s())
    body, unheeded = heeded(request, body, asks=asked is not None)
    headers = given.headers(state, _text_ctx(state, id), unheeded)
    keep_alive_s = caller_of(request).keep_alive(body.keep_alive_s())
    if asked is None:
        await sse.unless_gone(request.receive, state.runtime.ensure(id, keep_alive_s))
        return json_response(out.EmbedReply(model=body.asked_model, embeddings=[]), headers)
    is_loaded = state.loaded(id) is not None
    made = await _made(request, state, id, asked, keep_alive_s)
    total = out.nanoseconds(time.perf_counter() - started_s)

    def encoded() -> bytes:
        reply = out.EmbedReply(
            model=body.asked_model,
            embeddings=_numbers(made),
            total_duration=total,
            load_duration=1 if is_loaded else total,
            prompt_eval_count=sum(made.num_tokens),
        )
        return msgspec.json.encode(reply)

    return Response(await state.encoding.run(encoded), media_type="application/json", headers=headers)


async def embeddings(request: Request) -> Response:
    """`POST /api/embeddings`: the older endpoint, for a single text."""
    state, body, given = await read(request, EmbeddingsRequest)
    id, asked = await model_of(state, body.asked_model), body.asked(*state.time_limits_s())
    body, unheeded = heeded(request, body, asks=asked is not None)
    headers = given.headers(state, _text_ctx(state, id), unheeded)
    keep_alive_s = caller_of(request).keep_alive(body.keep_alive_s())
    if asked is None:
        await sse.unless_gone(request.receive, state.runtime.ensure(id, keep_alive_s))
        return json_response(out.EmbeddingsReply([]), headers)
    made = await _made(request, state, id, asked, keep_alive_s)
    (vector,) = await state.encoding.run(_numbers, made)
    return json_response(out.EmbeddingsReply(vector), headers)


def _text_ctx(state: ServerState, id: str) -> int | None:
    loaded = state.loaded(id)
    return None if loaded is None else loaded.embedding_ctx


async def _made(
    request: Request, state: ServerState, id: str, asked: EmbeddingRequest, keep_alive_s: float | None
) -> Embeddings:
    started_s, tally = time.perf_counter(), tally_of(request)
    tally.begin(id, state.loaded(id))
    asked = msgspec.structs.replace(asked, priority=caller_of(request).priority(None))
    work = state.runtime.embed(id, asked, keep_alive_s=keep_alive_s)
    try:
        made = await sse.unless_gone(request.receive, work)
    except ContextLengthExceeded as error:
        raise too_long(error) from error
    except LocalLLMError as error:
        raise state.seen_by_client(error) from error
    if set(made.num_vectors) != {1}:
        raise UnsupportedParameter("this model returns one vector per token (pooling none); use /v1/embeddings")
    loaded = state.loaded(id)
    tally.embedded(loaded, made.num_tokens)
    if loaded is not None:  # otherwise it is being unloaded
        state.metrics.embedded(loaded.id, "embedded", made.num_tokens, time.perf_counter() - started_s)
    return made


def _numbers(made: Embeddings) -> list[list[float]]:
    """The vectors, with the fewest digits that round-trip as float32."""
    import numpy as np

    from localllm.server.common.decimals import short_decimals

    numbers: list[list[float]] = short_decimals(np.frombuffer(made.data, "<f4").reshape(-1, made.dimensions)).tolist()
    return numbers
