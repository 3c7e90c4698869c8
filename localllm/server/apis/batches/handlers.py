"""OpenAI's batches: made of a stored file, answered in the batch class. Each key sees its own alone."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.batches import jobs
from localllm.batches.jobs import Job, JobFolder
from localllm.batches.lines import MESSAGES, URLS
from localllm.errors import InvalidParameter, clipped
from localllm.server.apis.batches.files import ExpiresAfter, kept_file, owned_by
from localllm.server.apis.batches.paging import page_of
from localllm.server.apis.batches.replies import BatchList, BatchObject, batch_object
from localllm.server.edge.callers import caller_of
from localllm.server.errors import NotFound
from localllm.server.requests.body import json_response
from localllm.server.requests.field_rules import known
from localllm.server.requests.reading import read
from localllm.server.state import ServerState

BATCHES = "/v1/batches"
ENDPOINTS = tuple(url for url in URLS if url != MESSAGES)
DEFAULT_PAGE, MAX_PAGE = 20, 100
"""OpenAI's."""
MAX_METADATA = 16
_WINDOW = re.compile(r"([1-9][0-9]{0,3})(h|d)", re.ASCII)
_UNITS_S = {"h": 3600, "d": 86400}

MetadataKey = Annotated[str, Meta(max_length=64)]
MetadataValue = Annotated[str, Meta(max_length=512)]


class BatchRequest(Struct, frozen=True, kw_only=True):
    """`POST /v1/batches`."""

    input_file_id: str
    endpoint: str
    completion_window: str = "24h"
    """Lines that are not answered by then expire: `24h`, `7d`."""
    metadata: dict[MetadataKey, MetadataValue] | None = None
    output_expires_after: ExpiresAfter | None = None


def routes() -> list[Route]:
    """Endpoints of this module."""
    return [
        Route(BATCHES, create, methods=["POST"]),
        Route(BATCHES, list_batches, methods=["GET"]),
        Route(f"{BATCHES}/{{batch_id}}", get, methods=["GET"]),
        Route(f"{BATCHES}/{{batch_id}}/cancel", cancel, methods=["POST"]),
    ]


async def create(request: Request) -> Response:
    """`POST /v1/batches`."""
    state, body, headers = await read(request, known(BatchRequest))
    window_s = _window_s(body.completion_window)
    if body.endpoint not in ENDPOINTS:
        raise InvalidParameter(
            f"endpoint must be one of {', '.join(ENDPOINTS)}, got {clipped(body.endpoint)!r}", param="endpoint"
        )
    if len(body.metadata or ()) > MAX_METADATA:
        raise InvalidParameter(f"metadata may have {MAX_METADATA} pairs", param="metadata")
    kept = await kept_file(request, body.input_file_id, "input_file_id")
    if kept.purpose != "batch":
        raise InvalidParameter(f"{kept.id} was not uploaded for a batch", param="input_file_id")
    owned, owner = owned_by(request), caller_of(request).owner
    job = jobs.new_job(owner, "openai", body.endpoint, body.completion_window, window_s)
    job.input_file, job.metadata = kept.id, body.metadata
    job.output_lifetime_s = None if body.output_expires_after is None else body.output_expires_after.seconds
    await state.batches.disk.run(jobs.create, owned, job)
    state.batches.wake(owner)
    return json_response(_shown(request, job), headers)


async def get(request: Request) -> Response:
    """`GET /v1/batches/{id}`."""
    return json_response(_shown(request, await kept_job(request, request.path_params["batch_id"], "openai")))


async def cancel(request: Request) -> Response:
    """`POST /v1/batches/{id}/cancel`: lines in flight are given up."""
    state: ServerState = request.app.state.server
    job = await kept_job(request, request.path_params["batch_id"], "openai")
    if job.has_ended:
        raise InvalidParameter(f"the batch has ended already: it is {job.status}", param="batch_id")
    await state.batches.cancel(owned_by(request), job)
    return json_response(_shown(request, job))


async def list_batches(request: Request) -> Response:
    """`GET /v1/batches`, the newest first."""
    page = page_of(request.query_params, DEFAULT_PAGE, MAX_PAGE)
    found, has_more = await kept_page(request, "openai", page.after, page.limit, "after")
    shown = [_shown(request, job) for job in found]
    first, last = (shown[0].id, shown[-1].id) if shown else (None, None)
    return json_response(BatchList(data=shown, first_id=first, last_id=last, has_more=has_more))


async def kept_job(request: Request, id: str, kind: jobs.Kind) -> Job:
    """The key's batch with that id, as it stands now. Raises `NotFound`, also for another key's."""
    state: ServerState = request.app.state.server
    owned = owned_by(request)
    job = await state.batches.disk.run(jobs.find, owned, id, kind)
    if job is None:
        raise NotFound(f"no such batch: {clipped(id)!r}", param="batch_id")
    return state.batches.job(owned, job)


async def kept_page(
    request: Request, kind: Literal["openai", "anthropic"], after: str | None, limit: int, param: str
) -> tuple[list[Job], bool]:
    """A page of the key's batches as they stand now, and whether there are more. Raises `InvalidParameter`."""
    state: ServerState = request.app.state.server
    owned = owned_by(request)
    try:
        found, has_more = await state.batches.disk.run(jobs.page, owned, kind, after, limit)
    except KeyError:
        raise InvalidParameter(f"{param}: no such batch: {clipped(after or '')!r}", param=param) from None
    return [state.batches.job(owned, job) for job in found], has_more


def _shown(request: Request, job: Job) -> BatchObject:
    return batch_object(job, JobFolder(owned_by(request), job.id))


def _window_s(window: str) -> int:
    match = _WINDOW.fullmatch(window)
    if match is None:
        raise InvalidParameter(
            f"completion_window must be hours or days, such as 24h or 7d, got {clipped(window)!r}",
            param="completion_window",
        )
    return int(match[1]) * _UNITS_S[match[2]]
