"""Errors in Ollama's format and with its statuses. Knows nothing of handlers."""

from __future__ import annotations

from typing import Any

import msgspec

from localllm.errors import ContextLengthExceeded, LocalLLMError, ModelNotFound, QueueFull, clipped
from localllm.server.errors import MAX_MESSAGE_CHARS, error_headers, public_message, status_of

PREFIX = "/api/"
"""Path prefixes with this error format."""


class ErrorBody(msgspec.Struct, frozen=True):
    """The body of a failed response, and the last line of a failed stream."""

    error: str


def error_body(error: LocalLLMError) -> bytes:
    """The JSON of an error, the same before and in the middle of a stream."""
    return msgspec.json.encode(ErrorBody(clipped(public_message(error), MAX_MESSAGE_CHARS)))


def response_parts(error: LocalLLMError) -> dict[str, Any]:
    """Keyword arguments for a starlette `Response`."""
    return {
        "content": error_body(error),
        # Ollama's clients retry on this status.
        "status_code": 503 if isinstance(error, QueueFull) else status_of(error),
        "headers": error_headers(error),
        "media_type": "application/json",
    }


def no_model(asked: str) -> ModelNotFound:
    """The message that makes clients offer a pull."""
    return ModelNotFound(f"model '{clipped(asked)}' not found", param="model")


def too_long(error: ContextLengthExceeded) -> ContextLengthExceeded:
    """The message for a text to embed that is too long."""
    return ContextLengthExceeded("the input length exceeds the context length", param=error.param)
