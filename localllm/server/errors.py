"""The one seam where errors become HTTP: code -> status, and OpenAI's error object. Nothing else picks a status.

Also the errors that only an HTTP server can raise. Knows nothing of handlers and streams.
"""

from __future__ import annotations

from typing import Any

import msgspec

from localllm.errors import InternalError, LocalLLMError


class InvalidApiKey(LocalLLMError):
    """No key, or not one of ours."""

    code = "invalid_api_key"


class ForbiddenHost(LocalLLMError):
    """The Host header names somebody else: DNS rebinding."""

    code = "forbidden_host"


class ForbiddenOrigin(LocalLLMError):
    """A web page of another site asks."""

    code = "forbidden_origin"


class NotFound(LocalLLMError):
    """No such URL."""

    code = "not_found"


class MethodNotAllowed(LocalLLMError):
    """The URL exists, the method does not."""

    code = "method_not_allowed"


class TooLarge(LocalLLMError):
    """The body is over `max_body_bytes`."""

    code = "too_large"


class UnsupportedMediaType(LocalLLMError):
    """The body is not declared as JSON."""

    code = "unsupported_media_type"


_STATUS = {
    "invalid_parameter": 400,
    "unknown_parameter": 400,
    "unsupported_parameter": 400,
    "context_length_exceeded": 400,
    "template_error": 400,
    "no_chat_template": 400,
    "invalid_api_key": 401,
    "forbidden_host": 403,
    "forbidden_origin": 403,
    "model_not_found": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "too_large": 413,
    "unsupported_media_type": 415,
    "queue_full": 429,
    "rate_limited": 429,
    "internal": 500,
    "load_failed": 500,
    "draining": 503,
    "loading": 503,
    "worker_crashed": 503,
    "timeout": 504,
}

_TYPE = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class ErrorObject(msgspec.Struct, frozen=True):
    """OpenAI's error; `param` is the JSON path of the field at fault."""

    message: str
    type: str
    code: str
    param: str | None


class ErrorBody(msgspec.Struct, frozen=True):
    """What a failed response holds, and what a failed stream ends with."""

    error: ErrorObject


def status_of(error: LocalLLMError) -> int:
    """The HTTP status of an error of the tree."""
    return _STATUS[error.code]


def error_body(error: LocalLLMError) -> bytes:
    """The JSON of an error, the same before and in the middle of a stream."""
    status = status_of(error)
    kind = _TYPE.get(status, "invalid_request_error" if status < 500 else "server_error")
    return msgspec.json.encode(ErrorBody(ErrorObject(error.message, kind, error.code, error.param)))


def error_headers(error: LocalLLMError) -> dict[str, str]:
    """What tells a well-behaved client what to do next."""
    status = status_of(error)
    if status in (429, 503):
        return {"retry-after": "1"}
    return {"www-authenticate": "Bearer"} if status == 401 else {}


def defect(error: BaseException) -> InternalError:
    """An error for the client of a failure that we did not foresee: the details stay in the log."""
    return InternalError(f"the server failed with {type(error).__name__}; its log says more")


def response_parts(error: LocalLLMError) -> dict[str, Any]:
    """Keyword arguments for a starlette `Response`."""
    return {
        "content": error_body(error),
        "status_code": status_of(error),
        "headers": error_headers(error),
        "media_type": "application/json",
    }
