"""OpenAI's files: uploads for batches, and what batches answered. Each key sees its own alone."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from localllm.batches.jobs import is_input
from localllm.batches.stored import Owned, StoredFile
from localllm.errors import InvalidParameter, clipped
from localllm.server.apis.batches.paging import Page, index_of, page_of
from localllm.server.apis.batches.replies import FileDeleted, FileList, file_object
from localllm.server.apis.batches.uploads import FILE, Form, read_upload
from localllm.server.edge.callers import caller_of
from localllm.server.errors import NotFound
from localllm.server.requests.body import FILES, json_response, pieces, unknown_fields_header
from localllm.server.requests.parse import decoding
from localllm.server.requests.values import missing
from localllm.server.state import ServerState

BATCH: Literal["batch"] = "batch"
MAX_PAGE = 10_000
MIN_LIFETIME_S, MAX_LIFETIME_S = 3600, 30 * 86400
"""OpenAI's."""
_ANCHOR, _SECONDS = "expires_after[anchor]", "expires_after[seconds]"
_WHOLE = "expires_after"
"""The same as JSON."""
_FIELDS = {"purpose", _ANCHOR, _SECONDS, _WHOLE}
_OTHERS = ("assistants", "fine-tune", "vision", "user_data", "evals")


class ExpiresAfter(Struct, frozen=True, kw_only=True):
    """When a file is deleted by itself."""

    anchor: Literal["created_at"] = "created_at"
    seconds: Annotated[int, Meta(ge=MIN_LIFETIME_S, le=MAX_LIFETIME_S)]


class FileRequest(Struct, frozen=True, kw_only=True):
    """`POST /v1/files`, beside the file; a form's fields are `expires_after[anchor]` and `expires_after[seconds]`."""

    purpose: Literal["batch"]
    expires_after: ExpiresAfter | None = None


def routes() -> list[Route]:
    """Endpoints of this module."""
    return [
        Route(FILES, create, methods=["POST"]),
        Route(FILES, list_files, methods=["GET"]),
        Route(f"{FILES}/{{file_id}}", get_or_delete, methods=["GET", "DELETE"]),
        Route(f"{FILES}/{{file_id}}/content", content, methods=["GET"]),
    ]


async def create(request: Request) -> Response:
    """`POST /v1/files`: to disk as it arrives."""
    state: ServerState = request.app.state.server
    state.admit()
    batches = state.batches
    upload = await batches.disk.run(owned_by(request).upload)
    try:
        form = await read_upload(
            request.headers.get("content-type", ""), pieces(request), lambda data: batches.disk.run(upload.write, data)
        )
        lifetime_s = _lifetime_s(form)
        if form.file_name is None:
            raise missing(FILE)
        headers = unknown_fields_header(sorted(form.fields.keys() - _FIELDS), strict=state.settings.strict)
        kept = await batches.disk.run(upload.commit, form.file_name, BATCH, lifetime_s)
    except BaseException:
        upload.discard()
        raise
    return json_response(file_object(kept), headers)


async def list_files(request: Request) -> Response:
    """`GET /v1/files`: the newest first, unless `order` is `asc`."""
    state: ServerState = request.app.state.server
    query = request.query_params
    page, purpose, order = page_of(query, MAX_PAGE, MAX_PAGE), query.get("purpose"), query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise InvalidParameter(f"order must be asc or desc, got {clipped(order)!r}", param="order")
    kept = await state.batches.disk.run(owned_by(request).list)
    return json_response(_listed([each for each in kept if purpose in (None, each.purpose)], page, order == "desc"))


async def get_or_delete(request: Request) -> Response:
    """`GET` and `DELETE /v1/files/{id}`."""
    state: ServerState = request.app.state.server
    kept, owned, disk = await kept_file(request, request.path_params["file_id"]), owned_by(request), state.batches.disk
    if request.method == "GET":
        return json_response(file_object(kept))
    reader = await disk.run(is_input, owned, kept.id)
    if reader is not None:
        raise InvalidParameter(f"the batch {reader} still reads this file; cancel it first", param="file_id")
    await disk.run(owned.delete, kept.id)
    return json_response(FileDeleted(id=kept.id))


async def content(request: Request) -> Response:
    """`GET /v1/files/{id}/content`."""
    kept = await kept_file(request, request.path_params["file_id"])
    return FileResponse(owned_by(request).path(kept.id), media_type="application/octet-stream", headers=_UNCACHED)


_UNCACHED = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


def owned_by(request: Request) -> Owned:
    """The folder of the request's key."""
    state: ServerState = request.app.state.server
    return state.batches.owners.of(caller_of(request).owner)


async def kept_file(request: Request, id: str, param: str = "file_id") -> StoredFile:
    """The key's file with that id. Raises `NotFound`, also for another key's, whose existence is not revealed."""
    state: ServerState = request.app.state.server
    kept = await state.batches.disk.run(owned_by(request).get, id)
    if kept is None:
        raise NotFound(f"no such file: {clipped(id)!r}", param=param)
    return kept


def _listed(kept: list[StoredFile], page: Page, is_reversed: bool) -> FileList:
    if is_reversed:
        kept = kept[::-1]
    begin = 0 if page.after is None else 1 + index_of([each.id for each in kept], page.after, "after")
    shown = [file_object(each) for each in kept[begin : begin + page.limit]]
    first, last = (shown[0].id, shown[-1].id) if shown else (None, None)
    return FileList(data=shown, first_id=first, last_id=last, has_more=begin + page.limit < len(kept))


def _lifetime_s(form: Form) -> int | None:
    """Checks the fields; how long the file is kept. Raises `InvalidParameter`."""
    purpose = form.fields.get("purpose")
    if purpose is None:
        raise missing("purpose")
    if purpose != BATCH:
        known = "this server stores files for batches only" if purpose in _OTHERS else "it is unknown"
        raise InvalidParameter(f"purpose: {clipped(purpose)!r} cannot be used: {known}; send batch", param="purpose")
    if _WHOLE in form.fields:
        with decoding(_WHOLE):
            return msgspec.json.decode(form.fields[_WHOLE].encode(), type=ExpiresAfter).seconds
    anchor, seconds = form.fields.get(_ANCHOR), form.fields.get(_SECONDS)
    if anchor not in (None, "created_at"):
        raise InvalidParameter("expires_after.anchor must be created_at", param="expires_after.anchor")
    if seconds is None:
        return None
    if not (seconds.isascii() and seconds.isdigit() and len(seconds) < 9):
        raise InvalidParameter("expires_after.seconds must be a whole number", param="expires_after.seconds")
    return lifetime_s(int(seconds), "expires_after")


def lifetime_s(seconds: int, field: str) -> int:
    """How long a file is kept. Raises `InvalidParameter`."""
    if not MIN_LIFETIME_S <= seconds <= MAX_LIFETIME_S:
        raise InvalidParameter(
            f"{field}.seconds must be from {MIN_LIFETIME_S} to {MAX_LIFETIME_S}, got {seconds}",
            param=f"{field}.seconds",
        )
    return seconds
