"""The endpoints of the Responses API: typed request in, response or events out. Every answer is closed.

A response is stored when it is complete, before the client sees its end. Failed ones are not stored.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.errors import InvalidParameter, UnsupportedParameter, clipped
from localllm.server.answers import choices
from localllm.server.answers.generation import asking_of
from localllm.server.answers.story import drained, encoded, events_of
from localllm.server.apis.responses import media
from localllm.server.apis.responses import replies as out
from localllm.server.apis.responses.compacting import CompactRequest, compacted
from localllm.server.apis.responses.events import encode
from localllm.server.apis.responses.inputs import Finder, ParsedInput
from localllm.server.apis.responses.items import (
    AnyItem,
    McpCall,
    McpListTools,
    MessageItem,
    OutputItem,
    ThoughtItem,
    server_in,
)
from localllm.server.apis.responses.mcp import McpOffer, approved_calls, mcp_offer
from localllm.server.apis.responses.mcp_rounds import Rounds
from localllm.server.apis.responses.requests import ParsedRequest, ResponseRequest, parse_response
from localllm.server.apis.responses.store import ResponseStore, StoredResponse
from localllm.server.apis.responses.story import Reported, Story
from localllm.server.apis.responses.tools import OfferedTools
from localllm.server.edge import log, sse
from localllm.server.edge.callers import caller_of
from localllm.server.edge.paths import both
from localllm.server.errors import NotFound, PreviousResponseNotFound
from localllm.server.requests.body import field_notes, json_response, left_out_header, notes_header
from localllm.server.requests.counting import count_prompt, token_count
from localllm.server.requests.reading import read
from localllm.server.state import ServerState
from localllm.types import MediaFile

R = TypeVar("R", bound=ResponseRequest)
Keep = Callable[[out.ResponseObject, bytes], None]
"""Stores a response, given also as JSON."""

_WITH_MEDIA = {"message.input_image.image_url", "computer_call_output.output.image_url"}
MAX_PAGE = 100
DEFAULT_PAGE = 20
"""OpenAI's."""


class _Answered(msgspec.Struct, frozen=True):
    """The parts of a stored response that the next turn needs."""

    output: list[OutputItem]


def routes() -> list[Route]:
    """Endpoints of this package."""
    return [
        *both("/v1/responses", create, ["POST"]),
        *both("/v1/responses/input_tokens", count_tokens, ["POST"]),
        *both("/v1/responses/compact", compact, ["POST"]),
        Route("/v1/responses/{response_id}", get_or_delete, methods=["GET", "DELETE"]),
        Route("/v1/responses/{response_id}/input_items", list_input_items, methods=["GET"]),
    ]


async def create(request: Request) -> Response:
    """`POST /v1/responses`."""
    state, parsed, said, conversation, files, mcp, offered, headers = await _read(request, ResponseRequest)
    body = parsed.request
    keep = _keeper(state.responses, body, conversation, files, _owner(request))
    asking = await asking_of(request, body, headers)
    body.generation(conversation, offered, files)  # errors are reported before any tool is run
    approving = approved_calls(state.mcp, mcp, conversation, said.items)
    first: list[McpListTools | McpCall] = [*mcp.items, *await sse.unless_gone(request.receive, approving)]
    generation = body.generation([*conversation, *first], offered, files)
    generation = msgspec.structs.replace(generation, notes=tuple(said.notes))
    answering = await asking.answers([generation], stream=bool(body.stream))
    response = out.begun(
        body, asking.name, store=keep is not None, tools=parsed.tools, choice=parsed.choice, server=state.name
    )
    story = Story(
        response,
        reported=Reported(bool(body.timings), bool(body.return_progress), bool(body.timings_per_token)),
        seals_thoughts=body.seals_thoughts,
        summarizes_thoughts=body.summarizes_thoughts,
        origins=offered.origins,
        first=first,
        keep=_encoding(keep) if body.stream else None,
    )
    story.warn(offered.notes)
    says_miss = bool(body.cache_report)
    if mcp.functions:
        rounds = Rounds(
            story=story,
            asking=asking,
            body=body,
            conversation=conversation,
            hubs=state.mcp,
            generate=lambda body, items: body.generation(items, offered, files),
            deadline_s=_deadline_s(state, body),
            max_rounds=state.settings.mcp_max_rounds,
        )
        events = rounds.events(answering, says_miss=says_miss)
    else:
        events = events_of([story], answering, says_miss=says_miss)
    if body.stream:
        return asking.stream(
            answering, encoded(events, encode), lambda error: map(encode, story.fail(error)), id=response.id
        )
    await asking.whole(answering.result(), drained(events))
    is_large = story.num_logprobs > choices.LARGE_LOGPROBS
    encode_whole = partial(msgspec.json.encode, story.response)
    content = await state.encoding.run(encode_whole) if is_large else encode_whole()
    if keep is not None:
        keep(story.response, content)
    return Response(content, media_type="application/json", headers=asking.headers)


async def count_tokens(request: Request) -> Response:
    """`POST /v1/responses/input_tokens`: prompt tokens of the same request; nothing is stored."""
    given = await _read(request, ResponseRequest)
    body = given.parsed.request
    asked = body.generation(given.conversation, given.offered, given.files)
    count = await count_prompt(request, body.model, asked.messages or (), asked.rendering, asked.media)
    return json_response(token_count(count, "response.input_tokens"), given.headers | notes_header(given.said.notes))


async def compact(request: Request) -> Response:
    """`POST /v1/responses/compact`: the model summarizes the conversation; nothing is stored."""
    given = await _read(request, CompactRequest)
    asking = await asking_of(request, given.parsed.request, given.headers)
    generation = given.parsed.request.summary(given.conversation, given.offered, given.files)
    generation = msgspec.structs.replace(generation, notes=tuple(given.said.notes))
    answers = (await asking.answers([generation], stream=False)).result()
    notes = [*given.offered.notes, *(note for answer in answers for note in field_notes(answer.notes))]
    (answer,) = await asking.whole(answers, choices.collect(answers))
    return json_response(compacted(given.conversation, given.files, answer, notes), asking.headers)


class _Read(NamedTuple, Generic[R]):
    """A request, the conversation that it continues, and its tools."""

    state: ServerState
    parsed: ParsedRequest[R]
    said: ParsedInput
    conversation: list[AnyItem]
    files: tuple[MediaFile, ...]
    """All pictures and sounds of the conversation."""
    mcp: McpOffer
    offered: OfferedTools
    headers: dict[str, str]


async def _read(request: Request, kind: type[R]) -> _Read[R]:
    def parse(content: bytes) -> tuple[ParsedRequest[R], list[str]]:
        parsed = parse_response(content, kind)
        return parsed, parsed.ignored

    state, parsed, headers = await read(request, parse, has_media=True)
    body, owner = parsed.request, _owner(request)
    earlier, stored = _earlier(state, body.previous_response_id, owner)
    said = body.taken(earlier, _finder(state.responses, owner))
    conversation = [*earlier, *said.items]
    files = media.files_in(conversation, {file.digest: file for file in (*stored, *said.reading.files)})
    mcp = await sse.unless_gone(request.receive, mcp_offer(state.mcp, body.tools or (), conversation))
    offered = body.offered(conversation, state.settings.hosted_tools, mcp.functions)
    headers = left_out_header([*offered.ignored, *said.ignored], headers)
    return _Read(state, parsed, said, conversation, files, mcp, offered, headers)


async def get_or_delete(request: Request) -> Response:
    """`GET` and `DELETE /v1/responses/{id}`."""
    state: ServerState = request.app.state.server
    kept = _kept(request)
    if request.method == "DELETE":
        id = request.path_params["response_id"]
        state.responses.delete(id)
        return json_response(out.Deleted(id))
    if request.query_params.get("stream", "false") != "false":
        raise UnsupportedParameter("stored responses cannot be streamed; leave stream out", param="stream")
    return Response(kept.response, media_type="application/json")


async def list_input_items(request: Request) -> Response:
    """`GET /v1/responses/{id}/input_items`: the answered conversation, latest item first.

    Pictures and sounds are in it if `include` asks for them, as with OpenAI.
    """
    kept = _kept(request)
    items = msgspec.json.decode(kept.conversation, type=list[AnyItem])
    order = request.query_params.get("order", "desc")
    if order not in ("asc", "desc"):
        raise InvalidParameter(f"order must be asc or desc, got {clipped(order)!r}", param="order")
    if order == "desc":
        items.reverse()
    limit = request.query_params.get("limit", str(DEFAULT_PAGE))
    if not (limit.isdecimal() and len(limit) <= 3 and 1 <= int(limit) <= MAX_PAGE):
        raise InvalidParameter(f"limit must be from 1 to {MAX_PAGE}, got {limit[:20]!r}", param="limit")
    after = request.query_params.get("after")
    ids = [item.id for item in items]
    if after is not None and after not in ids:
        raise InvalidParameter(f"after: no item of this response has the id {clipped(after)!r}", param="after")
    first = 0 if after is None else ids.index(after) + 1
    end = first + int(limit)
    wanted = {*request.query_params.getlist("include"), *request.query_params.getlist("include[]")}
    files = {file.digest: file for file in kept.files} if wanted & _WITH_MEDIA else {}
    page = [media.shown(item, files) for item in items[first:end]]
    return json_response(out.page(page, has_more=end < len(items)))


def _deadline_s(state: ServerState, body: ResponseRequest) -> float | None:
    """Deadline by `time.monotonic` for all answers of a request together."""
    timeout_s = state.settings.request_timeout_s or None if body.timeout is None else body.timeout
    return None if timeout_s is None else time.monotonic() + timeout_s


def _owner(request: Request) -> str:
    """The key's owner; without keys, the same for everybody."""
    return caller_of(request).owner


def _kept(request: Request) -> StoredResponse:
    """The response of the path. Raises `NotFound`, also for another key's, whose existence must not be revealed."""
    state: ServerState = request.app.state.server
    id = request.path_params["response_id"]
    kept = state.responses.get(id, _owner(request))
    if kept is None:
        raise NotFound(f"response with id {clipped(id)!r} not found{_elsewhere(state, id)}", param="response_id")
    return kept


def _elsewhere(state: ServerState, id: str) -> str:
    """That the id names another server, as behind a gateway that sends each request anywhere."""
    server = server_in(id)
    return f"; the server {server!r} stored it, and this is {state.name!r}" if server not in (None, state.name) else ""


def _earlier(state: ServerState, id: str | None, owner: str) -> tuple[list[AnyItem], tuple[MediaFile, ...]]:
    """The conversation so far and its files. Raises `PreviousResponseNotFound`."""
    if id is None:
        return [], ()
    store = state.responses
    kept = store.get(id, owner)
    if kept is None:
        why = _elsewhere(state, id) or f"; this server stores at most {store.max_responses} in memory"
        raise PreviousResponseNotFound(
            f"previous response with id {clipped(id)!r} not found{why}; send the conversation as input instead",
            param="previous_response_id",
        )
    said = msgspec.json.decode(kept.conversation, type=list[AnyItem])
    answered = msgspec.json.decode(kept.response, type=_Answered).output
    return [*map(media.earlier, said), *map(_as_kept, answered)], kept.files


def _as_kept(item: OutputItem) -> OutputItem:
    return item.as_kept() if isinstance(item, MessageItem | ThoughtItem) else item


def _finder(store: ResponseStore, owner: str) -> Finder:
    """Finds items of stored answers, each of which is decoded only once."""
    known: dict[str, AnyItem] = {}

    def find(item_id: str) -> AnyItem | None:
        kept = None if item_id in known else store.holder(item_id, owner)
        if kept is not None:
            answered = msgspec.json.decode(kept.response, type=_Answered).output
            known.update((item.id, _as_kept(item)) for item in answered)
        return known.get(item_id)

    return find


def _keeper(
    store: ResponseStore,
    body: ResponseRequest,
    conversation: list[AnyItem],
    files: tuple[MediaFile, ...],
    owner: str,
) -> Keep | None:
    """The function that stores the response; None if nothing can. Raises `UnsupportedParameter` if `store` is true."""
    if body.store is False:
        return None
    encoded = msgspec.json.encode(conversation) if store.is_on else b""
    if store.is_on and store.fits(len(encoded) + sum(file.num_bytes for file in files)):
        return partial(_keep, store, StoredResponse(b"", encoded, owner, files=files))
    if body.store:
        what = "this conversation is too large to store" if store.is_on else "this server stores no responses"
        raise UnsupportedParameter(
            f"store: {what}; send false, or start it with a larger --max-stored-response-mb and --max-stored-responses",
            param="store",
        )
    return None


def _encoding(keep: Keep | None) -> Callable[[out.ResponseObject], None] | None:
    """`keep` for a response that is not encoded yet."""
    return None if keep is None else lambda response: keep(response, msgspec.json.encode(response))


def _keep(store: ResponseStore, asked: StoredResponse, response: out.ResponseObject, content: bytes) -> None:
    item_ids = tuple(item.id for item in response.output)
    if not store.put(response.id, asked._replace(response=content, item_ids=item_ids)):
        log.event(logging.WARNING, "response_not_kept", id=response.id)
