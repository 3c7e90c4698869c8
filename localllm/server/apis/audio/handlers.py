"""`/v1/audio/transcriptions` and `/v1/audio/translations`: a form with a sound in, a transcript or events out.

The parts of a long sound are answered on all slots. Every answer is closed.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.runtime.runtime import Answer
from localllm.runtime.transcripts.parts import Growing, in_order
from localllm.runtime.transcripts.planning import plan, sound_of
from localllm.server.answers import catalog
from localllm.server.answers.generation import Asking, asking_of
from localllm.server.apis.audio import replies
from localllm.server.apis.audio.form import FILE, read_form
from localllm.server.apis.audio.requests import SoundRequest, TranscriptionRequest, TranslationRequest
from localllm.server.apis.embeddings.replies import truncated_header
from localllm.server.edge import sse
from localllm.server.edge.limits import places_of
from localllm.server.edge.paths import both
from localllm.server.errors import RateLimited, error_body
from localllm.server.requests.body import unknown_fields_header
from localllm.server.requests.field_rules import known
from localllm.server.state import ServerState
from localllm.types import Delta, GenerationRequest


def routes() -> list[Route]:
    """Endpoints of this package."""
    return [
        *both("/v1/audio/transcriptions", transcriptions, ["POST"]),
        *both("/v1/audio/translations", translations, ["POST"]),
    ]


async def transcriptions(request: Request) -> Response:
    """`POST /v1/audio/transcriptions`."""
    return await _respond(request, TranscriptionRequest)


async def translations(request: Request) -> Response:
    """`POST /v1/audio/translations`: the same, in English."""
    return await _respond(request, TranslationRequest)


async def _respond(request: Request, kind: type[SoundRequest]) -> Response:
    state: ServerState = request.app.state.server
    settings = state.settings
    form = await read_form(
        request, kind, max_file_bytes=settings.max_media_bytes, max_field_bytes=settings.max_body_bytes
    )
    body, ignored = known(kind)(form.fields)
    body.check()
    state.admit()
    asking = await asking_of(request, body, unknown_fields_header(ignored, strict=settings.strict))
    sound, file = sound_of(form.file, FILE)
    await _check_hears(state, asking.model)
    growing, prompts = await sse.unless_gone(
        request.receive,
        plan(state.runtime, state.named(asking.model), lambda: asking.loaded, sound, file, body.wanted),
    )
    params = body.params()
    made_of = [body.generation_of(params, media=(file,), **prompt) for prompt in prompts]
    begun = (await asking.answers(made_of[:1], stream=False)).result() if made_of else []
    deltas = _deltas(asking, growing, begun, made_of[1:], _width(request, asking, len(made_of)))
    details = replies.Details(body.task, body.language or "", params.temperature or 0.0, has_timings=bool(body.timings))
    if body.is_streamed:
        id = f"transcript-{secrets.token_hex(12)}"
        answering = asyncio.get_running_loop().create_future()
        answering.set_result(begun)
        events = replies.events(growing, deltas, body.format, details)
        return asking.stream(answering, events, lambda error: [sse.data(error_body(error))], id=id)
    await asking.whole(begun, _drained(deltas))
    transcript = growing.whole()
    cut_short = (number for number, segment in enumerate(transcript.segments) if segment.cut_short)
    asking.headers |= truncated_header(tuple(cut_short))
    return replies.reply(transcript, body.format, details, growing.timings, asking.headers)


async def _check_hears(state: ServerState, model: str) -> None:
    """Raises `UnsupportedParameter`, with the models that hear, before a model is loaded that does not."""
    entries = await catalog.entries(state)
    named = state.named(model)
    found = next((entry for entry in entries if entry.id == named), None)
    if found is None or found.info is None or "audio" in found.reads:
        return
    hearing = [entry.id for entry in entries if "audio" in entry.reads]
    remedy = f"these models on this machine do: {', '.join(hearing)}" if hearing else "no model on this machine does"
    raise UnsupportedParameter(f"{found.id} cannot hear audio; {remedy} (localllm search audio)", param="model")


def _width(request: Request, asking: Asking, num_parts: int) -> int:
    """How many parts are answered at a time: all slots, or one if the key may not have as many."""
    slots = 1 if asking.loaded is None else asking.loaded.slots
    width = max(1, min(slots, num_parts))
    try:
        places_of(request).hold(width, FILE)
    except (RateLimited, InvalidParameter):
        return 1
    return width


async def _deltas(
    asking: Asking, growing: Growing, begun: list[Answer], others: list[GenerationRequest], width: int
) -> AsyncGenerator[tuple[int, str, Delta], None]:
    """The index of a part, what the whole text grows by, and the delta, which has `finish` at the part's end."""
    if not begun:
        return
    async with aclosing(in_order(begun[0], others, asking.one_more, width=width)) as deltas:
        async for index, delta in deltas:
            yield index, growing.feed(index, delta), delta


async def _drained(deltas: AsyncGenerator[tuple[int, str, Delta], None]) -> None:
    async with aclosing(deltas):
        async for _ in deltas:
            pass
