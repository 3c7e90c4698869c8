"""The events of a response, with OpenAI's names and fields. Knows nothing of their order."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from localllm.server.answers.logprobs import ChatLogprob
from localllm.server.answers.timings import ProgressObject, SpeedObject
from localllm.server.apis.responses import replies as out
from localllm.server.apis.responses.items import OutputItem, OutputText, ReasoningText, SummaryText
from localllm.server.edge import sse


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """A change of the response's status."""

    sequence_number: int


class _OfResponse(Event, frozen=True, kw_only=True):
    response: out.ResponseObject


class Created(_OfResponse, frozen=True, kw_only=True, tag="response.created"):
    pass


class InProgress(_OfResponse, frozen=True, kw_only=True, tag="response.in_progress"):
    prompt_progress: ProgressObject | UnsetType = UNSET
    """Extension, for `return_progress`: repeated while the prompt is computed."""


class Completed(_OfResponse, frozen=True, kw_only=True, tag="response.completed"):
    timings: SpeedObject | UnsetType = UNSET
    """Extension, for `timings_per_token`."""


class Incomplete(_OfResponse, frozen=True, kw_only=True, tag="response.incomplete"):
    timings: SpeedObject | UnsetType = UNSET


class Failed(_OfResponse, frozen=True, kw_only=True, tag="response.failed"):
    pass


class _OfItem(Event, frozen=True, kw_only=True):
    output_index: int
    item: OutputItem


class ItemAdded(_OfItem, frozen=True, kw_only=True, tag="response.output_item.added"):
    pass


class ItemDone(_OfItem, frozen=True, kw_only=True, tag="response.output_item.done"):
    pass


class _OfPart(Event, frozen=True, kw_only=True):
    item_id: str
    output_index: int
    content_index: int = 0


class PartAdded(_OfPart, frozen=True, kw_only=True, tag="response.content_part.added"):
    part: ReasoningText | OutputText


class PartDone(_OfPart, frozen=True, kw_only=True, tag="response.content_part.done"):
    part: ReasoningText | OutputText


class ThoughtDelta(_OfPart, frozen=True, kw_only=True, tag="response.reasoning_text.delta"):
    delta: str


class ThoughtDone(_OfPart, frozen=True, kw_only=True, tag="response.reasoning_text.done"):
    text: str


class _OfSummary(Event, frozen=True, kw_only=True):
    item_id: str
    output_index: int
    summary_index: int = 0


class SummaryAdded(_OfSummary, frozen=True, kw_only=True, tag="response.reasoning_summary_part.added"):
    part: SummaryText


class SummaryDelta(_OfSummary, frozen=True, kw_only=True, tag="response.reasoning_summary_text.delta"):
    delta: str


class SummaryDone(_OfSummary, frozen=True, kw_only=True, tag="response.reasoning_summary_text.done"):
    text: str


class SummaryPartDone(_OfSummary, frozen=True, kw_only=True, tag="response.reasoning_summary_part.done"):
    part: SummaryText


class TextDelta(_OfPart, frozen=True, kw_only=True, tag="response.output_text.delta"):
    delta: str
    logprobs: list[ChatLogprob]
    timings: SpeedObject | UnsetType = UNSET
    """Extension, for `timings_per_token`."""


class TextDone(_OfPart, frozen=True, kw_only=True, tag="response.output_text.done"):
    text: str
    logprobs: list[ChatLogprob]


class _OfCall(Event, frozen=True, kw_only=True):
    item_id: str
    output_index: int


class ArgumentsDelta(_OfCall, frozen=True, kw_only=True, tag="response.function_call_arguments.delta"):
    delta: str


class ArgumentsDone(_OfCall, frozen=True, kw_only=True, tag="response.function_call_arguments.done"):
    name: str
    arguments: str


class InputDelta(_OfCall, frozen=True, kw_only=True, tag="response.custom_tool_call_input.delta"):
    delta: str


class InputDone(_OfCall, frozen=True, kw_only=True, tag="response.custom_tool_call_input.done"):
    input: str


class McpListToolsInProgress(_OfCall, frozen=True, kw_only=True, tag="response.mcp_list_tools.in_progress"):
    pass


class McpListToolsCompleted(_OfCall, frozen=True, kw_only=True, tag="response.mcp_list_tools.completed"):
    pass


class McpListToolsFailed(_OfCall, frozen=True, kw_only=True, tag="response.mcp_list_tools.failed"):
    pass


class McpCallInProgress(_OfCall, frozen=True, kw_only=True, tag="response.mcp_call.in_progress"):
    pass


class McpArgumentsDelta(_OfCall, frozen=True, kw_only=True, tag="response.mcp_call_arguments.delta"):
    delta: str


class McpArgumentsDone(_OfCall, frozen=True, kw_only=True, tag="response.mcp_call_arguments.done"):
    arguments: str


class McpCallCompleted(_OfCall, frozen=True, kw_only=True, tag="response.mcp_call.completed"):
    pass


class McpCallFailed(_OfCall, frozen=True, kw_only=True, tag="response.mcp_call.failed"):
    pass


class ErrorEvent(Event, frozen=True, kw_only=True, tag="error"):
    """With our own error code; `response.failed` has one of OpenAI's."""

    code: str
    message: str
    param: str | None


AnyEvent = (
    Created | InProgress | Completed | Incomplete | Failed | ItemAdded | ItemDone | PartAdded | PartDone | ThoughtDelta
    | ThoughtDone | SummaryAdded | SummaryDelta | SummaryDone | SummaryPartDone | TextDelta | TextDone | ArgumentsDelta
    | ArgumentsDone | InputDelta | InputDone | McpListToolsInProgress | McpListToolsCompleted | McpListToolsFailed
    | McpCallInProgress | McpArgumentsDelta | McpArgumentsDone | McpCallCompleted | McpCallFailed | ErrorEvent
)  # fmt: skip


encode = sse.typed
"""There is no `[DONE]`: the last event's type marks the end."""
