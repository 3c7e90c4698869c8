"""Reads a request's body within its limits: JSON by its declared type, and never more than so many bytes."""

from __future__ import annotations

from starlette.requests import ClientDisconnect, Request

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


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"the body is larger than {max_bytes} bytes; --max-body-bytes raises the limit")
