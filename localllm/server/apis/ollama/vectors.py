"""`/api/embed` and `/api/embeddings`."""

from __future__ import annotations

import time
from typing import NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from localllm.errors import ContextLengthExceeded, UnsupportedParameter
from localllm.server.apis.embeddings import making
from localllm.server.apis.ollama import replies as out
from localllm.server.apis.ollama.asked import heeded, model_for, read
from localllm.server.apis.ollama.errors import too_long
from localllm.server.apis.ollama.requests import EmbeddingsRequest, EmbedRequest
from localllm.server.edge import sse
from localllm.server.edge.callers import caller_of
from localllm.server.requests.body import json_response
from localllm.server.state import ServerState
from localllm.server.watching.tally import tally_of
from localllm.types.embeddings import Embeddings


async def embed(request: Request) -> Response:
    """`POST /api/embed`."""
    started_s = time.perf_counter()
    state, name, made, headers, was_loaded = await _made(request, EmbedRequest)
    if made is None:
        return json_response(out.EmbedReply(model=name, embeddings=[]), headers)
    total = out.nanoseconds(time.perf_counter() - started_s)

    def encoded() -> bytes:
        reply = out.EmbedReply(
            model=name,
            embeddings=_numbers(made),
            total_duration=total,
            load_duration=1 if was_loaded else total,
            prompt_eval_count=sum(made.num_tokens),
        )
        return msgspec.json.encode(reply)

    return Response(await state.encoding.run(encoded), media_type="application/json", headers=headers)


async def embeddings(request: Request) -> Response:
    """`POST /api/embeddings`: the older endpoint, for a single text."""
    state, _, made, headers, _ = await _made(request, EmbeddingsRequest)
    if made is None:
        return json_response(out.EmbeddingsReply([]), headers)
    (vector,) = await state.encoding.run(_numbers, made)
    return json_response(out.EmbeddingsReply(vector), headers)


class _Made(NamedTuple):
    state: ServerState
    name: str
    """The model's, in the reply."""
    vectors: Embeddings | None
    """None if there was nothing to embed; then the model has been loaded."""
    headers: dict[str, str]
    was_loaded: bool


async def _made(request: Request, kind: type[EmbedRequest] | type[EmbeddingsRequest]) -> _Made:
    state, body, given = await read(request, kind)
    (id, name), asked = await model_for(request, state, body.asked_model), body.asked(*state.time_limits_s())
    body, unheeded = heeded(request, body, asks=asked is not None)
    loaded = state.loaded(id)
    headers = given.headers(state, None if loaded is None else loaded.embedding_ctx, unheeded)
    keep_alive_s = caller_of(request).keep_alive(body.keep_alive_s())
    if asked is None:
        await sse.unless_gone(request.receive, state.runtime.ensure(id, keep_alive_s))
        return _Made(state, name, None, headers, loaded is not None)
    tally_of(request).begin(id, loaded)
    making.check_number(state, "input", len(asked.texts or ()))
    asked = msgspec.structs.replace(asked, priority=caller_of(request).priority(None))
    try:
        made = await making.finished(request, id, state.runtime.embed(id, asked, keep_alive_s=keep_alive_s))
    except ContextLengthExceeded as error:
        raise too_long(error) from error
    if set(made.num_vectors) != {1}:
        raise UnsupportedParameter("this model returns one vector per token (pooling none); use /v1/embeddings")
    return _Made(state, name, made, headers, loaded is not None)


def _numbers(made: Embeddings) -> list[list[float]]:
    """The vectors, with the fewest digits that round-trip as float32."""
    import numpy as np

    from localllm.server.answers.decimals import short_decimals

    numbers: list[list[float]] = short_decimals(np.frombuffer(made.data, "<f4").reshape(-1, made.dimensions)).tolist()
    return numbers
