"""The first step of all endpoints of this package: parse the body, and check that the server is not shutting down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from starlette.requests import Request

from localllm.server.common.body import read_json, unknown_fields_header
from localllm.server.common.field_rules import parse_known
from localllm.server.state import ServerState

T = TypeVar("T", bound=msgspec.Struct)


async def read(request: Request, kind: type[T]) -> tuple[ServerState, T, Mapping[str, str]]:
    """The server's state, the request, and headers for the reply. Raises `InvalidParameter`, `Draining`."""
    state: ServerState = request.app.state.server
    _, asked, ignored = parse_known(await read_json(request, state.settings.max_body_bytes), kind)
    headers = unknown_fields_header(ignored, strict=state.settings.strict)
    state.admit()
    return state, asked, headers
