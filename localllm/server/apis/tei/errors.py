"""Errors in text-embeddings-inference's format, with its statuses. Knows nothing of handlers."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from starlette.types import Scope

from localllm.errors import ContextLengthExceeded, LocalLLMError, RequestError, clipped
from localllm.server.apis.embeddings.making import WrongModel
from localllm.server.errors import MAX_MESSAGE_CHARS, TooLarge, error_headers, public_message, status_of

PATHS = frozenset({"/embed", "/embed_all", "/embed_sparse", "/info", "/predict", "/similarity"})
"""Paths with this error format; for `/rerank` only if TEI's fields are used."""
_ASKED = "tei"

ErrorType = Literal["Unhealthy", "Backend", "Overloaded", "Validation"]


class ErrorReply(msgspec.Struct, frozen=True):
    error: str
    error_type: ErrorType


def answer_as_tei(scope: Scope) -> None:
    """Mark the request as TEI's, so that any error has TEI's format."""
    scope["state"][_ASKED] = True


def is_teis(scope: Scope) -> bool:
    """Whether the request is from a TEI client."""
    return scope["path"] in PATHS or _ASKED in scope["state"]


def response_parts(error: LocalLLMError) -> dict[str, Any]:
    """Keyword arguments for a starlette `Response`."""
    status, kind = _classed(error)
    return {
        "content": msgspec.json.encode(ErrorReply(clipped(public_message(error), MAX_MESSAGE_CHARS), kind)),
        "status_code": status,
        "headers": error_headers(error),
        "media_type": "application/json",
    }


def _classed(error: LocalLLMError) -> tuple[int, ErrorType]:
    if isinstance(error, ContextLengthExceeded | TooLarge):
        return 413, "Validation"
    if isinstance(error, WrongModel):
        return 424, "Backend"
    status = status_of(error)
    if status == 429:
        return status, "Overloaded"
    if status >= 500:
        return status, "Unhealthy" if status == 503 else "Backend"
    if isinstance(error, RequestError) and status == 400:
        return 422, "Validation"
    return status, "Validation"
