"""llama-server's endpoints: typed request in, typed reply out. Of other APIs they know only messages."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.errors import InvalidParameter, SlotNotFound
from localllm.server.apis.llamacpp import requests as body
from localllm.server.apis.llamacpp.prompts import tokens_of
from localllm.server.edge import sse
from localllm.server.edge.callers import caller_of
from localllm.server.errors import Overloaded
from localllm.server.requests.body import documents_header, json_response, notes_header, read_optional_json
from localllm.server.requests.field_rules import known
from localllm.server.requests.marked_prompts import MARKER
from localllm.server.requests.messages import to_conversation
from localllm.server.requests.reading import read
from localllm.server.requests.rendering import RenderingFields, rendering_of
from localllm.server.requests.tools import told_tools
from localllm.server.state import ServerState
from localllm.server.watching.tally import tally_of


def routes() -> list[Route]:
    """Endpoints of this package."""
    return [
        Route("/tokenize", tokenize, methods=["POST"]),
        Route("/detokenize", detokenize, methods=["POST"]),
        Route("/apply-template", apply_template, methods=["POST"]),
        Route("/slots", slots),
        Route("/slots/{id_slot}", slot_action, methods=["POST"]),
    ]


async def tokenize(request: Request) -> Response:
    """`POST /tokenize`."""
    state, asked, headers = await read(request, known(body.TokenizeRequest))
    model = await _model(request, asked.model)
    items = [asked.content] if isinstance(asked.content, str) else asked.content
    work = tokens_of(state.runtime, model, items, add_special=asked.add_special, parse_special=asked.parse_special)
    tokens = await sse.unless_gone(request.receive, work)
    if not asked.with_pieces:
        return json_response(body.Tokens([*tokens]), headers)
    pieces = await sse.unless_gone(request.receive, state.runtime.pieces(model, tokens))
    return json_response(
        body.Tokens([body.Piece(token, _text_or_bytes(piece)) for token, piece in zip(tokens, pieces, strict=True)]),
        headers,
    )


async def detokenize(request: Request) -> Response:
    """`POST /detokenize`."""
    state, asked, headers = await read(request, known(body.DetokenizeRequest))
    model = await _model(request, asked.model)
    work = state.runtime.pieces(model, asked.tokens, special=asked.special)
    pieces = await sse.unless_gone(request.receive, work)
    return json_response(body.Content(b"".join(pieces).decode("utf-8", "replace")), headers)


async def apply_template(request: Request) -> Response:
    """`POST /apply-template`: a prompt for `/completion`, with the marker of /props for each picture and sound."""
    state, asked, headers = await read(request, known(body.ApplyTemplateRequest), has_media=True)
    model = await _model(request, asked.model)
    conversation = to_conversation(asked.messages)
    tools = told_tools([tool.declared(f"tools[{index}]") for index, tool in enumerate(asked.tools or ())])
    completing = state.media.complete(conversation.messages, conversation.files, caller_of(request).owner)
    completed = await sse.unless_gone(request.receive, completing)
    rendering = rendering_of(RenderingFields.of(asked), completed.messages, tools)
    work = state.runtime.render(model, completed.messages, rendering, marker=MARKER)
    text = await sse.unless_gone(request.receive, work)
    headers |= documents_header(completed.documents) | notes_header([*conversation.notes, *completed.notes])
    return json_response(body.Prompt(text), headers)


async def slots(request: Request) -> Response:
    """`GET /slots`: the slots of every loaded model, as they are between two steps."""
    state: ServerState = request.app.state.server
    found: list[body.Slot] = []
    restarting = state.runtime.restarting()
    for model in state.runtime.loaded():
        if model.id in restarting:
            continue
        status = await state.runtime.status(model.id)
        found += [
            body.Slot(
                id=index,
                model=model.id,
                n_ctx=model.ctx,
                speculative=model.speculation == "auto",
                is_processing=slot.request is not None,
                id_task=-1 if slot.request is None else slot.request,
                n_prompt_tokens=slot.num_prompt,
                n_prompt_tokens_processed=max(0, min(slot.num_computed, slot.num_prompt) - slot.num_cached),
                n_prompt_tokens_cache=slot.num_cached,
                kv_tokens=slot.num_held,
                prompt_tokens=slot.num_prompt,
                cached_tokens=slot.num_cached,
                computed_tokens=slot.num_computed,
                completion_tokens=slot.num_generated,
            )
            for index, slot in enumerate(status.slots)
        ]
    if request.query_params.get("fail_on_no_slot") and all(slot.is_processing for slot in found):
        raise Overloaded("no slot is free")
    return Response(msgspec.json.encode(found), media_type="application/json")


async def slot_action(request: Request) -> Response:
    """`POST /slots/{id_slot}?action=save|restore|erase`."""
    caller_of(request).check_may("save, restore or erase slots")
    state, asked, headers = await read(request, known(body.SlotRequest), read_optional_json)
    action, slot = request.query_params.get("action"), _slot_number(request.path_params["id_slot"])
    if action not in ("save", "restore", "erase"):
        raise InvalidParameter("action must be save, restore or erase", param="action")
    model = await state.model_id(request.query_params.get("model") or asked.model)
    runtime = state.runtime
    if action == "erase":
        return json_response(body.SlotDone(id_slot=slot, n_erased=await runtime.erase_slot(model, slot)), headers)
    name = asked.filename
    if name is None:
        raise InvalidParameter(f"filename is missing: the name to {action}", param="filename")
    if action == "save":
        saved = await runtime.save_slot(model, slot, name)
        timings = body.SlotTimings(save_ms=1000 * saved.seconds)
        done = body.SlotDone(
            id_slot=slot, filename=name, n_saved=saved.num_tokens, n_written=saved.size_bytes, timings=timings
        )
    else:
        restored = await runtime.restore_slot(model, slot, name)
        timings = body.SlotTimings(restore_ms=1000 * restored.seconds)
        done = body.SlotDone(
            id_slot=slot, filename=name, n_restored=restored.num_tokens, n_read=restored.size_bytes, timings=timings
        )
    return json_response(done, headers)


async def _model(request: Request, asked: str | None) -> str:
    """The requested model. Raises `ModelNotFound`."""
    state: ServerState = request.app.state.server
    model = await state.model_for(request, asked)
    tally_of(request).begin(model, state.loaded(model))
    return model


def _slot_number(text: str) -> int:
    """Raises `SlotNotFound`."""
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        raise SlotNotFound("slots are numbered from 0; GET /slots lists them", param="id_slot")
    return int(text)


def _text_or_bytes(piece: bytes) -> Any:
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        return list(piece)
