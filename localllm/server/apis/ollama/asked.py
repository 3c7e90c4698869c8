"""The first steps of all endpoints: parse the body, whatever its content type, and find the model by name.

Ollama's clients send no content type or a wrong one; the gate refuses pages of other sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import msgspec
from starlette.requests import Request

from localllm.errors import InvalidParameter, ModelNotFound
from localllm.server.apis.ollama.errors import no_model
from localllm.server.apis.ollama.fields import AnswerFields, CommonFields, without_effect
from localllm.server.apis.ollama.names import DEFAULT_TAG, found, ours, shown
from localllm.server.edge.callers import caller_of
from localllm.server.requests.body import read_body, unknown_fields_header
from localllm.server.requests.field_rules import parse_known
from localllm.server.requests.parse import Fields
from localllm.server.state import ServerState
from localllm.server.watching.tally import tally_of
from localllm.types.states import AvailableModel

T = TypeVar("T", bound=msgspec.Struct)
C = TypeVar("C", bound=CommonFields)


class ParsedBody(NamedTuple):
    """A parsed body, and the header for its ignored fields."""

    fields: Fields
    kind: type[msgspec.Struct]
    unknown: list[str]

    def headers(self, state: ServerState, ctx: int | None = None, more: Sequence[str] = ()) -> dict[str, str]:
        """`ctx`: the model's context, if relevant; `more`: further fields without effect.

        Raises `UnknownParameter` on a strict server.
        """
        self.check(state)
        return unknown_fields_header([*self.unknown, *without_effect(self.fields, self.kind, ctx), *more], strict=False)

    def check(self, state: ServerState) -> None:
        """Raises `UnknownParameter` for an unknown field on a strict server."""
        if state.settings.strict:
            unknown_fields_header(self.unknown, strict=True)


async def read(request: Request, kind: type[T]) -> tuple[ServerState, T, ParsedBody]:
    """The server's state, the request, and its given fields. Raises `InvalidParameter`, `Draining`."""
    state: ServerState = request.app.state.server
    media_bytes = state.settings.max_request_media_bytes if issubclass(kind, AnswerFields) else 0
    body = await read_body(request, state.settings.max_body_bytes, media_bytes)
    if not body.strip():
        raise InvalidParameter("missing request body")
    fields, asked, unknown = parse_known(body, kind)
    if isinstance(asked, CommonFields) and asked.options is not None:
        asked.options.params(None)  # wrong values are errors even without a prompt
    state.admit()
    return state, asked, ParsedBody(fields, kind, unknown)


def heeded(request: Request, body: C, *, asks: bool) -> tuple[C, list[str]]:
    """The body, and the fields in it that the key may not set.

    Clients send `keep_alive` with every request. Ignoring it is better than refusing the request.
    """
    if not asks or body.keep_alive is None or caller_of(request).may_manage:
        return body, []
    return msgspec.structs.replace(body, keep_alive=None), ["keep_alive"]


async def model_of(state: ServerState, asked: str) -> str:
    """The requested model's id. Raises `ModelNotFound`, `InvalidParameter`."""
    composed = asked.removesuffix(f":{DEFAULT_TAG}")
    if "+" in composed and state.runtime.adapters.base(composed) != composed:
        return composed
    here = [model.id for model in state.runtime.loaded()] + [model.id for model in state.runtime.running()]
    id = found(asked, here)
    if id is None:
        there = await available(state)
        id = found(asked, there)
        if id is None:
            raise no_model(asked, {**dict.fromkeys(here), **there})
    return id


async def model_for(request: Request, state: ServerState, asked: str) -> tuple[str, str]:
    """`model_of` for an answer, and the model's name in the reply: Ollama's clients pull a model that is not found, so
    only a name that nobody knows is answered by another model. Raises as `model_of`.
    """
    try:
        return await model_of(state, asked), asked
    except ModelNotFound:
        id = await state.model_for(request, ours(asked))
        if tally_of(request).instead is None and state.loaded(id) is None:
            raise
        return id, asked if tally_of(request).instead is None else shown(id)


async def available(state: ServerState) -> dict[str, AvailableModel]:
    """The models on this machine by id, including those that only this process knows, and those with a problem."""
    there = {model.id: model for model in await state.listing.run(state.runtime.listed)}
    for loaded in state.runtime.loaded():
        if loaded.id not in there:
            there[loaded.id] = AvailableModel(
                id=loaded.id,
                size_bytes=loaded.info.size_bytes,
                created_unix_s=loaded.created_unix_s,
                quant=loaded.info.file_type,
            )
    return there
