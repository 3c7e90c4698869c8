"""`/localllm/blobs`: files that requests then refer to, so that a chat brings each picture once."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.chat.media_files import blob_url, file_of
from localllm.errors import InvalidParameter
from localllm.server.edge.callers import caller_of
from localllm.server.errors import FeatureDisabled, TooLarge
from localllm.server.requests.body import json_response, pieces
from localllm.server.state import ServerState
from localllm.types import wire as body


def routes() -> list[Route]:
    """Endpoints of this module."""
    return [Route("/localllm/blobs", add, methods=["POST"])]


async def add(request: Request) -> Response:
    """`POST /localllm/blobs`: the body is the file."""
    state: ServerState = request.app.state.server
    state.admit()
    blobs, settings = state.media.blobs, state.settings
    if not blobs.is_on:
        raise FeatureDisabled("this server keeps no files (blob_ram_mb and max_blobs); send them in the request")
    data = await _read(request, max(settings.max_media_bytes, settings.max_document_bytes))
    if not data:
        raise InvalidParameter("the body is empty; send the file's bytes")
    file = await asyncio.to_thread(file_of, data)
    if not blobs.put(file, caller_of(request).owner):
        raise TooLarge(f"the file has {len(data)} bytes, and all kept ones {blobs.max_bytes} (--blob-ram-mb)")
    return json_response(body.KeptBlob(url=blob_url(file.digest), size_bytes=len(data)))


async def _read(request: Request, max_bytes: int) -> bytes:
    """Raises `TooLarge`, `ClientGone`."""
    received = bytearray()
    async for piece in pieces(request):
        received += piece
        if len(received) > max_bytes:
            raise TooLarge(
                f"the file is larger than {max_bytes} bytes; --max-media-bytes and --max-document-bytes raise the limit"
            )
    return bytes(received)
