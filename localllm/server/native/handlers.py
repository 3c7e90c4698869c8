"""The native endpoints: typed request in, typed answer out. Knows nothing of the vendors' APIs but their messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.server.body import json_response, read_json, unknown_fields_header
from localllm.server.native import requests as body
from localllm.server.openai.requests import to_messages
from localllm.server.parse import parse
from localllm.server.state import ServerState

T = TypeVar("T", bound=msgspec.Struct)


def routes() -> list[Route]:
    """What this package answers."""
    return [
        Route("/tokenize", tokenize, methods=["POST"]),
        Route("/detokenize", detokenize, methods=["POST"]),
        Route("/apply-template", apply_template, methods=["POST"]),
        Route("/slots", slots),
    ]


async def tokenize(request: Request) -> Response:
    """`POST /tokenize`."""
    state, asked, headers = await _read(request, body.TokenizeRequest)
    model = state.model_id(asked.model)
    tokens = await state.runtime.tokenize(
        model, asked.content, add_special=asked.add_special, parse_special=asked.parse_special
    )
    if not asked.with_pieces:
        return json_response(body.Tokens([*tokens]), headers)
    pieces = await state.runtime.pieces(model, tokens)
    return json_response(
        body.Tokens([body.Piece(token, _text_or_bytes(piece)) for token, piece in zip(tokens, pieces, strict=True)]),
        headers,
    )


async def detokenize(request: Request) -> Response:
    """`POST /detokenize`."""
    state, asked, headers = await _read(request, body.DetokenizeRequest)
    pieces = await state.runtime.pieces(state.model_id(asked.model), asked.tokens, special=asked.special)
    return json_response(body.Content(b"".join(pieces).decode("utf-8", "replace")), headers)


async def apply_template(request: Request) -> Response:
    """`POST /apply-template`."""
    state, asked, headers = await _read(request, body.ApplyTemplateRequest)
    text = await state.runtime.render(state.model_id(asked.model), to_messages(asked.messages))
    return json_response(body.Prompt(text), headers)


async def slots(request: Request) -> Response:
    """`GET /slots`: of every loaded model, between two of its steps."""
    state: ServerState = request.app.state.server
    found: list[body.Slot] = []
    for model in state.runtime.loaded():
        status = await state.runtime.status(model.id)
        found += [
            body.Slot(
                id=index,
                model=model.id,
                n_ctx=model.ctx,
                is_processing=slot.request is not None,
                kv_tokens=slot.num_held,
                prompt_tokens=slot.num_prompt,
                cached_tokens=slot.num_cached,
                computed_tokens=slot.num_computed,
                completion_tokens=slot.num_generated,
            )
            for index, slot in enumerate(status.slots)
        ]
    return Response(msgspec.json.encode(found), media_type="application/json")


async def _read(request: Request, kind: type[T]) -> tuple[ServerState, T, Mapping[str, str]]:
    state: ServerState = request.app.state.server
    given, asked = parse(await read_json(request, state.settings.max_body_bytes), kind)
    ignored = sorted(given.keys() - set(kind.__struct_fields__))
    headers = unknown_fields_header(ignored, strict=state.settings.strict)
    state.admit()
    return state, asked, headers


def _text_or_bytes(piece: bytes) -> Any:
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        return list(piece)
