"""The items of a conversation as they are generated, sent, stored and listed.

Knows nothing of how clients write theirs, of requests, answers or the store.
"""

from __future__ import annotations

import base64
import re
import secrets
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from localllm.server.answers.logprobs import ChatLogprob
from localllm.server.apis.responses.client_tools import ApplyPatchCall, LocalShellCall, ShellCall
from localllm.server.apis.responses.tools import ResponseTool
from localllm.types import ImageDetail, Media

ItemStatus = Literal["in_progress", "completed", "incomplete"]

_SEALED = "localllm.1."
"""Prefix of thoughts in `encrypted_content`. Not encrypted: thoughts on one's own machine need no secrecy."""


_RESPONSE_ID = re.compile(r"resp_([A-Za-z0-9.-]{1,64})_[0-9a-f]{48}")
GROUP_CHARS = len("mcp_") + 16


class InputText(msgspec.Struct, frozen=True, tag_field="type", tag="input_text"):
    text: str


NO_MEDIA = Media(kind="image", digest="", num_bytes=0)
"""In what clients see."""


class InputImage(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="input_image", omit_defaults=True):
    """A picture. Here and in the store, its bytes are a file besides; clients see them in `image_url`."""

    image_url: str | None = None
    detail: ImageDetail
    media: Media = NO_MEDIA


class AudioData(msgspec.Struct, frozen=True):
    """A sound as clients send it."""

    data: str
    format: str


class InputAudio(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="input_audio", omit_defaults=True):
    """A sound."""

    input_audio: AudioData | None = None
    media: Media = NO_MEDIA


class InputFile(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="input_file", omit_defaults=True):
    """A document, kept as pictures are; clients see its bytes in `file_data`."""

    filename: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    media: Media = NO_MEDIA


InputPart = InputText | InputImage | InputAudio | InputFile


class OutputText(msgspec.Struct, frozen=True, tag_field="type", tag="output_text"):
    text: str
    annotations: list[Any] = []
    logprobs: list[ChatLogprob] = []


class ReasoningText(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning_text"):
    text: str


class SummaryText(msgspec.Struct, frozen=True, tag_field="type", tag="summary_text"):
    text: str


class ThoughtItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="reasoning"):
    """The thought before the following items."""

    id: str
    summary: list[SummaryText] = []
    """The thought itself, if a summary was requested: many clients show only that."""
    content: list[ReasoningText]
    encrypted_content: str | UnsetType = UNSET
    """The thought once more, for clients that send back only this field."""
    status: ItemStatus = "completed"

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.content)

    def as_kept(self) -> ThoughtItem:
        """Without duplicates, to store for the next turn."""
        return msgspec.structs.replace(self, encrypted_content=UNSET, summary=[])


class MessageItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    """A message of the user or the assistant."""

    id: str
    role: str
    status: ItemStatus = "completed"
    content: list[InputPart | OutputText]

    def as_kept(self) -> MessageItem:
        """Without log-probabilities, to store for the next turn: every turn would store them again."""
        parts = [
            msgspec.structs.replace(part, logprobs=[]) if isinstance(part, OutputText) else part
            for part in self.content
        ]
        return msgspec.structs.replace(self, content=parts)


class CallItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="function_call"):
    """A call of a function."""

    id: str
    call_id: str
    name: str
    arguments: str
    """JSON."""
    namespace: str | UnsetType = UNSET
    status: ItemStatus = "completed"


class CustomCallItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="custom_tool_call"):
    """A call of a custom tool."""

    id: str
    call_id: str
    name: str
    input: str
    namespace: str | UnsetType = UNSET
    status: ItemStatus = "completed"


class CallOutput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="function_call_output"):
    """A function's result."""

    id: str
    call_id: str
    output: str | list[InputPart]
    status: ItemStatus = "completed"


class CustomCallOutput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="custom_tool_call_output"):
    """A custom tool's result."""

    id: str
    call_id: str
    output: str | list[InputPart]
    status: ItemStatus = "completed"


class CompactionItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="compaction"):
    """A summary of everything before it, by `/v1/responses/compact`."""

    id: str
    encrypted_content: str

    @property
    def text(self) -> str:
        """The summary; empty if it is another vendor's."""
        return unsealed(self.encrypted_content)


class AdditionalTools(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="additional_tools"):
    """Tools in addition to the request's."""

    id: str
    role: Literal["developer"] = "developer"
    tools: list[ResponseTool]


class ListedTool(msgspec.Struct, frozen=True):
    """A tool of an MCP server."""

    name: str
    description: str | None = None
    input_schema: dict[str, Any] = {}
    annotations: dict[str, Any] | None = None


class McpListTools(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="mcp_list_tools"):
    """An MCP server's tools, or why they are not known."""

    id: str
    server_label: str
    tools: list[ListedTool] = []
    error: str | None = None


class McpCall(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="mcp_call"):
    """A call of an MCP tool, made by this server, and its result.

    Calls of one answer share the first `GROUP_CHARS` of their ids, since they are one turn of the conversation.
    """

    id: str
    server_label: str
    name: str
    arguments: str
    approval_request_id: str | None = None
    output: str | None = None
    content: list[InputPart] | UnsetType = UNSET
    """The parts of an output with pictures, sounds or documents; `output` has its texts."""
    error: dict[str, Any] | None = None
    status: Literal["in_progress", "completed", "incomplete", "failed"] = "in_progress"

    @property
    def group(self) -> str:
        return self.id[:GROUP_CHARS]

    @property
    def result(self) -> str | list[InputPart]:
        """The result as shown to the model."""
        if self.error is None:
            return self.content or self.output or ""
        content = self.error.get("content")
        texts = [str(part.get("text", "")) for part in content if isinstance(part, dict)] if content else []
        return f"Error: {' '.join(texts) or self.error.get('message', 'the call failed')}"


class McpApprovalRequest(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="mcp_approval_request"):
    """A call that needs approval."""

    id: str
    server_label: str
    name: str
    arguments: str


class McpApprovalResponse(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="mcp_approval_response"):
    """Whether it is approved."""

    id: str
    approval_request_id: str
    approve: bool
    reason: str | None = None


OutputItem = (
    ThoughtItem | MessageItem | CallItem | CustomCallItem | LocalShellCall | ShellCall | ApplyPatchCall
    | McpListTools | McpCall | McpApprovalRequest
)  # fmt: skip
"""Items of an answer."""
AnyItem = (
    ThoughtItem | MessageItem | CallItem | CustomCallItem | LocalShellCall | ShellCall | ApplyPatchCall
    | CallOutput | CustomCallOutput | CompactionItem | AdditionalTools
    | McpListTools | McpCall | McpApprovalRequest | McpApprovalResponse
)  # fmt: skip
"""Items of a conversation."""


def response_id(server: str) -> str:
    """A new response's id, which names the server that stores it, if it has a name."""
    return new_id(f"resp_{server}" if server else "resp")


def server_in(response_id: str) -> str | None:
    """The server that the id names."""
    found = _RESPONSE_ID.fullmatch(response_id)
    return None if found is None else found[1]


def new_id(prefix: str) -> str:
    """Unguessable, since knowing a response's id allows reading it."""
    return f"{prefix}_{secrets.token_hex(24)}"


def call_error(text: str) -> dict[str, Any]:
    """The error of a failed tool call, in OpenAI's format."""
    return {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]}


def new_call_id() -> str:
    """An id for calls whose format has none."""
    return f"call_{secrets.token_hex(12)}"


def sealed(thought: str) -> str:
    """A thought as `encrypted_content`."""
    return _SEALED + base64.b64encode(thought.encode("utf-8", "replace")).decode()


def unsealed(content: str) -> str:
    """The thought in our own `encrypted_content`; empty for that of others."""
    if not content.startswith(_SEALED):
        return ""
    try:
        return base64.b64decode(content.removeprefix(_SEALED), validate=True).decode()
    except ValueError:  # not ASCII, Base64 or UTF-8
        return ""
