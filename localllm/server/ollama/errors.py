"""Errors as Ollama sends them: one sentence, and its statuses. Knows nothing of handlers."""

from __future__ import annotations

from typing import Any

import msgspec

from localllm.errors import ContextLengthExceeded, LocalLLMError, ModelNotFound, QueueFull, clipped
from localllm.server.errors import MAX_MESSAGE_CHARS, error_headers, public_message, status_of

PREFIX = "/api/"
"""How the paths begin whose errors are of this shape."""


class ErrorBody(msgspec.Struct, frozen=True):
    """What a failed response holds, and what a failed stream ends with."""

    error: str


def error_body(error: LocalLLMError) -> bytes:
    """The JSON of an error, the same before and in the middle of a stream."""
    return msgspec.json.encode(ErrorBody(clipped(public_message(error), MAX_MESSAGE_CHARS)))


def response_parts(error: LocalLLMError) -> dict[str, Any]:
    """Keyword arguments for a starlette `Response`."""
    return {
        "content": error_body(error),
        # Its clients try a full queue again by this status.
        "status_code": 503 if isinstance(error, QueueFull) else status_of(error),
        "headers": error_headers(error),
        "media_type": "application/json",
    }


def no_model(asked: str) -> ModelNotFound:
    """In the words that clients look for before they offer to pull it."""
    return ModelNotFound(f"model '{clipped(asked)}' not found", param="model")


def too_long(error: ContextLengthExceeded) -> ContextLengthExceeded:
    """Of a text to embed."""
    return ContextLengthExceeded("the input length exceeds the context length", param=error.param)
