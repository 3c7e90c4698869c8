"""Anthropic's message batches: their requests come with the batch. Each key sees its own alone."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Raw, Struct
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from localllm.batches import jobs
from localllm.batches.jobs import JobFolder
from localllm.batches.lines import MESSAGES
from localllm.errors import InvalidParameter
from localllm.server.apis.batches.files import owned_by
from localllm.server.apis.batches.handlers import kept_job, kept_page
from localllm.server.apis.batches.paging import page_of
from localllm.server.apis.batches.replies import MessageBatchDeleted, MessageBatchList, message_batch
from localllm.server.edge import log
from localllm.server.edge.callers import caller_of
from localllm.server.errors import NotFound
from localllm.server.requests.body import json_response, read_json, unknown_fields_header
from localllm.server.requests.parse import decoding, utf_8
from localllm.server.requests.values import ObjectField
from localllm.server.state import ServerState

PATH = "/v1/messages/batches"
DEFAULT_PAGE, MAX_PAGE = 20, 1000
"""Anthropic's."""
_HOUR_S = 3600


class BatchedMessage(Struct, frozen=True, kw_only=True):
    """One request of a batch."""

    custom_id: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,64}$")]
    params: ObjectField
    """As for `/v1/messages`."""


class MessageBatchRequest(Struct, frozen=True, kw_only=True):
    """`POST /v1/messages/batches`."""

    requests: Annotated[list[BatchedMessage], Meta(min_length=1)]


class _Line(Struct, frozen=True):
    custom_id: str
    params: Raw


class _Parsed(NamedTuple):
    lines: list[bytes]
    unknown: list[str]


def routes() -> list[Route]:
    """Endpoints of this module."""
    return [
        Route(PATH, create, methods=["POST"]),
        Route(PATH, list_batches, methods=["GET"]),
        Route(f"{PATH}/{{batch_id}}", get_or_delete, methods=["GET", "DELETE"]),
        Route(f"{PATH}/{{batch_id}}/results", results, methods=["GET"]),
        Route(f"{PATH}/{{batch_id}}/cancel", cancel, methods=["POST"]),
    ]


async def create(request: Request) -> Response:
    """`POST /v1/messages/batches`. The body may be as large as a file of OpenAI's batches."""
    state: ServerState = request.app.state.server
    settings, disk = state.settings, state.batches.disk
    body = await read_json(request, max(settings.max_body_bytes, settings.max_file_mb * 10**6))
    state.admit()
    parsed = await disk.run(_parsed, body, settings.max_batch_lines, settings.max_body_bytes)
    del body
    headers = unknown_fields_header(parsed.unknown, strict=settings.strict)
    owned, owner = owned_by(request), caller_of(request).owner
    window_s = settings.message_batch_hours * _HOUR_S
    job = jobs.new_job(owner, "anthropic", MESSAGES, f"{settings.message_batch_hours}h", window_s)
    job.total = len(parsed.lines)
    await disk.run(jobs.create, owned, job, parsed.lines)
    state.batches.wake(owner)
    return json_response(message_batch(job, JobFolder(owned, job.id)), headers | _id_header(request))


async def list_batches(request: Request) -> Response:
    """`GET /v1/messages/batches`, the newest first."""
    if request.query_params.get("before_id"):
        raise InvalidParameter("before_id is not supported; page with after_id", param="before_id")
    page = page_of(request.query_params, DEFAULT_PAGE, MAX_PAGE, "after_id")
    found, has_more = await kept_page(request, "anthropic", page.after, page.limit, "after_id")
    owned = owned_by(request)
    shown = [message_batch(job, JobFolder(owned, job.id)) for job in found]
    first, last = (shown[0].id, shown[-1].id) if shown else (None, None)
    listed = MessageBatchList(data=shown, has_more=has_more, first_id=first, last_id=last)
    return json_response(listed, _id_header(request))


async def get_or_delete(request: Request) -> Response:
    """`GET` and `DELETE /v1/messages/batches/{id}`: the latter with its results."""
    state: ServerState = request.app.state.server
    job = await kept_job(request, request.path_params["batch_id"], "anthropic")
    folder = JobFolder(owned_by(request), job.id)
    if request.method == "GET":
        return json_response(message_batch(job, folder), _id_header(request))
    if not job.has_ended:
        raise InvalidParameter("the batch has not ended; cancel it first", param="batch_id")
    await state.batches.disk.run(folder.remove)
    return json_response(MessageBatchDeleted(id=job.id), _id_header(request))


async def results(request: Request) -> Response:
    """`GET /v1/messages/batches/{id}/results`: a line for each request, in the order in which they were answered."""
    job = await kept_job(request, request.path_params["batch_id"], "anthropic")
    folder = JobFolder(owned_by(request), job.id)
    if not (job.has_ended and folder.answered.exists()):
        raise NotFound("the batch has not ended, so it has no results yet", param="batch_id")
    return FileResponse(folder.answered, media_type="application/x-jsonl", headers=_id_header(request))


async def cancel(request: Request) -> Response:
    """`POST /v1/messages/batches/{id}/cancel`: requests in flight are given up."""
    state: ServerState = request.app.state.server
    job = await kept_job(request, request.path_params["batch_id"], "anthropic")
    owned = owned_by(request)
    if not job.has_ended:
        await state.batches.cancel(owned, job)
    return json_response(message_batch(job, JobFolder(owned, job.id)), _id_header(request))


def _id_header(request: Request) -> dict[str, str]:
    return {"request-id": log.id_of(request.scope), "cache-control": "no-store"}


def _parsed(body: bytes, max_lines: int, max_line_bytes: int) -> _Parsed:
    """A line for each request. Raises `InvalidParameter`."""
    with decoding():
        fields = msgspec.json.decode(utf_8(body), type=dict[str, Raw])
        requests = msgspec.json.decode(utf_8(body), type=MessageBatchRequest).requests
    if len(requests) > max_lines:
        raise InvalidParameter(
            f"requests has {len(requests):,} entries, and a batch may have {max_lines:,} (max_batch_lines)",
            param="requests",
        )
    lines: list[bytes] = []
    numbers: dict[str, int] = {}
    for number, each in enumerate(requests):
        where = f"requests[{number}]"
        if each.custom_id in numbers:
            raise InvalidParameter(
                f"{where}.custom_id is that of requests[{numbers[each.custom_id]}]", param=f"{where}.custom_id"
            )
        numbers[each.custom_id] = number
        if not bytes(each.params).lstrip().startswith(b"{"):
            raise InvalidParameter(f"{where}.params must be an object", param=f"{where}.params")
        line = msgspec.json.encode(_Line(each.custom_id, Raw(_on_one_line(bytes(each.params)))))
        if len(line) > max_line_bytes:
            raise InvalidParameter(
                f"{where} has more than {max_line_bytes:,} bytes (max_body_bytes)", param=f"{where}.params"
            )
        lines.append(line)
    return _Parsed(lines, sorted(fields.keys() - {"requests"}))


def _on_one_line(params: bytes) -> bytes:
    return msgspec.json.format(params, indent=-1) if b"\n" in params else params
