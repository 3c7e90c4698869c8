"""vLLM's endpoints for adapters: which of the registered names are models now. A request names no files.

Knows nothing of what adapters are.
"""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from localllm.errors import UnsupportedParameter
from localllm.server.edge.callers import caller_of
from localllm.server.requests.body import read_json, unknown_fields_header
from localllm.server.requests.field_rules import parse_known
from localllm.server.state import ServerState


class AdapterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which adapter."""

    lora_name: str
    lora_path: str | None = None
    """May only repeat the name: files are added on the server's machine, with `localllm lora add`."""


def routes() -> list[Route]:
    """Endpoints of this module."""
    return [
        Route("/v1/load_lora_adapter", load, methods=["POST"]),
        Route("/v1/unload_lora_adapter", unload, methods=["POST"]),
    ]


async def load(request: Request) -> Response:
    """`POST /v1/load_lora_adapter`."""
    return await _set(request, hidden=False)


async def unload(request: Request) -> Response:
    """`POST /v1/unload_lora_adapter`."""
    return await _set(request, hidden=True)


async def _set(request: Request, *, hidden: bool) -> Response:
    state: ServerState = request.app.state.server
    caller_of(request).check_may("load and unload adapters")
    _, asked, unknown = parse_known(await read_json(request, state.settings.max_body_bytes), AdapterRequest)
    headers = unknown_fields_header(unknown, strict=state.settings.strict)
    if asked.lora_path not in (None, "", asked.lora_name):
        raise UnsupportedParameter(
            "lora_path: requests name no files; localllm lora add MODEL NAME FILE adds one, and lora_name names it",
            param="lora_path",
        )
    state.runtime.adapters.hide(asked.lora_name, hidden=hidden)
    done = "removed" if hidden else "added"
    return PlainTextResponse(f"Success: LoRA adapter '{asked.lora_name}' {done} successfully.", headers=headers)
