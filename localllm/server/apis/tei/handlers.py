"""The endpoints of text-embeddings-inference that a GGUF model can answer; the others are refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.errors import InvalidParameter, ModelNotFound
from localllm.server.apis.embeddings import making
from localllm.server.apis.embeddings.inputs import Item, check_number, is_single, items_of
from localllm.server.apis.embeddings.replies import truncated_header
from localllm.server.apis.embeddings.requests import WorkFields
from localllm.server.apis.tei.replies import info as info_of
from localllm.server.apis.tei.requests import EmbedBody, InputsBody, SimilarityBody, SimilarityParameters
from localllm.server.common.body import json_response, read_json, unknown_fields_header
from localllm.server.common.field_rules import fates_of, parse_known, unknown_fields
from localllm.server.common.parse import fields_of
from localllm.server.state import ServerState
from localllm.types.embeddings import Embeddings

T = TypeVar("T", bound=msgspec.Struct)


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
    body, headers = await _read(request, EmbedBody)
    items, field = items_of(body.inputs, "inputs"), making.Field("inputs", is_single(body.inputs))
    model, made = await _made(
        request, items, field, body, body.model, normalize=body.normalize is not False, dimensions=body.dimensions
    )
    _check_pooled(request, model, made)
    return await _respond(request, _rows, made, headers)


async def embed_all(request: Request) -> Response:
    """`POST /embed_all`: for each text, an array with one vector per token."""
    body, headers = await _read(request, InputsBody)
    items, field = items_of(body.inputs, "inputs"), making.Field("inputs", is_single(body.inputs))
    model, made = await _made(request, items, field, body, body.model, normalize=False)
    state: ServerState = request.app.state.server
    if making.is_pooled(made, state.loaded(model)):
        raise making.WrongModel(
            f"{model} returns one vector per text; load it with --pooling none to get one per token",
            param="model",
        )
    return await _respond(request, _vectors, made, headers)


async def similarity(request: Request) -> Response:
    """`POST /similarity`: cosine similarity of each sentence to the source sentence."""
    body, headers = await _read(request, SimilarityBody, within=("parameters", SimilarityParameters))
    sentences, wishes = body.inputs.sentences, body.parameters
    if not sentences:
        raise InvalidParameter("inputs.sentences must not be an empty array", param="inputs.sentences")
    check_number("inputs.sentences", len(sentences))
    if wishes is not None and wishes.truncate is not None:
        body = msgspec.structs.replace(body, truncate=wishes.truncate)
    items: list[Item] = [body.inputs.source_sentence, *sentences]
    model, made = await _made(request, items, making.Field("inputs"), body, body.model, normalize=True)
    _check_pooled(request, model, made)
    return await _respond(request, _similarities, made, headers)


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


async def _read(
    request: Request, kind: type[T], *, within: tuple[str, type[msgspec.Struct]] | None = None
) -> tuple[T, dict[str, str]]:
    """`within`: a field whose value is an object."""
    state: ServerState = request.app.state.server
    given, body, ignored = parse_known(await read_json(request, state.settings.max_body_bytes), kind)
    if within is not None:
        name, inner = within
        fields = fields_of(given.get(name))
        fates_of(inner).check(fields, f"{name}.")
        ignored += unknown_fields(fields, inner, f"{name}.")
    state.admit()
    return body, unknown_fields_header(ignored, strict=state.settings.strict)


async def _made(
    request: Request,
    items: list[Item],
    field: making.Field,
    wishes: WorkFields,
    asked_model: str | None,
    **options: Any,
) -> tuple[str, Embeddings]:
    model = await making.model_of(request, asked_model)
    asked = await making.embedding_request(request, model, items, field, wishes, **options)
    return model, await making.embed(request, model, asked, field, wishes)


def _check_pooled(request: Request, model: str, made: Embeddings) -> None:
    state: ServerState = request.app.state.server
    if not making.is_pooled(made, state.loaded(model)):
        raise making.WrongModel(
            f"{model} returns one vector per token (pooling none); use POST /embed_all", param="model"
        )


async def _respond(
    request: Request, encode: Callable[[Embeddings], bytes], made: Embeddings, headers: dict[str, str]
) -> Response:
    state: ServerState = request.app.state.server
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
