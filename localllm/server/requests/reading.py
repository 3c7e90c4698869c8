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
    request: Request, parse: Parse[T], body: Callable[[Request, int], Awaitable[bytes]] = read_json
) -> tuple[ServerState, T, dict[str, str]]:
    """The server's state, the request, and headers for the reply. Raises as `parse`, and `Draining`."""
    state: ServerState = request.app.state.server
    asked, ignored = parse(await body(request, state.settings.max_body_bytes))
    state.admit()
    return state, asked, unknown_fields_header(ignored, strict=state.settings.strict)
