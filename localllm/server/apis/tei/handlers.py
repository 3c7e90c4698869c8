"""The endpoints of text-embeddings-inference that a GGUF model can answer; the others are refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.errors import InvalidParameter, ModelNotFound
from localllm.server.apis.embeddings import making
from localllm.server.apis.embeddings.inputs import Item, is_single, items_of
from localllm.server.apis.embeddings.replies import truncated_header
from localllm.server.apis.tei.replies import info as info_of
from localllm.server.apis.tei.requests import EmbedBody, InputsBody, SimilarityBody, parse_similarity
from localllm.server.requests.body import json_response
from localllm.server.requests.field_rules import known
from localllm.server.requests.reading import read
from localllm.server.state import ServerState
from localllm.types.embeddings import Embeddings


def routes() -> list[Route]:
    """Endpoints of this package."""
    return [
        Route("/embed", embed, methods=["POST"]),
        Route("/embed_all", embed_all, methods=["POST"]),
        Route("/embed_sparse", embed_sparse, methods=["POST"]),
        Route("/similarity", similarity, methods=["POST"]),
        Route("/predict", predict, methods=["POST"]),
        Route("/info", info),
    ]


async def embed(request: Request) -> Response:
    """`POST /embed`: an array of vectors, also for a single text."""
    _, body, headers = await read(request, known(EmbedBody), has_media=True)
    normalize, dimensions = body.normalize is not False, body.dimensions
    return await _respond(request, body, headers, *_items(body), _rows, normalize=normalize, dimensions=dimensions)


async def embed_all(request: Request) -> Response:
    """`POST /embed_all`: for each text, an array with one vector per token."""
    _, body, headers = await read(request, known(InputsBody), has_media=True)
    return await _respond(request, body, headers, *_items(body), _vectors, is_pooled=False, normalize=False)


async def similarity(request: Request) -> Response:
    """`POST /similarity`: cosine similarity of each sentence to the source sentence."""
    _, body, headers = await read(request, parse_similarity)
    sentences, wishes = body.inputs.sentences, body.parameters
    if not sentences:
        raise InvalidParameter("inputs.sentences must not be an empty array", param="inputs.sentences")
    if wishes is not None and wishes.truncate is not None:
        body = msgspec.structs.replace(body, truncate=wishes.truncate)
    items: list[Item] = [body.inputs.source_sentence, *sentences]
    return await _respond(request, body, headers, items, making.Field("inputs"), _similarities, normalize=True)


async def embed_sparse(_: Request) -> NoReturn:
    """`POST /embed_sparse`."""
    raise making.WrongModel("no GGUF model has sparse vectors (SPLADE); use POST /embed", param="model")


async def predict(_: Request) -> NoReturn:
    """`POST /predict`."""
    raise making.WrongModel("classifiers are not supported; rerankers serve POST /rerank", param="model")


async def info(request: Request) -> Response:
    """`GET /info` for `?model=` or the loaded model."""
    state: ServerState = request.app.state.server
    model = await making.model_of(request, request.query_params.get("model"))
    if state.loaded(model) is None:
        await state.runtime.ensure(model)
    loaded = state.loaded(model)
    if loaded is None:  # unloaded meanwhile
        raise ModelNotFound(f"{model} is no longer loaded", param="model")
    return json_response(info_of(loaded, state.settings))


def _items(body: InputsBody) -> tuple[list[Item], making.Field]:
    return items_of(body.inputs, "inputs"), making.Field("inputs", is_single(body.inputs))


async def _respond(
    request: Request,
    body: InputsBody | SimilarityBody,
    headers: dict[str, str],
    items: list[Item],
    field: making.Field,
    encode: Callable[[Embeddings], bytes],
    *,
    is_pooled: bool = True,
    **options: Any,
) -> Response:
    """The encoded vectors; `is_pooled`: whether each item must have one, instead of one per token."""
    state: ServerState = request.app.state.server
    model = await making.model_of(request, body.model)
    made = await making.vectors(request, model, items, field, body, **options)
    if making.is_pooled(made, state.loaded(model)) != is_pooled:
        has = "token (pooling none); use POST /embed_all"
        if not is_pooled:
            has = "text; load it with --pooling none to get one per token"
        raise making.WrongModel(f"{model} returns one vector per {has}", param="model")
    content = await state.encoding.run(encode, made)
    return Response(content, media_type="application/json", headers=headers | truncated_header(made.truncated))


def _rows(made: Embeddings) -> bytes:
    from localllm.server.apis.embeddings.encoding import rows_of

    return msgspec.json.encode(list(rows_of(made)))


def _vectors(made: Embeddings) -> bytes:
    from localllm.server.apis.embeddings.encoding import vectors_of

    return msgspec.json.encode(list(vectors_of(made)))


def _similarities(made: Embeddings) -> bytes:
    from localllm.server.apis.embeddings.encoding import similarities

    return msgspec.json.encode(similarities(made))
