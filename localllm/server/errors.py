"""The one seam where errors become HTTP: code -> status, and OpenAI's error object. Nothing else picks a status.

Also the errors that only an HTTP server raises. Knows nothing of handlers and streams.
"""

from __future__ import annotations

import logging
import math
import re
from contextvars import ContextVar
from typing import Any

import msgspec

from localllm.errors import InternalError, LoadFailed, LocalLLMError, WorkerCrashed, clipped, has_remedy, sentence_of
from localllm.server.edge import log
from localllm.settings.config import SETTINGS
from localllm.types.wire import ErrorBody, ErrorObject

MAX_MESSAGE_CHARS = 1000
"""Maximum length of an error message. Code that echoes input clips it; this limits the reply if it did not."""


class InvalidApiKey(LocalLLMError):
    """No API key, or an unknown one."""

    code = "invalid_api_key"


class ForbiddenHost(LocalLLMError):
    """The Host header has another name: DNS rebinding."""

    code = "forbidden_host"


class ForbiddenOrigin(LocalLLMError):
    """The request comes from a web page of another site."""

    code = "forbidden_origin"


class PermissionDenied(LocalLLMError):
    """The API key is valid but lacks the permission."""

    code = "permission_denied"


class NotFound(LocalLLMError):
    """No such URL."""

    code = "not_found"


class PreviousResponseNotFound(LocalLLMError):
    """The previous response is not stored, or no longer."""

    code = "previous_response_not_found"


class BlobNotFound(LocalLLMError):
    """The request refers to an uploaded file that is not kept, or no longer."""

    code = "blob_not_found"


class NotServed(LocalLLMError):
    """An endpoint of another server that is not served here."""

    code = "not_served"


class FeatureDisabled(LocalLLMError):
    """Something that other servers can be configured to allow, and this one never does."""

    code = "feature_disabled"


class MethodNotAllowed(LocalLLMError):
    """The URL exists, but not with this method."""

    code = "method_not_allowed"


class Overloaded(LocalLLMError):
    """All connections, or all memory for bodies, are in use; the same request may succeed later."""

    code = "overloaded"


class RateLimited(LocalLLMError):
    """The API key reached a limit; details: `limit`, `retry_after_s`."""

    code = "rate_limited"


class MalformedRequest(LocalLLMError):
    """The bytes are not valid HTTP."""

    code = "malformed_request"


class HeadersTooLarge(LocalLLMError):
    """The first line and the headers are over `max_header_bytes`."""

    code = "headers_too_large"


class SlowRequest(LocalLLMError):
    """The headers or the body did not arrive within `body_timeout_s`."""

    code = "request_timeout"


class TooLarge(LocalLLMError):
    """The body is over `max_body_bytes`."""

    code = "too_large"


class UnsupportedMediaType(LocalLLMError):
    """The body is not declared as JSON, or has an encoding that is not decoded; details: `accept_encoding`."""

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
    "blob_not_found": 409,
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
"""Matches absolute paths in a message, of any system."""

_TYPE = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


is_command_line: ContextVar[bool] = ContextVar("is_command_line", default=False)
"""Whether who asks is localllm's own client, whose user can type options."""
OWN_CLIENT = "localllm/"
"""How its `User-Agent` begins (`client.connection`)."""
_COMMAND = re.compile(r"localllm (run|serve)\b")
"""Commands that take such options: a message that names one means them."""
_OPTION = re.compile(r"--([a-z][a-z0-9-]*)")


def is_told_in_part(error: LocalLLMError) -> bool:
    """Whether the log should have more details than the reply."""
    return isinstance(error, InternalError) or _without_internals(error) != error.message


def status_of(error: LocalLLMError) -> int:
    """The HTTP status of an error."""
    return _STATUS[error.code]


def error_object(error: LocalLLMError) -> ErrorObject:
    """An error in OpenAI's format."""
    status = status_of(error)
    kind = _TYPE.get(status, "invalid_request_error" if status < 500 else "server_error")
    param = None if error.param is None else clipped(error.param)
    return ErrorObject(bounded_message(error), kind, error.code, param)


def error_body(error: LocalLLMError) -> bytes:
    """The JSON of an error, the same before and in the middle of a stream."""
    return msgspec.json.encode(ErrorBody(error_object(error)))


def public_message(error: LocalLLMError) -> str:
    """The message for the client, without paths or the output of our processes, which go to the log only.

    This includes clients on this machine: they need not be allowed to read the log. Options that are also fields of
    requests have the field's name, unless the reader is at a command line, or is sent there.
    """
    message = _without_internals(error)
    is_for_commands = is_command_line.get() or _COMMAND.search(message)
    return message if is_for_commands else _OPTION.sub(_as_field, message)


def _as_field(option: re.Match[str]) -> str:
    name = option[1].replace("-", "_")
    field = SETTINGS.get(name)
    return name if field is not None and field.setting.who in ("clients", "names") else option[0]


def _without_internals(error: LocalLLMError) -> str:
    if isinstance(error, WorkerCrashed):
        signal, exit_code = error.details.get("signal"), error.details.get("exit_code")
        how = f" (signal {signal})" if signal else "" if exit_code is None else f" (exit code {exit_code})"
        return f"the model's process died{how}; see the server's log"
    if isinstance(error, LoadFailed) and error.public == error.message and _PATH.search(error.message):
        return "the model could not be loaded; see the server's log"
    return error.public


def error_headers(error: LocalLLMError) -> dict[str, str]:
    """Headers that tell well-behaved clients what to do next."""
    status = status_of(error)
    if status in (429, 503):
        wait_s = error.details.get("retry_after_s")
        return {"retry-after": str(max(1, math.ceil(wait_s)) if isinstance(wait_s, int | float) else 1)}
    if status == 408:
        return {"connection": "close"}  # the rest of that request would be parsed as the next one
    if status == 415 and "accept_encoding" in error.details:
        return {"accept-encoding": str(error.details["accept_encoding"])}
    if status == 405:
        return {"allow": str(error.details.get("allow", ""))}
    return {"www-authenticate": "Bearer"} if status == 401 else {}


def headers_too_large(max_bytes: int) -> HeadersTooLarge:
    """One message for all places that detect it."""
    return HeadersTooLarge(
        f"the request's first line and headers are larger than {max_bytes} bytes; --max-header-bytes raises the limit"
    )


def slow_request(what: str, timeout_s: float) -> SlowRequest:
    """One message for all places that detect it."""
    return SlowRequest(f"the request's {what} did not arrive within {timeout_s:g} s; --body-timeout-s raises the limit")


def too_many_connections(most: int) -> Overloaded:
    """The message for a client that connects while all connections are busy."""
    return Overloaded(f"all {most} connections are busy (--max-connections); try again later")


def unexpected(error: Exception, where: str) -> InternalError:
    """Log an exception that no handler expected, while it is handled; returns the client's error, without details.

    A system error with a known remedy, such as a full disk, is no defect: it is logged in one line.
    """
    if isinstance(error, OSError) and has_remedy(error):
        log.event(logging.ERROR, "system_error", where=where, message=sentence_of(error))
        return InternalError(f"the server cannot use one of its files ({error.strerror}); see the server's log")
    log.logger.exception("unexpected error in %s", where)
    return InternalError(f"unexpected error ({type(error).__name__}); see the server's log")


def parts_of(content: bytes, error: LocalLLMError, status: int | None = None) -> dict[str, Any]:
    """Keyword arguments for a starlette `Response`. `content`: in an API's format; `status`: if not the usual one."""
    return {
        "content": content,
        "status_code": status_of(error) if status is None else status,
        "headers": error_headers(error),
        "media_type": "application/json",
    }


def response_parts(error: LocalLLMError) -> dict[str, Any]:
    """Keyword arguments for a starlette `Response` in OpenAI's format."""
    return parts_of(error_body(error), error)


def bounded_message(error: LocalLLMError) -> str:
    """`public_message`, clipped."""
    return clipped(public_message(error), MAX_MESSAGE_CHARS)
