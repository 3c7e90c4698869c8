"""`/api/chat` and `/api/generate`: from the request to the answer's lines.

A model whose context is smaller than `num_ctx` is reloaded first; a conversation that is too long loses its oldest
messages.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from localllm.chat.media_files import MediaReading
from localllm.errors import ContextLengthExceeded, InvalidParameter, LocalLLMError
from localllm.runtime.runtime import Answer
from localllm.server.answers.generation import Asking, abandon
from localllm.server.answers.story import drained, events_of
from localllm.server.apis.ollama.answers import Line, Story
from localllm.server.apis.ollama.asked import ParsedBody, heeded, model_for
from localllm.server.apis.ollama.lines import LineStream
from localllm.server.apis.ollama.replies import ChatReply, nanoseconds
from localllm.server.apis.ollama.requests import ChatRequest, GenerateRequest
from localllm.server.apis.ollama.truncating import LEFT_OUT, room_of, shortened
from localllm.server.edge import sse
from localllm.server.edge.callers import caller_of
from localllm.server.requests.body import json_response, notes_header
from localllm.server.requests.marked_prompts import MARKER, between
from localllm.server.state import ServerState
from localllm.types import GenerationRequest, LoadedModel, Message, Rendering
from localllm.types.states import RunningModel

NO_RENDERING = Rendering()
STAYS_S = 1.0
"""If a model is unloaded sooner than this, `context` is omitted from the reply."""


async def answer(
    request: Request, state: ServerState, body: ChatRequest | GenerateRequest, given: ParsedBody, started_s: float
) -> Response:
    """The response to a prompt; without a prompt, loads or unloads the model."""
    name, made_of = body.asked_model, body.generation()
    given.check(state)
    body, unheeded = heeded(request, body, asks=made_of is not None)
    id, name = await model_for(request, state, name)
    asking = Asking(request, id, body)
    is_chat = isinstance(body, ChatRequest)
    if made_of is None:
        return await _loaded(request, state, asking, body, Story(name, started_s, is_chat=is_chat))
    await _widened(request, state, asking, body)
    if isinstance(body, GenerateRequest) and body.context:
        made_of = await sse.unless_gone(request.receive, _continued(state, asking.model, made_of, body.context))
    answering = await _begun(
        asking, made_of, name, truncates=isinstance(body, ChatRequest) and body.truncate is not False
    )
    try:
        loaded = asking.loaded
        _check_thoughts(loaded, name, body)
        headers = asking.headers | given.headers(state, None if loaded is None else loaded.ctx, unheeded)
    except BaseException:
        await abandon(answering)
        raise
    story = Story(name, started_s, is_chat=is_chat, load_s=time.perf_counter() - started_s)
    lines = events_of([story], answering, says_miss=False)

    async def completed(line: Line) -> Line:
        """The last line or the reply, with `context`."""
        if isinstance(line, ChatReply) or isinstance(body, ChatRequest) or body.raw or body.suffix:
            return line
        context = await _context(state, asking.model, body, story.text)
        total = nanoseconds(time.perf_counter() - started_s)
        return line if context is None else msgspec.structs.replace(line, context=context, total_duration=total)

    async def streamed() -> AsyncGenerator[Line, None]:
        async with aclosing(lines):
            async for line in lines:
                yield await completed(line) if line.done else line

    async def whole() -> Line:
        await drained(lines)
        return await completed(story.whole())

    if body.stream is not False:
        return LineStream(state, streamed(), partial(abandon, answering), headers)
    return json_response(await asking.whole(answering.result(), whole()), headers)


async def _begun(
    asking: Asking, made_of: GenerationRequest, name: str, *, truncates: bool
) -> asyncio.Future[list[Answer]]:
    """Waits for the answer to begin even in a stream, so that errors get a status, as in Ollama."""
    notes: list[str] = []
    while True:
        try:
            answering = await asking.answers([made_of], stream=False, field="prompt")
        except ContextLengthExceeded as error:
            num_tokens, ctx = error.details.get("prompt_tokens"), error.details.get("context_length")
            if not truncates or made_of.messages is None or not isinstance(num_tokens, int) or not isinstance(ctx, int):
                raise
            fewer = shortened(made_of.messages, num_tokens, ctx - room_of(ctx, made_of.params.max_tokens))
            if fewer is None:
                raise
            made_of = msgspec.structs.replace(made_of, messages=fewer)
            notes = [LEFT_OUT]
        except LocalLLMError as error:
            raise _as_ollamas(error, asking.loaded, made_of, name) from error
        else:
            asking.headers |= notes_header([*notes, *answering.result()[0].notes])
            return answering


def _as_ollamas(
    error: LocalLLMError, loaded: LoadedModel | None, made_of: GenerationRequest, name: str
) -> LocalLLMError:
    """The same error, or Ollama's if the model does not support the request."""
    if error.param == "suffix" and loaded is not None and not loaded.info.fills_in_middle:
        return InvalidParameter(f'"{name}" does not support insert', param="suffix")
    if loaded is not None and not loaded.info.causal:
        what = "generate" if made_of.messages is None else "chat"
        return InvalidParameter(f'"{name}" does not support {what}', param="model")
    return error


async def _widened(request: Request, state: ServerState, asking: Asking, body: ChatRequest | GenerateRequest) -> None:
    """Enlarge the context to `num_ctx`, if the caller may manage models."""
    wanted, loaded = body.options.num_ctx if body.options else None, asking.loaded
    if wanted is None or not caller_of(request).may_manage or (loaded is not None and wanted <= loaded.ctx):
        return
    await sse.unless_gone(request.receive, state.runtime.widen(asking.model, wanted))


async def _loaded(
    request: Request, state: ServerState, asking: Asking, body: ChatRequest | GenerateRequest, story: Story
) -> Response:
    """Without a prompt: load or unload the model."""
    if asking.keep_alive_s == 0:
        await unloaded(state, asking.model)
        line = story.line(reason="unload")
    else:
        await _widened(request, state, asking, body)
        await sse.unless_gone(request.receive, state.runtime.ensure(asking.model, asking.keep_alive_s))
        line = story.line(reason="load")
    if body.stream is False:
        return json_response(line)
    return Response(msgspec.json.encode(line) + b"\n", media_type="application/x-ndjson")


async def unloaded(state: ServerState, id: str) -> None:
    """Unload now, or when its running answers have ended; does nothing if it is not loaded."""
    there = next((model for model in state.runtime.running() if model.id == id), None)
    if there is not None and there.num_requests:
        await state.runtime.ensure(id, 0.0)
    elif there is not None:
        await state.runtime.unload(id)


async def _continued(state: ServerState, id: str, made_of: GenerationRequest, context: list[int]) -> GenerationRequest:
    """The prompt appended to the tokens of an earlier prompt and answer."""
    if made_of.messages is None:
        return made_of
    media = [medium for message in made_of.messages for medium in message.media]
    text = await state.runtime.render(id, made_of.messages, made_of.rendering, marker=MARKER)
    kept = msgspec.structs.replace(made_of, messages=None, rendering=NO_RENDERING)
    if media:
        added = await state.runtime.tokenize(id, "")  # at the start of a text; and of these tokens
        begin = len(added) if context[: len(added)] == added else 0
        before = b"".join(await state.runtime.pieces(id, context[begin:])).decode("utf-8", "replace")
        texts = (before + text).split(MARKER)
        if len(texts) != len(media) + 1:
            raise InvalidParameter("images: the model's template does not place them; use /api/chat", param="images")
        return msgspec.structs.replace(kept, prompt_parts=between(texts, media))
    tokens = await state.runtime.tokenize(id, text, add_special=False)
    return msgspec.structs.replace(kept, prompt_tokens=(*context, *tokens))


async def _context(state: ServerState, id: str, body: GenerateRequest, text: str) -> list[int] | None:
    """The tokens of a prompt and its answer, for the client to continue from; None if unavailable."""
    model = next((model for model in state.runtime.running() if model.id == id), None)
    if model is None or model.phase != "ready" or _expires_in_s(model) < STAYS_S:
        return None  # another request would reload it
    if body.images:
        return None  # tokens do not carry pictures
    before, turn = body.context or [], body.messages(MediaReading())
    rendering = msgspec.structs.replace(body.rendering(), add_generation_prompt=False, continue_final_message=False)
    try:
        rendered = await state.runtime.render(id, (*turn, Message("assistant", text)), rendering)
        return [*before, *await state.runtime.tokenize(id, rendered, add_special=not before)]
    except LocalLLMError:  # the text is too long, or the model has been unloaded
        return None


def _check_thoughts(loaded: LoadedModel | None, name: str, body: ChatRequest | GenerateRequest) -> None:
    """Raises `InvalidParameter` if thinking is requested of a model without it."""
    if body.wants_thoughts and loaded is not None and loaded.format.thinking == "never":
        raise InvalidParameter(f'"{name}" does not support thinking', param="think")


def _expires_in_s(model: RunningModel) -> float:
    return math.inf if model.expires_in_s is None else model.expires_in_s
