"""Converts items to messages: consecutive thoughts, texts and calls form one assistant turn.

A thought begins a turn. So does a text if the turn already has one, unless calls are between them: then it belongs to
the same answer. Pure. Knows nothing of how clients write items, or of templates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

import msgspec

from localllm.server.apis.responses.client_tools import ApplyPatchCall, ClientCall, arguments_of, kind_of
from localllm.server.apis.responses.inputs import UNREADABLE_SUMMARY, custom_arguments
from localllm.server.apis.responses.items import (
    AdditionalTools,
    AnyItem,
    CallItem,
    CallOutput,
    CompactionItem,
    CustomCallItem,
    CustomCallOutput,
    InputPart,
    InputText,
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    McpListTools,
    MessageItem,
    OutputText,
    ThoughtItem,
)
from localllm.server.requests.values import message_of
from localllm.types import Media, Message, ToolCall

_OWN = ThoughtItem | CallItem | CustomCallItem | ClientCall | McpCall | McpApprovalResponse
"""Items of an assistant's turn, besides its messages."""

_SUMMARY = "This is a summary of our earlier conversation, which you continue:"

Naming = Callable[[str | None, str], str]
"""The function name of a tool with or without a namespace."""


class _Turn:
    """An assistant turn being assembled."""

    def __init__(self) -> None:
        self.thoughts: list[str] = []
        self.texts: list[str] = []
        self.parts: tuple[str | Media, ...] = ()
        self.calls: list[ToolCall] = []
        self.ends_with_call = False
        self.results: list[Message] = []
        """Results of calls made by this server."""
        self.group: str | None = None
        """The group of these calls: those of one answer belong to one turn."""

    def takes_thought(self) -> bool:
        return not self.texts and not self.calls

    def takes_text(self) -> bool:
        return not self.texts or self.ends_with_call

    def messages(self) -> list[Message]:
        """The turn as messages; empty if it has only thoughts."""
        if not self.texts and not self.calls:
            return []
        own = Message(
            "assistant",
            "".join(self.texts),
            parts=self.parts if len(self.texts) == 1 else (),
            thought="\n\n".join(filter(None, self.thoughts)),
            tool_calls=tuple(self.calls),
        )
        return [own, *self.results]

    def add_call(self, call: ToolCall) -> None:
        self.calls.append(call)
        self.ends_with_call = True

    def add_made_call(self, item: McpCall | McpApprovalRequest, name: str, result: str | Sequence[InputPart]) -> None:
        self.add_call(ToolCall(name, item.arguments, item.id))
        self.results.append(_result(result, item.id, name))


def to_messages(items: Iterable[AnyItem], naming: Naming) -> list[Message]:
    """The messages of a conversation."""
    messages: list[Message] = []
    names: dict[str, str] = {}
    requests: dict[str, McpApprovalRequest] = {}
    turn = _Turn()
    for item in items:
        if isinstance(item, McpListTools | McpApprovalRequest):  # not shown to the model; a call is, once it is made
            if isinstance(item, McpApprovalRequest):
                requests[item.id] = item
            continue
        if isinstance(item, McpApprovalResponse) and (item.approve or item.approval_request_id not in requests):
            continue
        is_own = isinstance(item, _OWN) or (isinstance(item, MessageItem) and item.role == "assistant")
        if not is_own or not _fits(turn, item):
            messages += turn.messages()
            turn = _Turn()
        if isinstance(item, AdditionalTools):
            continue
        if isinstance(item, McpCall):
            turn.add_made_call(item, naming(item.server_label, item.name), item.result)
            turn.group = item.group
            continue
        if isinstance(item, McpApprovalResponse):
            asked = requests[item.approval_request_id]
            turn.add_made_call(asked, naming(asked.server_label, asked.name), _refusal(item))
            continue
        if isinstance(item, ThoughtItem):
            turn.thoughts.append(item.text)
        elif isinstance(item, CallItem | CustomCallItem):
            name = naming(item.namespace or None, item.name)
            arguments = item.arguments if isinstance(item, CallItem) else custom_arguments(item.input)
            turn.add_call(ToolCall(name, arguments, item.call_id))
            names[item.call_id] = name
        elif isinstance(item, ClientCall):
            name = names[item.call_id] = kind_of(item)
            what = item.operation if isinstance(item, ApplyPatchCall) else item.action
            turn.add_call(ToolCall(name, arguments_of(name, json.dumps(what, ensure_ascii=False)), item.call_id))
        elif isinstance(item, CompactionItem):
            messages.append(Message("user", f"{_SUMMARY}\n\n{item.text}" if item.text else f"[{UNREADABLE_SUMMARY}]"))
        elif isinstance(item, CallOutput | CustomCallOutput):
            messages.append(_result(item.output, item.call_id, names.get(item.call_id, "")))
        else:
            own = message_of(item.role, [*map(_part, item.content)])
            if is_own:
                turn.texts.append(own.content)
                turn.parts, turn.ends_with_call = own.parts, False
            else:
                messages.append(own)
    return messages + turn.messages()


def _fits(turn: _Turn, item: AnyItem) -> bool:
    if isinstance(item, ThoughtItem):
        return turn.takes_thought()
    if turn.results:  # further calls of the same answer
        return isinstance(item, McpApprovalResponse) or (isinstance(item, McpCall) and item.group == turn.group)
    return turn.takes_text() if isinstance(item, MessageItem) else True


def _refusal(item: McpApprovalResponse) -> str:
    return "The user did not allow this call." + (f" {item.reason}" if item.reason else "")


def _part(part: InputPart | OutputText) -> str | Media:
    return part.text if isinstance(part, InputText | OutputText) else part.media


def _result(output: str | Sequence[InputPart], call_id: str, name: str) -> Message:
    parts = [output] if isinstance(output, str) else [*map(_part, output)]
    return msgspec.structs.replace(message_of("tool", parts), tool_call_id=call_id, name=name)
