"""The first step of most endpoints: parse the body, name its unknown fields, and check that the server is not shutting
down. Knows no API's fields.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.requests import Request

from localllm.server.requests.body import read_json, unknown_fields_header
from localllm.server.requests.field_rules import Parse
from localllm.server.state import ServerState

T = TypeVar("T")


async def read(
    request: Request,
    parse: Parse[T],
    body: Callable[[Request, int, int], Awaitable[bytes]] = read_json,
    *,
    has_media: bool = False,
) -> tuple[ServerState, T, dict[str, str]]:
    """The server's state, the request, and headers for the reply. `has_media`: whether there may be pictures and sounds
    in it. Raises as `parse`, and `Draining`."""
    state: ServerState = request.app.state.server
    settings = state.settings
    asked, ignored = parse(
        await body(request, settings.max_body_bytes, settings.max_request_media_bytes if has_media else 0)
    )
    state.admit()
    return state, asked, unknown_fields_header(ignored, strict=state.settings.strict)
