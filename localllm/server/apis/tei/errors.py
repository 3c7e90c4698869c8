"""Errors in text-embeddings-inference's format, with its statuses. Knows nothing of handlers."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from starlette.types import Scope

from localllm.errors import ContextLengthExceeded, LocalLLMError, RequestError
from localllm.server.apis.embeddings.making import WrongModel
from localllm.server.errors import TooLarge, bounded_message, parts_of, status_of

PATHS = frozenset({"/embed", "/embed_all", "/embed_sparse", "/info", "/predict", "/similarity"})
"""Paths with this error format; for `/rerank` only if TEI's fields are used."""
_ASKED = "tei"

ErrorType = Literal["Unhealthy", "Backend", "Overloaded", "Validation"]
_TYPES: dict[int, ErrorType] = {429: "Overloaded", 503: "Unhealthy"}


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
    status = _status(error)
    kind: ErrorType = "Backend" if status >= 500 or isinstance(error, WrongModel) else "Validation"
    kind = _TYPES.get(status, kind)
    return parts_of(msgspec.json.encode(ErrorReply(bounded_message(error), kind)), error, status)


def _status(error: LocalLLMError) -> int:
    if isinstance(error, ContextLengthExceeded | TooLarge):
        return 413
    if isinstance(error, WrongModel):
        return 424
    status = status_of(error)
    return 422 if status == 400 and isinstance(error, RequestError) else status
