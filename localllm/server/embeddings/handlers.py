"""The endpoints: typed request in, vectors or a ranking out. A client that goes away takes its work with it."""

from __future__ import annotations

import re
import time
from collections.abc import Coroutine
from typing import Any, Literal, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.embeddings import Embeddings, Ranking
from localllm.errors import LocalLLMError
from localllm.server import sse
from localllm.server.body import json_response, read_json, unknown_fields_header
from localllm.server.callers import caller_of
from localllm.server.embeddings import replies as out
from localllm.server.embeddings.requests import RerankBody, parse_embeddings, parse_rerank
from localllm.server.state import ServerState
from localllm.server.tally import tally_of
from localllm.types import LoadedModel

MadeT = TypeVar("MadeT", Embeddings, Ranking)


def routes() -> list[Route]:
    """What this package answers. The metrics know a ranking by its last name here."""
    return [
        Route("/v1/embeddings", embeddings, methods=["POST"]),
        Route("/rerank", rerank, methods=["POST"]),
        Route("/reranking", rerank, methods=["POST"]),
        Route("/v1/reranking", rerank, methods=["POST"]),
        Route("/v1/rerank", rerank, methods=["POST"]),
    ]


async def embeddings(request: Request) -> Response:
    """`POST /v1/embeddings`."""
    state: ServerState = request.app.state.server
    body, ignored = parse_embeddings(await read_json(request, state.settings.max_body_bytes))
    state.admit()
    headers = unknown_fields_header(ignored, strict=state.settings.strict)
    caller = caller_of(request)
    asked, keep_alive_s = body.asked(*state.time_limits_s()), caller.keep_alive(body.keep_alive_s())
    asked = msgspec.structs.replace(asked, priority=caller.priority(body.priority))
    model = await state.model_id(body.model)
    work = state.runtime.embed(model, asked, keep_alive_s=keep_alive_s)
    made, loaded = await _made(request, body.model or model, work, "input", is_single=body.is_single)
    is_pooled = set(made.num_vectors) == {1} and (loaded is None or loaded.pooling != "none")
    # Megabytes of numbers take a while, and so does the first import of NumPy, which this process otherwise lacks.
    content = await state.encoding.run(
        _encoded, made, body.model or model, body.encoding_format or "float", is_pooled=is_pooled
    )
    headers |= out.truncated_header(made.truncated)
    return Response(content, media_type="application/json", headers=headers)


async def rerank(request: Request) -> Response:
    """`POST /v1/rerank`, and by its other names."""
    state: ServerState = request.app.state.server
    body, ignored = parse_rerank(await read_json(request, state.settings.max_body_bytes))
    state.admit()
    headers = unknown_fields_header(ignored, strict=state.settings.strict)
    caller = caller_of(request)
    asked, keep_alive_s = body.asked(*state.time_limits_s()), caller.keep_alive(body.keep_alive_s())
    asked = msgspec.structs.replace(asked, priority=caller.priority(body.priority))
    model = await state.model_id(body.model)
    work = state.runtime.rerank(model, asked, keep_alive_s=keep_alive_s)
    made, loaded = await _made(request, model, work, body.field)
    headers |= out.truncated_header(made.truncated)
    architecture = None if loaded is None else loaded.info.architecture
    scores = out.shown_scores(made, architecture, raw=bool(body.raw_scores))
    if body.is_tei:
        return Response(msgspec.json.encode(_tei(body, made, scores)), media_type="application/json", headers=headers)
    results = [
        out.RankedDocument(
            index=index,
            relevance_score=scores[index],
            document=out.DocumentObject(asked.documents[index]) if body.return_documents else msgspec.UNSET,
        )
        for index in out.best_first(made, body.top_n)
    ]
    return json_response(
        out.RankedList(
            results=results, model=model, usage=out.usage(made.num_tokens), truncated=out.cut(made.truncated)
        ),
        headers,
    )


def _tei(body: RerankBody, made: Ranking, scores: list[float]) -> list[out.TeiRank]:
    texts, was_cut = body.candidates(), frozenset(made.truncated)
    return [
        out.TeiRank(
            index=index,
            score=scores[index],
            text=texts[index] if body.return_text else msgspec.UNSET,
            truncated=True if index in was_cut else msgspec.UNSET,
        )
        for index in out.best_first(made, body.top_n)
    ]


async def _made(
    request: Request, model: str, work: Coroutine[Any, Any, MadeT], field: str, *, is_single: bool = False
) -> tuple[MadeT, LoadedModel | None]:
    """What the runtime makes of it, and by which model. `field` holds the items, or the only one if `is_single`."""
    state: ServerState = request.app.state.server
    started_s, tally = time.perf_counter(), tally_of(request)
    tally.begin(model, state.loaded(model))
    try:
        made = await sse.unless_gone(request.receive, work)
    except LocalLLMError as error:
        raise state.seen_by_client(_renamed(error, field, is_single=is_single)) from error
    loaded = state.loaded(model)
    tally.embedded(loaded, made.num_tokens)
    if loaded is not None:  # else it is being unloaded already
        end = "embedded" if isinstance(made, Embeddings) else "ranked"
        state.metrics.embedded(loaded.id, end, made.num_tokens, time.perf_counter() - started_s)
    return made, loaded


def _renamed(error: LocalLLMError, field: str, *, is_single: bool) -> LocalLLMError:
    """`input 3` or `document 3` of the runtime is the path `input[3]` of this API, in the sentence too."""
    if error.param not in ("input", "documents"):
        return error
    item = error.details.get("item")
    path = field if is_single or item is None else f"{field}[{item}]"
    message = re.sub(rf"\b(?:input|documents?) {item}\b", path, error.message)
    return error.renamed(message, path)


def _encoded(made: Embeddings, model: str, format: Literal["float", "base64"], *, is_pooled: bool) -> bytes:
    from localllm.server.embeddings.encoding import embedding_list

    return embedding_list(made, model, format, is_pooled=is_pooled)
