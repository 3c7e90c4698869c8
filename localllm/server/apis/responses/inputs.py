"""The field `input`, as clients write it, converted to the items of a conversation.

Accepts what agents send back: outputs of unknown calls, items of unknown tools, and contents that no model reads,
except in the turn to answer. Warnings report what the model does not see. Whether it reads pictures is decided where it
runs. Raises `RequestError`s that name the field at fault. Knows nothing of templates or the store.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from localllm.chat.media_files import MediaReading
from localllm.chat.unreadable import first_refused, stand_in
from localllm.errors import InvalidParameter, UnsupportedParameter, clipped
from localllm.server.apis.responses.client_tools import arguments_of
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
    ListedTool,
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    McpListTools,
    MessageItem,
    OutputText,
    ReasoningText,
    ThoughtItem,
    call_error,
    new_call_id,
    new_id,
    unsealed,
)
from localllm.server.apis.responses.media import MediaPart, part_of
from localllm.server.apis.responses.outputs import output_of, texts_of
from localllm.server.apis.responses.tools import ResponseTool
from localllm.server.requests.content_parts import ChatPart, ContentPart, media_or_note
from localllm.server.requests.field_rules import Fates
from localllm.server.requests.parse import Fields, decoded, small
from localllm.server.requests.values import json_or_text, missing, needed, wrong_content

ROLES = ("system", "developer", "user", "assistant")
_TEXT_PARTS = ("input_text", "output_text", "text", "refusal")

_SHELLS = {
    "local_shell_call": "local_shell",
    "shell_call": "shell",
    "apply_patch_call": "apply_patch",
    "computer_call": "computer",
}
"""Items that are calls of tools with a fixed name."""
_COMPACTIONS = ("compaction", "compaction_summary", "context_compaction")
"""The item and Codex's names for it."""
UNREADABLE_SUMMARY = "summary of the earlier conversation omitted: only the vendor that made it can read it"
_OUTPUTS = {
    "function_call_output", "local_shell_call_output", "shell_call_output", "apply_patch_call_output",
    "computer_call_output",
}  # fmt: skip

_MESSAGE_FIELDS = frozenset({"type", "role", "content", "id", "status", "phase"})

_AnyJson = Annotated[Raw, Meta(extra_json_schema={"type": ["string", "object", "array", "null"]})]


class InputItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item as sent: a message, with or without its type, a call, its output, or a thought."""

    fates: ClassVar[Fates] = Fates(
        ignored=dict.fromkeys(("async", "caller", "phase", "status"), "items are identified by their other fields")
    )

    type: str | None = None
    id: str | None = None
    role: str | None = None
    content: str | list[ChatPart] | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: _AnyJson | UnsetType = UNSET
    """A string with JSON; some clients send the object itself."""
    input: str | None = None
    """For calls of custom tools."""
    output: _AnyJson | UnsetType = UNSET
    action: _AnyJson | UnsetType = UNSET
    operation: _AnyJson | UnsetType = UNSET
    encrypted_content: str | None = None
    summary: list[ContentPart] | None = None
    tools: _AnyJson | UnsetType = UNSET
    """For `additional_tools`, and an MCP server's list."""
    server_label: str | None = None
    error: _AnyJson | UnsetType = UNSET
    """For calls of MCP tools."""
    approval_request_id: str | None = None
    approve: bool | None = None
    reason: str | None = None
    result: _AnyJson | UnsetType = UNSET
    """Of a picture that another model drew: base64."""

    @classmethod
    def known_in(cls, given: Fields) -> frozenset[str] | None:
        """The fields of a message; other items may have any."""
        return _MESSAGE_FIELDS if small(given.get("type")) in (None, "message") else None


class ParsedInput(NamedTuple):
    """The parsed input."""

    items: list[AnyItem]
    notes: list[str]
    """Warnings about changes."""
    ignored: list[str]
    """Omitted items, such as those of hosted tools: path and type of each."""
    reading: MediaReading
    """Its pictures and sounds."""


Finder = Callable[[str], AnyItem | None]
"""Finds an item of an earlier response by id."""


def taken(given: str | Sequence[InputItem] | None, earlier: Sequence[AnyItem], find: Finder) -> ParsedInput:
    """The field `input`; a text is a user message. `earlier`: the conversation it continues.

    Repeated references to an item have no effect: thousands of them would multiply the prompt.
    Raises `InvalidParameter`, `UnsupportedParameter`.
    """
    if isinstance(given, str):
        given = [InputItem(role="user", content=given)]
    result = ParsedInput([], [], [], MediaReading())
    there = {item.id for item in earlier}
    first = first_refused([_role(item) for item in given or ()])
    for index, item in enumerate(given or ()):
        path = f"input[{index}]"
        if item.type == "item_reference":
            if item.id not in there:
                result.items.append(found := _found(item, path, find))
                there.add(found.id)
        elif item.type in (None, "message"):
            result.items.append(_message(item, path, result, refuses=index >= first))
        elif (made := _item(item, path, result)) is not None:
            result.items.append(made)
        elif index >= first:
            kind = clipped(item.type or "")
            raise UnsupportedParameter(f"{path}: items of type {kind!r} are not supported", param=f"{path}.type")
        else:
            result.ignored.append(f"{path}:{clipped(item.type or '')}")
    return result


def _role(item: InputItem) -> str:
    """The role of the message in which the model sees this item."""
    if item.type in (None, "message"):
        return item.role or ""
    if item.type in _OUTPUTS or item.type in ("custom_tool_call_output", "mcp_approval_response"):
        return "tool"
    return "developer" if item.type == "additional_tools" else item.role or "assistant"


def _found(item: InputItem, path: str, find: Finder) -> AnyItem:
    found = find(needed(item.id, f"{path}.id"))
    if found is None:
        raise InvalidParameter(
            f"{path}.id: no stored response has the item {clipped(item.id or '')!r}; send the item itself",
            param=f"{path}.id",
        )
    return found


def _item(item: InputItem, path: str, result: ParsedInput) -> AnyItem | None:
    """None: it is not shown to the model."""
    if item.type == "reasoning":
        texts = _thoughts(item)
        is_unreadable = not texts and item.encrypted_content  # by another vendor
        return None if is_unreadable else ThoughtItem(id=new_id("rs"), content=[*map(ReasoningText, texts)])
    if item.type == "function_call":
        return CallItem(
            id=new_id("fc"),
            call_id=item.call_id or new_call_id(),
            name=needed(item.name, f"{path}.name"),
            arguments=json_or_text(item.arguments, f"{path}.arguments") or "{}",
            namespace=item.namespace or UNSET,
        )
    if item.type == "custom_tool_call":
        return CustomCallItem(
            id=new_id("ctc"),
            call_id=item.call_id or new_call_id(),
            name=needed(item.name, f"{path}.name"),
            input=item.input or "",
            namespace=item.namespace or UNSET,
        )
    if item.type in _SHELLS:
        what, name = item.operation if item.type == "apply_patch_call" else item.action, _SHELLS[item.type]
        return CallItem(
            id=new_id("fc"),
            call_id=item.call_id or item.id or new_call_id(),
            name=name,
            arguments=arguments_of(name, json_or_text(what, path)),
        )
    if item.type in _OUTPUTS:
        output = output_of(item.output, f"{path}.output", result.notes, result.reading)
        return CallOutput(id=new_id("fco"), call_id=item.call_id or item.id or "", output=output)
    if item.type == "custom_tool_call_output":
        output = output_of(item.output, f"{path}.output", result.notes, result.reading)
        return CustomCallOutput(id=new_id("ctco"), call_id=item.call_id or "", output=output)
    if item.type == "image_generation_call":
        return _drawn(item, path, result)
    if item.type in _COMPACTIONS:
        made = CompactionItem(id=new_id("cmp"), encrypted_content=item.encrypted_content or "")
        if not made.text:
            result.notes.append(f"{path}: {UNREADABLE_SUMMARY}")
        return made
    if item.type == "compaction_trigger":
        raise UnsupportedParameter(
            f"{path}: answers do not compact; POST the conversation to /v1/responses/compact", param=f"{path}.type"
        )
    if item.type == "additional_tools":
        return AdditionalTools(id=new_id("at"), tools=_typed(item.tools, list[ResponseTool] | None, path) or [])
    if item.type is not None and item.type.startswith("mcp_"):
        return _mcp_item(item, path, result)
    return None


def _drawn(item: InputItem, path: str, result: ParsedInput) -> MessageItem | None:
    """A picture that another vendor's model drew in its turn."""
    if isinstance(item.result, UnsetType) or not bytes(item.result).startswith(b'"'):
        return None
    given = _typed(item.result, str, path)
    part = ChatPart(type="output_image", image_url=given)
    made = _media(part, f"{path}.result", result, refuses=False)
    return MessageItem(
        id=new_id("msg"), role="assistant", content=[OutputText(made) if isinstance(made, str) else made]
    )


def _mcp_item(item: InputItem, path: str, result: ParsedInput) -> AnyItem | None:
    """Items about MCP tools. Ids are kept, since an approval refers to one."""
    kind, id = item.type, item.id or new_id("mcp")
    if kind == "mcp_approval_response":
        approve = needed(item.approve, f"{path}.approve")
        asked = needed(item.approval_request_id, f"{path}.approval_request_id")
        return McpApprovalResponse(id=id, approval_request_id=asked, approve=approve, reason=item.reason)
    if kind not in ("mcp_list_tools", "mcp_approval_request", "mcp_call"):
        return None
    label = needed(item.server_label, f"{path}.server_label")
    if kind == "mcp_list_tools":
        tools = _typed(item.tools, list[ListedTool] | None, path) or []
        return McpListTools(id=id, server_label=label, tools=tools, error=json_or_text(item.error, path) or None)
    name = needed(item.name, f"{path}.name")
    arguments = json_or_text(item.arguments, f"{path}.arguments") or "{}"
    if kind == "mcp_approval_request":
        return McpApprovalRequest(id=id, server_label=label, name=name, arguments=arguments)
    error = json_or_text(item.error, f"{path}.error")
    output = output_of(item.output, f"{path}.output", result.notes, result.reading)
    parts: list[InputPart] = [] if isinstance(output, str) else output
    return McpCall(
        id=id,
        server_label=label,
        name=name,
        arguments=arguments,
        approval_request_id=item.approval_request_id,
        output=output if isinstance(output, str) else texts_of(parts),
        content=parts or UNSET,
        error=call_error(error) if error else None,
        status="failed" if error else "completed",
    )


def _typed(given: Raw | UnsetType, kind: Any, path: str) -> Any:
    if isinstance(given, UnsetType):
        return None
    try:
        return decoded(given, kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidParameter(f"{path}.tools: {error}", param=f"{path}.tools") from error


def _message(item: InputItem, path: str, result: ParsedInput, *, refuses: bool) -> MessageItem:
    role = needed(item.role, f"{path}.role")
    content = item.content
    if content is None:
        raise missing(f"{path}.content")
    if role not in ROLES:
        known, given = ", ".join(ROLES), clipped(role)
        raise InvalidParameter(f"{path}.role must be one of {known}, got {given!r}", param=f"{path}.role")
    given_parts = [ChatPart(type="text", text=content)] if isinstance(content, str) else content
    is_own = role == "assistant"
    parts = _parts(given_parts, f"{path}.content", result, refuses=refuses)
    made = [(OutputText if is_own else InputText)(part) if isinstance(part, str) else part for part in parts]
    return MessageItem(id=new_id("msg"), role=role, content=made)


def _parts(parts: Sequence[ChatPart], path: str, result: ParsedInput, *, refuses: bool) -> list[str | MediaPart]:
    texts: list[str | MediaPart] = []
    for index, part in enumerate(parts):
        where = f"{path}[{index}]"
        if part.type in _TEXT_PARTS:
            name = "refusal" if part.type == "refusal" else "text"
            texts.append(needed(getattr(part, name), f"{where}.{name}"))
        elif part.is_media:
            texts.append(_media(part, where, result, refuses=refuses))
        elif (said := part.resource_text) is not None:
            texts.append(said)
        elif refuses:
            raise wrong_content(part.type, where)
        else:
            texts.append(stand_in(part.type, where, result.notes) if part.text is None else part.text)
    return texts


def _thoughts(item: InputItem) -> list[str]:
    """The thought's text, sealed content or summary, whichever the client sends back."""
    if isinstance(item.content, str):
        return [item.content]
    texts = [part.text for part in item.content or () if part.text]
    sealed = unsealed(item.encrypted_content or "")
    return texts or ([sealed] if sealed else [part.text for part in item.summary or () if part.text])


def _media(part: ChatPart, path: str, result: ParsedInput, *, refuses: bool) -> str | MediaPart:
    made = media_or_note(part, path, result.notes, result.reading, refuses=refuses)
    return made if isinstance(made, str) else part_of(made)


def custom_arguments(input: str) -> str:
    """A custom tool's input as arguments of the function shown to the model."""
    return json.dumps({"input": input}, ensure_ascii=False)
