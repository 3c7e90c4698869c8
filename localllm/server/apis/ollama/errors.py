"""Errors in Ollama's format and with its statuses. Knows nothing of handlers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from localllm.errors import ContextLengthExceeded, LocalLLMError, ModelNotFound, QueueFull, clipped
from localllm.registry import resolve
from localllm.server.apis.ollama.names import shown
from localllm.server.errors import bounded_message, parts_of
from localllm.settings.model_names import similar

PREFIX = "/api/"
"""Path prefixes with this error format."""


class ErrorBody(msgspec.Struct, frozen=True):
    """The body of a failed response, and the last line of a failed stream."""

    error: str


def error_body(error: LocalLLMError) -> bytes:
    """The JSON of an error, the same before and in the middle of a stream."""
    return msgspec.json.encode(ErrorBody(bounded_message(error)))


def response_parts(error: LocalLLMError) -> dict[str, Any]:
    """Keyword arguments for a starlette `Response`."""
    # Ollama's clients retry on this status.
    return parts_of(error_body(error), error, 503 if isinstance(error, QueueFull) else None)


def no_model(asked: str, here: Collection[str]) -> ModelNotFound:
    """The message that makes clients offer a pull, with the names `here` that may have been meant."""
    meant = [] if resolve.is_downloadable(asked) else similar(asked, here)
    hint = f"; did you mean {' or '.join(map(shown, meant))}?" if meant else ""
    return ModelNotFound(f"model '{clipped(asked)}' not found{hint}", param="model")


def too_long(error: ContextLengthExceeded) -> ContextLengthExceeded:
    """The message for a text to embed that is too long."""
    return ContextLengthExceeded("the input length exceeds the context length", param=error.param)
