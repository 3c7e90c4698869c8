"""JSON in and out: request bodies within their limits, typed replies, and headers about ignored fields.

Knows no API's fields.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from localllm.chat.surrogates import whole_json
from localllm.chat.template_note import template_note
from localllm.errors import UnknownParameter, clipped
from localllm.server.edge import log
from localllm.server.edge.sse import ClientGone
from localllm.server.errors import Overloaded, TooLarge, UnsupportedMediaType, slow_request
from localllm.server.requests.media_bodies import MIN_RUN, take_out
from localllm.server.watching.tally import tally_of
from localllm.types import DocumentTaken, LoadedModel

IGNORED = "x-localllm-ignored"
NOTES = "x-localllm-messages"
MAX_NAMED_FIELDS = 32
"""Maximum number of ignored fields named in the header and the log line, and of notes."""


SMALL_BODY = 512 * 1024
"""Bytes that are searched for pictures on the event loop: a few milliseconds."""
OF_BROWSERS = frozenset({"origin", "sec-fetch-site", "sec-fetch-mode", "referer"})
"""Headers that browsers send with a page's POST requests; all send the first."""

STREAMED = "/api/blobs/"
"""Path prefix of file uploads, which are written to disk as they arrive, without a limit on the total time."""
FILES = "/v1/files"
"""Path of others."""


def is_streamed(scope: Scope) -> bool:
    """Whether the body is processed piece by piece."""
    path: str = scope["path"]
    return path == FILES or path.startswith(STREAMED)


class TimedBody:
    """ASGI middleware: raises `SlowRequest` if a body, or the next piece of a streamed one, takes longer than
    `timeout_s` (0: no limit).

    Waiting for the disconnect after the body has no limit.
    """

    def __init__(self, app: ASGIApp, *, timeout_s: float) -> None:
        self.app = app
        self.timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        timed = self._timed(receive, by_piece=is_streamed(scope)) if self.timeout_s else receive
        await self.app(scope, timed, send)

    def _timed(self, receive: Receive, *, by_piece: bool) -> Receive:
        ends_s: float | None = None
        is_whole = False

        async def timed() -> Message:
            nonlocal ends_s, is_whole
            if is_whole:
                return await receive()
            if ends_s is None or by_piece:
                ends_s = asyncio.get_running_loop().time() + self.timeout_s
            try:
                async with asyncio.timeout_at(ends_s):
                    message = await receive()
            except TimeoutError:
                raise slow_request("body", self.timeout_s) from None
            is_whole = not message.get("more_body", False)
            return message

        return timed


UNCOUNTED_BYTES = 64 * 1024
"""Bytes of each body that do not count: small requests are accepted however much large ones hold."""


class HeldBodies:
    """ASGI middleware: limits the memory of all requests' bodies, each held until its answer ends.

    Raises `Overloaded` if one more piece does not fit.
    """

    def __init__(self, app: ASGIApp, *, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes
        self.held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if is_streamed(scope):
            await self.app(scope, receive, send)
            return
        received = counted = 0

        async def counting() -> Message:
            nonlocal received, counted
            message = await receive()
            received += len(message.get("body", b""))
            more = max(0, received - UNCOUNTED_BYTES) - counted
            if self.held_bytes + more > self.max_bytes:
                raise Overloaded(
                    f"running requests hold {self.held_bytes // 10**6} of {self.max_bytes // 10**6} MB for their "
                    f"bodies (--max-bodies-mb); try again later, or send at most {UNCOUNTED_BYTES // 1000} kB"
                )
            self.held_bytes += more
            counted += more
            return message

        def hold_only(num_bytes: int) -> None:
            """The rest was dropped."""
            nonlocal counted
            less = max(0, counted - num_bytes)
            self.held_bytes -= less
            counted -= less

        scope.setdefault("state", {})["hold_only"] = hold_only
        try:
            await self.app(scope, counting, send)
        finally:
            self.held_bytes -= counted


async def read_json(request: Request, max_bytes: int, media_bytes: int = 0) -> bytes:
    """The bytes of a body declared as JSON, or of any type if no web page sent it (`curl -d` declares a form). Raises
    `TooLarge`, `UnsupportedMediaType`, `ClientGone`. `media_bytes`: see `read_body`.

    A page of another site may post text/plain without a preflight, but not JSON. Every browser names the page in such
    a request; if the gate let one in that does not declare JSON, it is refused here.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_json = kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
    if not is_json and not OF_BROWSERS.isdisjoint(request.headers.keys()):
        given = f"not as {clipped(kind)}" if kind else "and it has no content-type header"
        raise UnsupportedMediaType(f"the body must be sent as application/json, {given}")
    return await read_body(request, max_bytes, media_bytes)


async def read_body(request: Request, max_bytes: int, media_bytes: int = 0) -> bytes:
    """The bytes of a JSON body of any declared type, without unpaired surrogates. Raises `TooLarge`, `ClientGone`.

    `media_bytes`: of pictures and sounds that it may have besides, in base64. They are taken out of it, and stay in the
    request's state.
    """
    most = max_bytes + media_bytes * 4 // 3
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most:
        raise _too_large(max_bytes)
    body = bytearray()
    async for chunk in pieces(request):
        body += chunk
        if len(body) > most:
            raise _too_large(max_bytes)
    if media_bytes and len(body) >= MIN_RUN:
        given, files = await asyncio.to_thread(take_out, body) if len(body) > SMALL_BODY else take_out(body)
        request.state.files = files  # until they are in messages
        if files:
            loaded = sum(file.num_bytes for file in files if file.is_loaded)
            request.state.hold_only(len(given) + loaded + (0 if all(file.is_loaded for file in files) else len(body)))
    else:
        given = bytes(body)
    del body
    if len(given) > max_bytes:
        raise _too_large(max_bytes)
    whole = whole_json(given)
    tally_of(request).has_replaced_surrogates = whole is not given
    return whole


async def pieces(request: Request) -> AsyncGenerator[bytes, None]:
    """A body, piece by piece. Raises `ClientGone`."""
    try:
        async for chunk in request.stream():
            yield chunk
    except ClientDisconnect as error:
        raise ClientGone from error


async def read_optional_json(request: Request, max_bytes: int, media_bytes: int = 0) -> bytes:
    """Like `read_json`; `{}` if there is no body and no header announces one."""
    said = {"content-type", "transfer-encoding"} & set(request.headers.keys())
    if not said and request.headers.get("content-length", "0") == "0":
        return b"{}"
    return await read_json(request, max_bytes, media_bytes) or b"{}"


def json_response(content: msgspec.Struct, headers: Mapping[str, str] | None = None) -> Response:
    """A typed reply as JSON."""
    return Response(msgspec.json.encode(content), media_type="application/json", headers=headers)


def unknown_fields_header(names: Sequence[str], *, strict: bool) -> dict[str, str]:
    """The header that names ignored fields; also logs them. Raises `UnknownParameter` if `strict`."""
    if not names:
        return {}
    if strict:
        first = clipped(names[0])
        raise UnknownParameter(f"unknown field {first!r}; this server is strict", param=first)
    log.event(logging.INFO, "fields_ignored", num=len(names), names=",".join(_shown(names)))
    return left_out_header(names)


def left_out_header(names: Sequence[str], headers: Mapping[str, str] = {}) -> dict[str, str]:
    """The headers with one that names ignored fields and omitted tools, if any, after those that it names already."""
    # Names come from the client: only printable ASCII may enter a header, which must not begin with a space.
    safe = (
        "".join(char if "!" <= char <= "~" and char != "," else "?" for char in name) or "?" for name in _shown(names)
    )
    named = [*filter(None, headers.get(IGNORED, "").split(", ")), *safe][:MAX_NAMED_FIELDS]
    return {**headers, IGNORED: ", ".join(named)} if named else {**headers}


def _shown(names: Sequence[str]) -> list[str]:
    return [name[:64] for name in names[:MAX_NAMED_FIELDS]]


def notes_header(notes: Iterable[str]) -> dict[str, str]:
    """The header about messages changed for the model's template and about parts of schemas that are not enforced;
    empty without notes.
    """
    shown = ", ".join(sorted(set(notes))[:MAX_NAMED_FIELDS])
    return {NOTES: _printable(shown)} if shown else {}


def documents_header(taken: Sequence[DocumentTaken]) -> dict[str, str]:
    """The header that says what was taken of documents; empty without any."""
    shown = "; ".join(_taken(each) for each in taken[:MAX_NAMED_FIELDS])
    return {"x-localllm-documents": _printable(shown)} if shown else {}


def _taken(document: DocumentTaken) -> str:
    counts = {"characters": str(document.characters)}
    if document.pages or document.pages_omitted:
        counts["pages"] = f"{document.pages} of {document.pages + document.pages_omitted}"
    if document.page_images:
        counts["images"] = str(document.page_images)
    name = document.name.replace(";", ",")[:64]
    return ", ".join([name, document.format, *(f"{name}={count}" for name, count in counts.items())])


def placement_header(loaded: LoadedModel | None) -> dict[str, str]:
    """The header that says why a model has fewer layers on GPUs than it would have alone."""
    note = "" if loaded is None else _printable(loaded.placement_note)
    return {"x-localllm-placement": note} if note else {}


def template_header(loaded: LoadedModel | None) -> dict[str, str]:
    """The header that says that a model has no chat template of its own, or one that leaves out messages."""
    note = "" if loaded is None else template_note(loaded.info, loaded.format)
    return {"x-localllm-template": _printable(note)} if note else {}


def _printable(text: str) -> str:
    """The text as a header can carry it."""
    return "".join(char if " " <= char <= "~" else "?" for char in text)


def field_notes(notes: Iterable[str]) -> list[str]:
    """The notes of an answer that concern a request field: `FIELD: why`."""
    return [note for note in dict.fromkeys(notes) if ":" in note]


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"the body is larger than {max_bytes} bytes; --max-body-bytes raises the limit")
