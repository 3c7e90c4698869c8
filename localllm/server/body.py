"""JSON in and out: a request's body within its limits, a typed answer, and what becomes of fields that are nobody's.

Knows nothing of any API's fields.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from localllm.errors import UnknownParameter
from localllm.server import log
from localllm.server.errors import TooLarge, UnsupportedMediaType
from localllm.server.sse import ClientGone


async def read_json(request: Request, max_bytes: int) -> bytes:
    """The bytes of a body that says it is JSON. Raises `TooLarge`, `UnsupportedMediaType`, `ClientGone`.

    The type is checked because a page of another site may post text/plain, but not JSON, without asking first.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise UnsupportedMediaType(f"the body must be sent as application/json, not as {kind or 'nothing'}")
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_bytes:
                raise _too_large(max_bytes)
    except ClientDisconnect as error:
        raise ClientGone from error
    return bytes(body)


def json_response(content: msgspec.Struct, headers: Mapping[str, str] | None = None) -> Response:
    """A typed answer as JSON."""
    return Response(msgspec.json.encode(content), media_type="application/json", headers=headers)


def unknown_fields_header(names: Sequence[str], *, strict: bool) -> dict[str, str]:
    """Headers that name the fields which were ignored, and a line in the log. Raises `UnknownParameter` if `strict`."""
    if not names:
        return {}
    if strict:
        raise UnknownParameter(f"nobody knows the field {names[0]!r}, and this server is strict", param=names[0])
    log.event(logging.INFO, "fields_ignored", names=",".join(names))
    # Names come from the client: only plain characters reach a header.
    safe = ["".join(char if char.isascii() and char.isprintable() else "?" for char in name)[:64] for name in names]
    return {"x-localllm-ignored": ", ".join(safe[:32])}


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"the body is larger than {max_bytes} bytes; --max-body-bytes raises the limit")
