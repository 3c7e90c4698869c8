"""The response object with OpenAI's field names. Extensions: `timings`, `localllm`.

Knows nothing of how it is sent or stored.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from localllm.errors import LocalLLMError
from localllm.server.answers.remarks import Remarks, TimingsObject, remarks
from localllm.server.apis.responses.items import AnyItem, OutputItem, response_id
from localllm.server.apis.responses.requests import ResponseRequest
from localllm.server.errors import error_object, status_of
from localllm.types import Finish, Usage

Status = Literal["in_progress", "completed", "incomplete", "failed"]


class InputTokensDetails(msgspec.Struct, frozen=True):
    cached_tokens: int
    cache_write_tokens: int = 0
    image_tokens: int | UnsetType = UNSET
    audio_tokens: int | UnsetType = UNSET
    document_pages: int | UnsetType = UNSET
    document_pages_omitted: int | UnsetType = UNSET
    document_chars: int | UnsetType = UNSET


class OutputTokensDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int = 0


class ResponseUsage(msgspec.Struct, frozen=True, omit_defaults=True):
    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int
    shifted_tokens: int = 0
    """As in chat completions."""


class IncompleteDetails(msgspec.Struct, frozen=True):
    reason: Literal["max_output_tokens"] = "max_output_tokens"


class ResponseError(msgspec.Struct, frozen=True):
    """`code` is one of OpenAI's codes."""

    code: Literal["server_error", "rate_limit_exceeded", "invalid_prompt"]
    message: str
    type: str
    param: str | None


class ReasoningShape(msgspec.Struct, frozen=True):
    """`reasoning` as requested."""

    effort: str | None = None
    summary: str | None = None


class TextShape(msgspec.Struct, frozen=True):
    """`format` as requested."""

    format: dict[str, Any]
    verbosity: str | UnsetType = UNSET


class ResponseObject(msgspec.Struct, frozen=True, kw_only=True):
    """A response at some point in time. Parameters left to the model's defaults are null."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: Status
    background: Literal[False] = False
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: None = None
    metadata: dict[str, str]
    model: str
    output: list[OutputItem] = []
    parallel_tool_calls: bool = True
    previous_response_id: str | None
    reasoning: ReasoningShape = ReasoningShape()
    store: bool
    temperature: float | None
    text: TextShape
    tool_choice: Any = "auto"
    """As requested, like the tools."""
    tools: Any = []
    top_logprobs: int
    top_p: float | None
    truncation: Literal["auto", "disabled"] = "disabled"
    usage: ResponseUsage | None = None
    timings: TimingsObject | UnsetType = UNSET
    localllm: Remarks | UnsetType = UNSET


class Deleted(msgspec.Struct, frozen=True):
    """The reply to a deletion."""

    id: str
    object: Literal["response"] = "response"
    deleted: Literal[True] = True


class ItemList(msgspec.Struct, frozen=True):
    """A page of items. If it is empty, the ids are empty strings."""

    data: list[AnyItem]
    first_id: str
    last_id: str
    has_more: bool
    object: Literal["list"] = "list"


def begun(
    body: ResponseRequest,
    model: str,
    *,
    store: bool,
    tools: Raw | None = None,
    choice: Raw | None = None,
    server: str = "",
) -> ResponseObject:
    """A response without output. `model`: its name in the reply; `tools` and `choice`: as sent; `server`: this one's
    name, for the id of a response that is stored.
    """
    reasoning, text = body.reasoning, body.text
    return ResponseObject(
        id=response_id(server if store else ""),
        created_at=int(time.time()),
        status="in_progress",
        instructions=body.instructions,
        max_output_tokens=body.max_output_tokens,
        metadata=body.metadata or {},
        model=model,
        truncation=body.truncation or "disabled",
        parallel_tool_calls=body.parallel_tool_calls is not False,
        previous_response_id=body.previous_response_id,
        reasoning=ReasoningShape(reasoning.effort, reasoning.summary) if reasoning else ReasoningShape(),
        store=store,
        temperature=body.temperature,
        text=TextShape(
            text.format.given() if text and text.format else {"type": "text"},
            text.verbosity or UNSET if text else UNSET,
        ),
        tool_choice="auto" if body.tool_choice is None else choice,
        tools=tools if body.tools else [],
        top_logprobs=body.top_logprobs or 0,
        top_p=body.top_p,
    )


def ended(
    response: ResponseObject,
    output: Sequence[OutputItem],
    finish: Finish,
    *,
    is_complete: bool,
    timings: TimingsObject | UnsetType,
) -> ResponseObject:
    """The response with its answer. Reaching the time limit counts as reaching the token limit."""
    return msgspec.structs.replace(
        response,
        status="completed" if is_complete else "incomplete",
        completed_at=int(time.time()) if is_complete else None,
        incomplete_details=None if is_complete else IncompleteDetails(),
        output=list(output),
        usage=usage_object(finish.usage),
        timings=timings,
    )


def warned(response: ResponseObject, warnings: Sequence[str], cache_miss: str | None = None) -> ResponseObject:
    """The response with additional warnings. `cache_miss`: if requested."""
    before = [] if isinstance(response.localllm, UnsetType) else response.localllm.warnings
    return msgspec.structs.replace(response, localllm=remarks([*before, *warnings], cache_miss))


def failed(response: ResponseObject, error: LocalLLMError) -> ResponseObject:
    """The failed response, without its output."""
    status = status_of(error)
    code: Any = "rate_limit_exceeded" if status == 429 else "invalid_prompt" if status < 500 else "server_error"
    shape = error_object(error)
    return msgspec.structs.replace(
        response, status="failed", error=ResponseError(code, shape.message, shape.type, shape.param)
    )


def usage_object(usage: Usage) -> ResponseUsage:
    """Usage under this API's names."""
    return ResponseUsage(
        usage.prompt_tokens,
        InputTokensDetails(
            usage.cached_tokens,
            0,
            usage.image_tokens or UNSET,
            usage.audio_tokens or UNSET,
            usage.document_pages or UNSET,
            usage.document_pages_omitted or UNSET,
            usage.document_chars or UNSET,
        ),
        usage.completion_tokens,
        OutputTokensDetails(usage.reasoning_tokens),
        usage.total_tokens,
        usage.shifted_tokens,
    )


def page(items: Sequence[AnyItem], *, has_more: bool) -> ItemList:
    """These items as a page of a longer list."""
    ids = [item.id for item in items]
    return ItemList(list(items), first_id=ids[0] if ids else "", last_id=ids[-1] if ids else "", has_more=has_more)
