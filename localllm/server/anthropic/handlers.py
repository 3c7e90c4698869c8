"""The endpoints of the Messages API: typed request in, message or events out. An answer is closed in every case."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.errors import InternalError, LocalLLMError
from localllm.runtime import Answer
from localllm.server import log, sse
from localllm.server.anthropic.events import PING, encode
from localllm.server.anthropic.replies import TokenCount, error_reply
from localllm.server.anthropic.requests import CountRequest, MessagesRequest, parse_messages
from localllm.server.anthropic.story import Story
from localllm.server.body import (
    field_notes,
    json_response,
    left_out_header,
    notes_header,
    read_json,
    unknown_fields_header,
)
from localllm.server.callers import caller_of
from localllm.server.errors import defect
from localllm.server.openai import choices
from localllm.server.state import ServerState
from localllm.server.tally import tally_of

logger = logging.getLogger("localllm")


def routes() -> list[Route]:
    """What this package answers."""
    return [
        Route("/v1/messages", create, methods=["POST"]),
        Route("/v1/messages/count_tokens", count_tokens, methods=["POST"]),
    ]


async def create(request: Request) -> Response:
    """`POST /v1/messages`."""
    state: ServerState = request.app.state.server
    body, ignored = parse_messages(await read_json(request, state.settings.max_body_bytes), MessagesRequest)
    state.admit()
    headers = {"request-id": log.id_of(request.scope)} | unknown_fields_header(ignored, strict=state.settings.strict)
    offered = body.offered(state.settings.hosted_tools)
    headers |= left_out_header([*ignored, *offered.ignored])
    caller, tally = caller_of(request), tally_of(request)
    tally.begin(body.model, state.loaded(body.model))
    asked = caller.owned(state.timed([body.generation(offered)]), priority=body.priority, cache_salt=body.cache_salt)
    answering = await state.answers(
        request.receive,
        body.model,
        asked,
        caller.keep_alive(body.keep_alive_s()),
        lambda answers: tally.watched(answers, state.loaded(body.model)),
        stream=bool(body.stream),
    )
    if answering.done():
        headers |= notes_header(note for answer in answering.result() for note in answer.notes)
    story = Story(
        f"msg_{secrets.token_hex(12)}",
        body.model,
        timings=bool(body.timings),
        shows_thoughts=body.shows_thoughts,
    )
    story.warn(offered.notes)
    says_miss = bool(body.cache_report)
    if body.stream:
        events = _events(state, answering, story, log.id_of(request.scope), says_miss=says_miss)
        silence_s = state.settings.keep_alive_s
        close = partial(choices.abandon, answering)
        return sse.EventStream(events, close, headers, keep_alive_s=silence_s, silence=PING)
    (answer,) = answering.result()
    try:
        await sse.unless_gone(request.receive, _told(story, answer, says_miss=says_miss))
    except LocalLLMError as error:
        raise state.seen_by_client(error) from error
    finally:
        await answer.aclose()
    return json_response(story.message, headers)


async def count_tokens(request: Request) -> Response:
    """`POST /v1/messages/count_tokens`: of the prompt that the same request would be; nothing is computed of it."""
    state: ServerState = request.app.state.server
    body, ignored = parse_messages(await read_json(request, state.settings.max_body_bytes), CountRequest)
    state.admit()
    headers = {"request-id": log.id_of(request.scope)} | unknown_fields_header(ignored, strict=state.settings.strict)
    offered = body.offered(state.settings.hosted_tools)
    headers |= left_out_header([*ignored, *offered.ignored])
    messages, rendering = body.prompt(offered)
    tally_of(request).begin(body.model, state.loaded(body.model))
    model = state.named(body.model)
    text = await sse.unless_gone(request.receive, state.runtime.render(model, messages, rendering))
    tokens = await sse.unless_gone(request.receive, state.runtime.tokenize(model, text))
    return json_response(TokenCount(len(tokens)), headers)


async def _told(story: Story, answer: Answer, *, says_miss: bool) -> None:
    """The story to its end; its events are nobody's. Raises what ends the answer early."""
    story.warn(field_notes(answer.notes))
    async for delta in answer:
        for _ in story.feed(delta):
            pass
        if delta.finish is not None:
            for _ in story.end(delta.finish, answer.cache_miss if says_miss else None):
                pass
            return
    raise InternalError("the answer ended without a finish")


async def _events(
    state: ServerState, answering: asyncio.Future[list[Answer]], story: Story, request_id: str, *, says_miss: bool
) -> AsyncGenerator[bytes, None]:
    """The events of a stream. Whatever goes wrong ends it with `error`, never in silence."""
    try:
        (answer,) = await answering
        story.warn(field_notes(answer.notes))
        for event in story.begin(answer.num_prompt_tokens):
            yield encode(event)
        async for delta in answer:
            for event in story.feed(delta):
                yield encode(event)
            if delta.finish is not None:
                for event in story.end(delta.finish, answer.cache_miss if says_miss else None):
                    yield encode(event)
                return
        raise InternalError("the answer ended without a finish")
    except LocalLLMError as error:
        log.event(logging.WARNING, "stream_failed", id=story.message.id, code=error.code, message=error.message)
        failure = state.seen_by_client(error)
    except Exception as error:
        logger.exception("defect in a stream")
        failure = defect(error)
    yield encode(error_reply(failure, request_id))
