"""Errors in llama-server's format, on its own paths. Knows nothing of handlers.

`reason` is an extension: the error's code in our other APIs.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from localllm.errors import ContextLengthExceeded, LocalLLMError, clipped
from localllm.server.errors import MAX_MESSAGE_CHARS, parts_of, public_message, status_of

PATHS = (
    "/apply-template", "/chat/completions", "/completion", "/completions", "/cors-proxy", "/detokenize", "/embedding",
    "/embeddings", "/health", "/infill", "/lora-adapters", "/models/load", "/models/sse", "/models/unload", "/props",
    "/slots", "/tokenize", "/tools", "/v1/health",
)  # fmt: skip
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    501: "not_supported_error",
    503: "unavailable_error",
}


class ErrorObject(msgspec.Struct, frozen=True, kw_only=True):
    code: int
    """The HTTP status."""
    message: str
    type: str
    param: str | None
    """The JSON path of the field at fault."""
    reason: str
    n_prompt_tokens: int | UnsetType = UNSET
    """For a prompt that is too long: its tokens and the context."""
    n_ctx: int | UnsetType = UNSET


class ErrorBody(msgspec.Struct, frozen=True):
    """The body of a failed response, and the last event of a failed stream."""

    error: ErrorObject


def has_path(path: str) -> bool:
    """Whether errors of that path have this format."""
    return path in PATHS or path.startswith("/slots/")


def error_body(error: LocalLLMError) -> bytes:
    """The JSON of an error, the same before and in the middle of a stream."""
    status = status_of(error)
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return msgspec.json.encode(
        ErrorBody(
            ErrorObject(
                code=status,
                message=clipped(_sentence(error), MAX_MESSAGE_CHARS),
                type="exceed_context_size_error" if isinstance(error, ContextLengthExceeded) else kind,
                param=None if error.param is None else clipped(error.param),
                reason=error.code,
                n_prompt_tokens=_count(error, "prompt_tokens"),
                n_ctx=_count(error, "context_length"),
            )
        )
    )


def _count(error: LocalLLMError, detail: str) -> int | UnsetType:
    value = error.details.get(detail)
    return value if isinstance(error, ContextLengthExceeded) and isinstance(value, int) else UNSET


def _sentence(error: LocalLLMError) -> str:
    """The message for a prompt that is too long, as llama-server's clients recognize it."""
    if not isinstance(error, ContextLengthExceeded):
        return public_message(error)
    num_tokens, ctx = error.details.get("prompt_tokens"), error.details.get("context_length")
    return f"request ({num_tokens} tokens) exceeds the available context size ({ctx} tokens), try increasing it"


def response_parts(error: LocalLLMError) -> dict[str, Any]:
    """Keyword arguments for a starlette `Response`."""
    return parts_of(error_body(error), error)
