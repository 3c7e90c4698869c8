"""`/v1/audio/transcriptions` and `/v1/audio/translations`: a form with a sound in, a transcript or events out.

The parts of a long sound are answered on all slots. Every answer is closed.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.chat.media_files import MediaReading
from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.runtime.runtime import Answer
from localllm.server.answers import catalog
from localllm.server.answers.generation import Asking, asking_of
from localllm.server.apis.audio import replies
from localllm.server.apis.audio.form import FILE, read_form
from localllm.server.apis.audio.instructions import TRANSCRIBE, instruction_for, prompt_of
from localllm.server.apis.audio.parts import Segment, Transcript, in_order
from localllm.server.apis.audio.requests import SoundRequest, TranscriptionRequest, TranslationRequest
from localllm.server.edge import sse
from localllm.server.edge.limits import places_of
from localllm.server.edge.paths import both
from localllm.server.errors import RateLimited, error_body
from localllm.server.requests.body import unknown_fields_header
from localllm.server.requests.field_rules import known
from localllm.server.state import ServerState
from localllm.types import GenerationRequest, Media, MediaFile, SoundCuts


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
    sound, file = _sound(form.file)
    await _check_hears(state, asking.model)
    cuts = await sse.unless_gone(request.receive, state.runtime.cut_sound(state.named(asking.model), sound, file))
    made_of = await _generations(asking, body, sound, file, cuts)
    transcript = Transcript(
        cuts.duration_ms / 1000,
        [Segment(start / 1000, end / 1000) for start, end in cuts.parts_ms],
        instruction_for(_kind(asking)).begins_after,
    )
    begun = (await asking.answers(made_of[:1], stream=False)).result() if made_of else []
    texts = _texts(asking, transcript, begun, made_of[1:], _width(request, asking, len(made_of)))
    if body.is_streamed:
        id = f"transcript-{secrets.token_hex(12)}"
        answering = asyncio.get_running_loop().create_future()
        answering.set_result(begun)
        return asking.stream(answering, _events(transcript, texts), lambda error: [sse.data(error_body(error))], id=id)
    await asking.whole(begun, _drained(texts))
    return replies.reply(
        transcript,
        body.format,
        task=body.task,
        language=body.language_code,
        temperature=body.params().temperature or 0.0,
        headers=asking.headers,
        has_timings=bool(body.timings),
    )


def _sound(data: bytes) -> tuple[Media, MediaFile]:
    reading = MediaReading()
    sound = reading.of(data, FILE, "audio")
    if sound.kind != "audio":
        raise InvalidParameter(f"{FILE} is no sound but a picture; send a recording", param=FILE)
    return sound, reading.files[0]


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


def _kind(asking: Asking) -> str:
    """The type of the model's projector."""
    projector = None if asking.loaded is None else asking.loaded.projector
    return "" if projector is None or projector.audio is None else projector.audio.type


async def _generations(
    asking: Asking, body: SoundRequest, sound: Media, file: MediaFile, cuts: SoundCuts
) -> list[GenerationRequest]:
    """One request per part. Raises `RequestError`s."""
    kind, params, has_token = _kind(asking), body.params(), False
    if kind == "voxtral":
        tokens = await asking.state.runtime.tokenize(
            asking.state.named(asking.model), TRANSCRIBE, add_special=False, parse_special=True
        )
        has_token = len(tokens) == 1
    return [
        body.generation_of(
            params,
            media=(file,),
            **prompt_of(
                kind,
                msgspec.structs.replace(sound, part_ms=part),
                body.task,
                prompt=body.prompt or "",
                language=body.language_code,
                has_transcribe_token=has_token,
            ),
        )
        for part in cuts.parts_ms
    ]


def _width(request: Request, asking: Asking, num_parts: int) -> int:
    """How many parts are answered at a time: all slots, or one if the key may not have as many."""
    slots = 1 if asking.loaded is None else asking.loaded.slots
    width = max(1, min(slots, num_parts))
    try:
        places_of(request).hold(width, FILE)
    except (RateLimited, InvalidParameter):
        return 1
    return width


async def _texts(
    asking: Asking, transcript: Transcript, begun: list[Answer], others: list[GenerationRequest], width: int
) -> AsyncGenerator[str, None]:
    """What the whole text grows by."""
    if not begun:
        return
    async with aclosing(in_order(begun[0], others, asking.one_more, width=width)) as deltas:
        async for index, delta in deltas:
            if text := transcript.feed(index, delta):
                yield text


async def _events(transcript: Transcript, texts: AsyncGenerator[str, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(texts):
        async for text in texts:
            yield sse.data(msgspec.json.encode(replies.TextDelta(text)))
    done = replies.TextDone(transcript.text, replies.usage_of(transcript))
    yield sse.data(msgspec.json.encode(done))


async def _drained(texts: AsyncGenerator[str, None]) -> None:
    async with aclosing(texts):
        async for _ in texts:
            pass
