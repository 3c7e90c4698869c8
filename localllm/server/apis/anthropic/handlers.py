"""The endpoints of the Messages API: typed request in, message or events out. Every answer is closed."""

from __future__ import annotations

import secrets

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.server.apis.anthropic.events import PING, encode
from localllm.server.apis.anthropic.replies import TokenCount, error_reply
from localllm.server.apis.anthropic.requests import CountRequest, MessagesRequest, parse_messages
from localllm.server.apis.anthropic.story import Story
from localllm.server.common.body import json_response, left_out_header, read_json, unknown_fields_header
from localllm.server.common.counting import num_prompt_tokens
from localllm.server.common.generation import asking_of
from localllm.server.common.story import encoded, events_of, finished
from localllm.server.edge import log
from localllm.server.state import ServerState


def routes() -> list[Route]:
    """Endpoints of this package."""
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
    asking = await asking_of(request, body, headers)
    answering = await asking.answers([body.generation(offered)], stream=bool(body.stream))
    story = Story(
        f"msg_{secrets.token_hex(12)}",
        body.model or asking.model,
        timings=bool(body.timings),
        shows_thoughts=body.shows_thoughts,
    )
    story.warn(offered.notes)
    says_miss, id = bool(body.cache_report), log.id_of(request.scope)
    if body.stream:
        events = encoded(events_of(story, answering, says_miss=says_miss), encode)
        return asking.stream(
            answering, events, lambda error: [encode(error_reply(error, id))], id=story.message.id, silence=PING
        )
    await asking.whole(answering.result(), finished(story, answering, says_miss=says_miss))
    return json_response(story.message, asking.headers)


async def count_tokens(request: Request) -> Response:
    """`POST /v1/messages/count_tokens`: prompt tokens of the same request, without computing anything."""
    state: ServerState = request.app.state.server
    body, ignored = parse_messages(await read_json(request, state.settings.max_body_bytes), CountRequest)
    state.admit()
    headers = {"request-id": log.id_of(request.scope)} | unknown_fields_header(ignored, strict=state.settings.strict)
    offered = body.offered(state.settings.hosted_tools)
    headers |= left_out_header([*ignored, *offered.ignored])
    messages, rendering = body.prompt(offered)
    body.params()  # refuses values that the request itself would be refused for
    return json_response(TokenCount(await num_prompt_tokens(request, body.model, messages, rendering)), headers)
