"""The endpoints of the Messages API: typed request in, message or events out. Every answer is closed."""

from __future__ import annotations

import secrets
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.server.answers.generation import asking_of
from localllm.server.answers.story import drained, encoded, events_of
from localllm.server.apis.anthropic.events import PING, encode
from localllm.server.apis.anthropic.replies import error_reply, token_count
from localllm.server.apis.anthropic.requests import CountRequest, MessagesRequest
from localllm.server.apis.anthropic.story import Story
from localllm.server.apis.anthropic.tools import OfferedTools
from localllm.server.edge import log
from localllm.server.requests.body import json_response, left_out_header, notes_header
from localllm.server.requests.counting import count_prompt
from localllm.server.requests.field_rules import known
from localllm.server.requests.reading import read

T = TypeVar("T", bound=CountRequest)


def routes() -> list[Route]:
    """Endpoints of this package."""
    return [
        Route("/v1/messages", create, methods=["POST"]),
        Route("/v1/messages/count_tokens", count_tokens, methods=["POST"]),
    ]


async def create(request: Request) -> Response:
    """`POST /v1/messages`."""
    body, offered, headers = await _read(request, MessagesRequest)
    asking = await asking_of(request, body, headers)
    answering = await asking.answers([body.generation(offered)], stream=bool(body.stream))
    story = Story(
        f"msg_{secrets.token_hex(12)}",
        asking.name,
        timings=bool(body.timings),
        shows_thoughts=body.shows_thoughts,
    )
    story.warn(offered.notes)
    says_miss, id = bool(body.cache_report), log.id_of(request.scope)
    events = events_of([story], answering, says_miss=says_miss)
    if body.stream:
        chunks = encoded(events, encode)
        return asking.stream(
            answering, chunks, lambda error: [encode(error_reply(error, id))], id=story.message.id, silence=PING
        )
    await asking.whole(answering.result(), drained(events))
    return json_response(story.message, asking.headers)


async def count_tokens(request: Request) -> Response:
    """`POST /v1/messages/count_tokens`: prompt tokens of the same request, without computing anything."""
    body, offered, headers = await _read(request, CountRequest)
    conversation, rendering = body.prompt(offered)
    body.params()  # refuses values that the request itself would be refused for
    said, files = conversation.messages, conversation.files
    count = token_count(await count_prompt(request, body.model, said, rendering, files))
    return json_response(count, headers | notes_header(conversation.notes))


async def _read(request: Request, kind: type[T]) -> tuple[T, OfferedTools, dict[str, str]]:
    """The request, its tools, and the headers of the reply."""
    state, body, headers = await read(request, known(kind), has_media=True)
    offered = body.offered(state.settings.hosted_tools)
    return body, offered, {"request-id": log.id_of(request.scope)} | left_out_header(offered.ignored, headers)
