"""The one seam where errors become HTTP: code -> status, and OpenAI's error object. Nothing else picks a status.

Also the errors that only an HTTP server can raise. Knows nothing of handlers and streams.
"""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec

from localllm.errors import InternalError, LoadFailed, LocalLLMError, WorkerCrashed, clipped
from localllm.wire import ErrorBody, ErrorObject

MAX_MESSAGE_CHARS = 1000
"""Of an error's sentence. Whoever echoes what was sent clips it; this bounds an answer where somebody forgot."""


class InvalidApiKey(LocalLLMError):
    """No key, or not one of ours."""

    code = "invalid_api_key"


class ForbiddenHost(LocalLLMError):
    """The Host header names somebody else: DNS rebinding."""

    code = "forbidden_host"


class ForbiddenOrigin(LocalLLMError):
    """A web page of another site asks."""

    code = "forbidden_origin"


class PermissionDenied(LocalLLMError):
    """The API key is valid, and not one that may do this."""

    code = "permission_denied"


class NotFound(LocalLLMError):
    """No such URL."""

    code = "not_found"


class PreviousResponseNotFound(LocalLLMError):
    """The response to go on from is not kept, or not any more."""

    code = "previous_response_not_found"


class NotServed(LocalLLMError):
    """Another server has this, and this one has not."""

    code = "not_served"


class FeatureDisabled(LocalLLMError):
    """What other servers can be told to allow, and this one never does."""

    code = "feature_disabled"


class MethodNotAllowed(LocalLLMError):
    """The URL exists, the method does not."""

    code = "method_not_allowed"


class Overloaded(LocalLLMError):
    """All connections, or all memory for bodies, are in use; the same request may succeed later."""

    code = "overloaded"


class RateLimited(LocalLLMError):
    """The API key has what it may have; details: `limit`, `retry_after_s`."""

    code = "rate_limited"


class MalformedRequest(LocalLLMError):
    """What came is no HTTP."""

    code = "malformed_request"


class HeadersTooLarge(LocalLLMError):
    """The first line and the headers are over `max_header_bytes`."""

    code = "headers_too_large"


class SlowRequest(LocalLLMError):
    """The head or the body did not arrive within `body_timeout_s`."""

    code = "request_timeout"


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
    "incomplete_document": 400,
    "previous_response_not_found": 400,
    "malformed_request": 400,
    "invalid_api_key": 401,
    "forbidden_host": 403,
    "forbidden_origin": 403,
    "permission_denied": 403,
    "access_denied": 403,
    "forbidden_address": 403,
    "model_not_found": 404,
    "feature_disabled": 403,
    "slot_not_found": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "load_conflict": 409,
    "slot_busy": 409,
    "too_large": 413,
    "unsupported_media_type": 415,
    "headers_too_large": 431,
    "queue_full": 429,
    "rate_limited": 429,
    "internal": 500,
    "load_failed": 500,
    "not_served": 501,
    "pull_failed": 502,
    "disk_full": 507,
    "draining": 503,
    "overloaded": 503,
    "loading": 503,
    "worker_crashed": 503,
    "timeout": 504,
}

_PATH = re.compile(r"(?<![\w:/])(?:/|[A-Za-z]:[\\/]|\\\\)[^\s/]")
"""Something like an absolute path in a sentence, on any system."""

_TYPE = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def is_told_in_part(error: LocalLLMError) -> bool:
    """Whether the log should say more than the client is told."""
    return isinstance(error, InternalError) or public_message(error) != error.message


def status_of(error: LocalLLMError) -> int:
    """The HTTP status of an error of the tree."""
    return _STATUS[error.code]


def error_object(error: LocalLLMError) -> ErrorObject:
    """An error of the tree as OpenAI shapes them."""
    status = status_of(error)
    kind = _TYPE.get(status, "invalid_request_error" if status < 500 else "server_error")
    param = None if error.param is None else clipped(error.param)
    return ErrorObject(clipped(public_message(error), MAX_MESSAGE_CHARS), kind, error.code, param)


def error_body(error: LocalLLMError) -> bytes:
    """The JSON of an error, the same before and in the middle of a stream."""
    return msgspec.json.encode(ErrorBody(error_object(error)))


def public_message(error: LocalLLMError) -> str:
    """The sentence for a client, who is not told where our files are nor of our processes' last words: the log is.

    Also the clients on this machine: who asks over HTTP need not be who may read the log.
    """
    if isinstance(error, WorkerCrashed):
        signal, exit_code = error.details.get("signal"), error.details.get("exit_code")
        how = f" (signal {signal})" if signal else "" if exit_code is None else f" (exit code {exit_code})"
        return f"the model's process died{how}; the server's log says more"
    if isinstance(error, LoadFailed) and error.public == error.message and _PATH.search(error.message):
        return "the model could not be loaded; the server's log says why"
    return error.public


def error_headers(error: LocalLLMError) -> dict[str, str]:
    """What tells a well-behaved client what to do next."""
    status = status_of(error)
    if status in (429, 503):
        wait_s = error.details.get("retry_after_s")
        return {"retry-after": str(max(1, math.ceil(wait_s)) if isinstance(wait_s, int | float) else 1)}
    if status == 408:
        return {"connection": "close"}  # the rest of that request would be taken for the next one
    if status == 405:
        return {"allow": str(error.details.get("allow", ""))}
    return {"www-authenticate": "Bearer"} if status == 401 else {}


def headers_too_large(max_bytes: int) -> HeadersTooLarge:
    """The same sentence wherever it is noticed."""
    return HeadersTooLarge(
        f"the request's first line and headers are larger than {max_bytes} bytes; --max-header-bytes raises the limit"
    )


def slow_request(what: str, timeout_s: float) -> SlowRequest:
    """The same sentence wherever it is noticed."""
    return SlowRequest(f"the request's {what} did not arrive within {timeout_s:g} s; --body-timeout-s raises the limit")


def too_many_connections(most: int) -> Overloaded:
    """For a client that connects while all others are being answered."""
    return Overloaded(f"{most} connections are open and busy, which is the limit (--max-connections); try again later")


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
