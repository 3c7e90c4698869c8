"""Response bodies: messages and their blocks, counts, errors, in Anthropic's format."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from localllm.errors import ContextLengthExceeded, LocalLLMError, UnsupportedParameter, clipped
from localllm.server.answers.remarks import Remarks, TimingsObject, finish_reason
from localllm.server.errors import MAX_MESSAGE_CHARS, parts_of, public_message, status_of
from localllm.types import Finish, PromptCount, Usage

StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}

THREAD = "thread"
"""The request field for a conversation stored on the server."""
OVERLOADED = 529
"""Anthropic's non-standard status for an overloaded server, which clients recognize."""


class TextBlock(msgspec.Struct, frozen=True, tag="text"):
    text: str


class ThinkingBlock(msgspec.Struct, frozen=True, tag="thinking"):
    thinking: str
    signature: str = ""
    """Signature of a complete thought; clients send both back."""


class ToolUseBlock(msgspec.Struct, frozen=True, tag="tool_use"):
    id: str
    name: str
    input: Raw = msgspec.field(default_factory=lambda: Raw(b"{}"))


AnswerBlock = TextBlock | ThinkingBlock | ToolUseBlock


class MessageUsage(msgspec.Struct, frozen=True):
    """The prompt has `input_tokens` plus the tokens read from the cache."""

    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    """Always 0: caching is free."""
    document_pages: int | UnsetType = UNSET
    """Of documents: pages, slides and sheets in the prompt, and those that the request did not choose."""
    document_pages_omitted: int | UnsetType = UNSET
    document_chars: int | UnsetType = UNSET
    """Characters of documents in the prompt; present if there are any."""
    image_tokens: int | UnsetType = UNSET
    """Ours: how many tokens of the prompt are of pictures, if there are any; and of sounds."""
    audio_tokens: int | UnsetType = UNSET


class MessageObject(msgspec.Struct, frozen=True, kw_only=True):
    """An answer."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[AnswerBlock]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: MessageUsage
    timings: TimingsObject | UnsetType = UNSET
    localllm: Remarks | UnsetType = UNSET


class TokenCount(msgspec.Struct, frozen=True):
    input_tokens: int
    image_tokens: int | UnsetType = UNSET
    """Ours: how many of these are of pictures, if there are any; and of sounds."""
    audio_tokens: int | UnsetType = UNSET


class NoThreads(msgspec.Struct, frozen=True, tag_field="error_code", tag="thread_unsupported_request"):
    """Details of an error that tell clients to send the whole conversation each time."""

    unsupported: list[str]


class ErrorDetail(msgspec.Struct, frozen=True):
    type: str
    message: str
    details: NoThreads | UnsetType = UNSET


class ErrorReply(msgspec.Struct, frozen=True, tag="error"):
    """The body of a failed response, and the last event of a failed stream."""

    error: ErrorDetail
    request_id: str | None


def usage_of(usage: Usage) -> MessageUsage:
    """Token counts under this API's names."""
    cached = usage.cached_tokens
    return MessageUsage(
        usage.prompt_tokens - cached,
        usage.completion_tokens,
        cached,
        0,
        usage.document_pages or UNSET,
        usage.document_pages_omitted or UNSET,
        usage.document_chars or UNSET,
        usage.image_tokens or UNSET,
        usage.audio_tokens or UNSET,
    )


def token_count(count: PromptCount) -> TokenCount:
    """The numbers of a prompt that is only counted."""
    return TokenCount(count.tokens, count.image_tokens or UNSET, count.audio_tokens or UNSET)


def stop_reason(finish: Finish, *, calls: bool) -> StopReason:
    """`calls`: whether the answer has calls. Raises `Draining` if the server cut the answer short."""
    if finish_reason(finish) == "length":
        return "max_tokens"
    if finish.stop is not None:
        return "stop_sequence"
    return "tool_use" if calls else "end_turn"


def error_reply(error: LocalLLMError, request_id: str | None) -> ErrorReply:
    """An error in Anthropic's format."""
    status = status_of(error)
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    details = NoThreads([THREAD]) if isinstance(error, UnsupportedParameter) and error.param == THREAD else UNSET
    return ErrorReply(ErrorDetail(kind, clipped(_message(error), MAX_MESSAGE_CHARS), details), request_id)


def response_parts(error: LocalLLMError, request_id: str) -> dict[str, Any]:
    """Keyword arguments for a starlette `Response`."""
    status = status_of(error)
    content = msgspec.json.encode(error_reply(error, request_id))
    parts = parts_of(content, error, OVERLOADED if status == 503 else status)
    return {**parts, "headers": {**parts["headers"], "request-id": request_id}}


def _message(error: LocalLLMError) -> str:
    """Agents compact their conversation when they see this message."""
    said = public_message(error)
    if not isinstance(error, ContextLengthExceeded):
        return said
    details: dict[str, Any] = error.details
    given, most = details.get("prompt_tokens"), details.get("context_length")
    numbers = f": {given} tokens > {most} maximum" if given is not None and most is not None else ""
    return f"prompt is too long{numbers}. {said}"
