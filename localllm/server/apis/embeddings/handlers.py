"""The endpoints: typed request in, vectors or a ranking out. A disconnect cancels the work."""

from __future__ import annotations

from functools import partial
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.server.apis.embeddings import making
from localllm.server.apis.embeddings import replies as out
from localllm.server.apis.embeddings.inputs import is_single, items_of
from localllm.server.apis.embeddings.requests import NativeBody, RerankBody, parse_embeddings, parse_rerank
from localllm.server.apis.tei.errors import answer_as_tei
from localllm.server.edge import sse
from localllm.server.requests.body import json_response
from localllm.server.requests.field_rules import known
from localllm.server.requests.parse import Fields
from localllm.server.requests.reading import read
from localllm.server.watching.tally import tally_of
from localllm.types.embeddings import Embeddings, Ranking


def routes() -> list[Route]:
    """Endpoints of this package. Metrics label all rankings with the last of their paths."""
    return [
        Route("/v1/embeddings", embeddings, methods=["POST"]),
        Route("/embedding", native, methods=["POST"]),
        Route("/embeddings", native, methods=["POST"]),
        Route("/rerank", rerank, methods=["POST"]),
        Route("/reranking", rerank, methods=["POST"]),
        Route("/v1/reranking", rerank, methods=["POST"]),
        Route("/v1/rerank", rerank, methods=["POST"]),
    ]


async def embeddings(request: Request) -> Response:
    """`POST /v1/embeddings`."""
    state, body, headers = await read(request, parse_embeddings, has_media=True)
    items, field = items_of(body.input, "input"), making.Field("input", is_single(body.input))
    normalize, dimensions = body.is_normalized(), body.dimensions
    model = await making.model_of(request, body.model)
    made = await making.vectors(request, model, items, field, body, normalize=normalize, dimensions=dimensions)
    is_pooled = making.is_pooled(made, state.loaded(model))
    # Encoding megabytes of numbers takes a while, as does the first import of NumPy in this process.
    content = await state.encoding.run(
        _encoded,
        made,
        tally_of(request).shown_model(body.model, model),
        body.encoding_format or "float",
        is_pooled=is_pooled,
    )
    headers |= out.truncated_header(made.truncated)
    return Response(content, media_type="application/json", headers=headers)


async def native(request: Request) -> Response:
    """`POST /embedding` and `POST /embeddings`: an array with an array of vectors per item."""
    state, body, headers = await read(request, known(NativeBody), has_media=True)
    given, name = body.given()
    # Empty texts are left to the model: if it adds special tokens, they have a vector.
    items, field = items_of(given, name, may_be_empty=True), making.Field(name, is_single(given))
    normalize, dimensions = body.is_normalized(), body.dimensions
    model = await making.model_of(request, body.model)
    if state.loaded(model) is None:
        await sse.unless_gone(request.receive, state.runtime.ensure(model))
    loaded = state.loaded(model)
    if loaded is not None and loaded.pooling == "none":
        normalize = False  # always, as in llama-server
    made = await making.vectors(request, model, items, field, body, normalize=normalize, dimensions=dimensions)
    headers |= out.truncated_header(made.truncated)
    content = await state.encoding.run(_encoded_natively, made)
    return Response(content, media_type="application/json", headers=headers)


async def rerank(request: Request) -> Response:
    """`POST /v1/rerank` and its other names."""

    def seen(given: Fields) -> None:
        if "texts" in given:
            answer_as_tei(request.scope)

    state, body, headers = await read(request, partial(parse_rerank, seen=seen))
    asked = making.rerank_request(request, body.query, body.candidates(), body)
    model = await making.model_of(request, body.model)
    made = await making.rank(request, model, asked, making.Field(body.field), body)
    headers |= out.truncated_header(made.truncated)
    loaded = state.loaded(model)
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
        out.RankedList(results=results, model=model, usage=out.usage(made), truncated=out.cut(made.truncated)),
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


def _encoded(made: Embeddings, model: str, format: Literal["float", "base64"], *, is_pooled: bool) -> bytes:
    from localllm.server.apis.embeddings.encoding import embedding_list

    return embedding_list(made, model, format, is_pooled=is_pooled)


def _encoded_natively(made: Embeddings) -> bytes:
    from localllm.server.apis.embeddings.encoding import vectors_of

    return msgspec.json.encode(
        [out.NativeEmbedding(index=index, embedding=vectors) for index, vectors in enumerate(vectors_of(made))]
    )
