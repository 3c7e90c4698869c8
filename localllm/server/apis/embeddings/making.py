"""Embedding and ranking for every API: counted, errors under the API's names, cancelled on disconnect."""

from __future__ import annotations

import re
import time
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple, TypeVar

from starlette.requests import Request

from localllm.errors import InvalidParameter, LocalLLMError
from localllm.server.apis.embeddings.inputs import Item, alike
from localllm.server.apis.embeddings.requests import WorkFields
from localllm.server.edge import sse
from localllm.server.edge.callers import caller_of
from localllm.server.requests.marked_prompts import MarkedPrompt
from localllm.server.state import ServerState
from localllm.server.watching.tally import tally_of
from localllm.types import LoadedModel, Message
from localllm.types.embeddings import EmbeddingRequest, Embeddings, Ranking, RerankRequest

MadeT = TypeVar("MadeT", Embeddings, Ranking)


class WrongModel(InvalidParameter):
    """The model does not support this."""


class Field(NamedTuple):
    """Where a request has its items, for error messages about one of them."""

    name: str
    is_single: bool = False
    """Whether there is a single item outside an array."""


async def model_of(request: Request, asked: str | None) -> str:
    """The requested model. Raises `ModelNotFound`."""
    state: ServerState = request.app.state.server
    model = await state.model_for(request, asked)
    tally_of(request).begin(asked or model, state.loaded(model))
    return model


async def vectors(
    request: Request, model: str, items: list[Item], field: Field, wishes: WorkFields, **options: Any
) -> Embeddings:
    """The vectors of one model. `options`: of the embedding.

    Raises `InvalidParameter`, `UnsupportedParameter`, as `Runtime.embed`, and `ClientGone`.
    """
    state: ServerState = request.app.state.server
    check_number(state, field.name, len(items))

    async def tokenize(text: str, begins: bool) -> list[int]:
        work = state.runtime.tokenize(model, text, add_special=begins)
        try:
            return await sse.unless_gone(request.receive, work)
        except InvalidParameter as error:
            raise error.renamed(error.message, field.name) from error

    texts, tokens, marked = await alike(items, tokenize)
    asked = EmbeddingRequest(
        texts=None if texts is None else tuple(texts),
        tokens=None if tokens is None else tuple(map(tuple, tokens)),
        **({} if marked is None else await sse.unless_gone(request.receive, _completed(request, marked))),
        **options,
        **_order(request, wishes),
    )
    keep_alive_s = caller_of(request).keep_alive(wishes.keep_alive_s())
    return await finished(request, model, state.runtime.embed(model, asked, keep_alive_s=keep_alive_s), field)


async def _completed(request: Request, marked: Sequence[MarkedPrompt]) -> dict[str, Any]:
    """Texts with pictures and sounds, all of these there, as fields of the request. Raises `InvalidParameter`."""
    files = {file.digest: file for prompt in marked for file in prompt.files}
    messages = tuple(Message("user", "", parts=prompt.parts) for prompt in marked)
    state: ServerState = request.app.state.server
    whole = await state.media.complete(messages, tuple(files.values()), caller_of(request).owner)
    return {"parts": tuple(message.parts for message in whole.messages), "media": whole.files}


def check_number(state: ServerState, name: str, number: int) -> None:
    """Raises `InvalidParameter` for more texts than a request may have."""
    most = state.settings.max_texts
    if number > most:
        raise InvalidParameter(
            f"{name} takes at most {most} texts at a time (--max-texts), got {number}; send fewer", param=name
        )


def rerank_request(request: Request, query: str, documents: tuple[str, ...], wishes: WorkFields) -> RerankRequest:
    """The request for one query. Raises `InvalidParameter`, `UnsupportedParameter`."""
    return RerankRequest(query=query, documents=documents, **_order(request, wishes))


async def rank(request: Request, model: str, asked: RerankRequest, field: Field, wishes: WorkFields) -> Ranking:
    """The scores. Raises as `Runtime.rerank`, and `ClientGone`."""
    state: ServerState = request.app.state.server
    check_number(state, field.name, len(asked.documents))
    keep_alive_s = caller_of(request).keep_alive(wishes.keep_alive_s())
    return await finished(request, model, state.runtime.rerank(model, asked, keep_alive_s=keep_alive_s), field)


def is_pooled(made: Embeddings, loaded: LoadedModel | None) -> bool:
    """Whether an item has one vector instead of one per token."""
    return set(made.num_vectors) == {1} and (loaded is None or loaded.pooling != "none")


def _order(request: Request, wishes: WorkFields) -> dict[str, Any]:
    """Time limits and priority, for either kind of request."""
    state: ServerState = request.app.state.server
    timeout_s, queue_timeout_s = state.time_limits_s()
    return {
        "truncate": wishes.is_cut(),
        "priority": caller_of(request).priority(wishes.priority),
        "timeout_s": timeout_s if wishes.timeout is None else wishes.timeout,
        "queue_timeout_s": queue_timeout_s,
    }


async def finished(request: Request, model: str, work: Coroutine[Any, Any, MadeT], field: Field | None = None) -> MadeT:
    """The runtime's result, counted. Raises its errors, under the names of the request's field, and `ClientGone`."""
    state: ServerState = request.app.state.server
    started_s = time.perf_counter()
    try:
        made = await sse.unless_gone(request.receive, work)
    except LocalLLMError as error:
        raise state.seen_by_client(error if field is None else _renamed(error, field)) from error
    loaded = state.loaded(model)
    tally_of(request).embedded(loaded, made.num_tokens)
    if loaded is not None:  # otherwise it is being unloaded
        end = "embedded" if isinstance(made, Embeddings) else "ranked"
        state.metrics.embedded(loaded.id, end, made.num_tokens, time.perf_counter() - started_s)
    return made


def _renamed(error: LocalLLMError, field: Field) -> LocalLLMError:
    """`input 3` or `document 3` of the runtime becomes this API's path `input[3]`, also in the message."""
    if isinstance(error, InvalidParameter) and error.param == "model":
        return WrongModel(error.message, param="model")
    if error.param not in ("input", "documents"):
        return error
    item = error.details.get("item")
    path = field.name if field.is_single or item is None else f"{field.name}[{item}]"
    message = re.sub(rf"\b(?:input|documents?) {item}\b", path, error.message)
    return error.renamed(message, path)
