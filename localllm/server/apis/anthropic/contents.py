"""The system prompt and the messages of a request, as clients write them, and their conversion to a `Conversation`.

Images and documents that are no text are refused in the turn to answer; elsewhere a note stands for them. What tools
of other vendors did is shown as calls and results. Knows nothing of templates or replies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from localllm.chat.unreadable import drop, first_refused, stand_in, texts_in
from localllm.errors import InvalidParameter
from localllm.server.requests.call_ids import with_ids
from localllm.server.requests.field_rules import Fates, Nested, RefusedField
from localllm.server.requests.parse import decoded, decoding
from localllm.server.requests.values import json_of, message_of, needed, wrong_content
from localllm.types import Message, ToolCall
from localllm.types.conversation import Conversation

_BILLING = re.compile(r"\Ax-anthropic-billing-header:[^\n]*\n*")
"""First line of Claude Code's system prompt. It contains a checksum of the request, so it would keep prompts from
sharing a cached prefix; it means nothing to a model.
"""
_ERROR_WITHIN = 40
"""How many characters of a failed call's result are searched for the word "error" before it is added."""


_TEXT_FIELDS = ("title", "source", "context", "content", "tool_name")
"""Fields in which blocks other than `text` have theirs."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A block without calls: text, or what a note or its own texts stand for."""

    fates: ClassVar[Fates] = Fates(
        {"transformations": RefusedField("images are not supported yet")},
        {
            "cache_control": "common prefixes are always cached",
            "caller": "every call comes from the model itself",
            "citations": "only the text of earlier answers is used",
            "data": "another vendor's encrypted thought",
            "signature": "signatures of thoughts are not verified",
            "toolset_name": "calls are identified by their tool's name",
        },
    )

    type: str
    text: str | None = None
    source: Raw | UnsetType = UNSET
    """Of an image, a document or a search result. Texts are used; others are refused in the turn to answer."""
    title: Raw | UnsetType = UNSET
    context: Raw | UnsetType = UNSET
    tool_name: Raw | UnsetType = UNSET
    """Set for `tool_reference`."""
    content: Raw | UnsetType = UNSET
    """Set for results of tools and of searches: a text, blocks, or what a vendor's own tool returned."""

    def texts(self, path: str, notes: list[str], *, refuses: bool = False) -> list[str]:
        """Its texts, and stand-ins for the rest. `refuses`: what a model cannot read is an error.

        Raises `InvalidParameter`, `UnsupportedParameter`.
        """
        if self.type == "text":
            return [needed(self.text, f"{path}.text")]
        if self.text is not None and not refuses:
            return [self.text]
        fields = {name: _values(getattr(self, name), f"{path}.{name}") for name in _TEXT_FIELDS}
        inner: list[str] = []
        texts = [*texts_in({"type": self.type, **fields}, path, inner)]
        if refuses and (inner or not texts or self.type not in _WITH_TEXTS):
            raise wrong_content(self.type, path)
        notes += inner
        return texts or [stand_in(self.type, path, notes)]


_WITH_TEXTS = ("document", "search_result", "tool_reference")
"""Blocks that a user may send for their texts."""


class ContentBlock(Block, frozen=True, kw_only=True):
    """A text, thought, call or result block."""

    thinking: str | None = None
    id: str | None = None
    """Set for calls."""
    name: str | None = None
    input: Raw | UnsetType = UNSET
    """Of a call: an object."""
    tool_use_id: str | None = None
    """For results: the id of the call."""
    is_error: bool | None = None

    @property
    def is_call(self) -> bool:
        """Also of a tool that a vendor ran, whose result follows in the same message."""
        return self.type in ("tool_use", "server_tool_use", "mcp_tool_use")

    @property
    def is_result(self) -> bool:
        return self.type.endswith("tool_result")


class InputMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message. A system message may appear anywhere."""

    fates: ClassVar[Fates] = Fates(ignored={"output_config": "the request's applies to every turn"})
    nested: ClassVar[Nested] = ("content",)

    role: Literal["user", "assistant", "system"]
    content: str | list[ContentBlock]
    clear_at: Literal["next_user_message", "never"] | None = None
    """System messages only: whether the next user message ends its effect."""

    @property
    def has_results(self) -> bool:
        return not isinstance(self.content, str) and any(block.is_result for block in self.content)


def to_conversation(system: str | list[Block] | None, said: Sequence[InputMessage]) -> Conversation:
    """A whole conversation. Raises `InvalidParameter`, `UnsupportedParameter`."""
    if not said:
        raise InvalidParameter("messages: at least one message is required", param="messages")
    notes: list[str] = []
    messages = [*_system(system)]
    last = max((index for index, message in enumerate(said) if message.role == "user"), default=-1)
    first = first_refused(["tool" if message.has_results else message.role for message in said])
    for index, message in enumerate(said):
        if message.clear_at != "next_user_message" or index > last:
            messages += _turn(message, f"messages[{index}]", notes, refuses=index >= first)
    if not any(message.role != "system" for message in messages):
        raise InvalidParameter("messages: at least one user message is required", param="messages")
    return Conversation(with_ids(messages), tuple(notes))


def _system(system: str | list[Block] | None) -> Iterator[Message]:
    blocks = system if isinstance(system, list) else [Block(type="text", text=system or "")]
    texts = [text for index, block in enumerate(blocks) for text in block.texts(f"system[{index}]", [], refuses=True)]
    kept = [*filter(None, (_BILLING.sub("", text) for text in texts))]
    if kept:
        yield message_of("system", kept)


def _turn(message: InputMessage, path: str, notes: list[str], *, refuses: bool) -> Iterator[Message]:
    """Consecutive texts and calls are one message, and every result is one, in their order."""
    if isinstance(message.content, str):
        yield Message(message.role, message.content)
        return
    turn = _Turn(message.role)
    for index, block in enumerate(message.content):
        where = f"{path}.content[{index}]"
        if block.is_result:
            yield from turn.taken()
            yield _result(block, where, notes)
        elif message.role == "assistant":
            turn.add(block, where, notes)
        else:
            turn.texts += block.texts(where, notes, refuses=refuses)
    yield from turn.taken() if turn or message.content else [Message(message.role, "")]


class _Turn:
    """The part of a message since its last result."""

    def __init__(self, role: str) -> None:
        self._role = role
        self.texts: list[str] = []
        self.thoughts: list[str] = []
        self.calls: list[ToolCall] = []

    def __bool__(self) -> bool:
        return bool(self.texts or self.thoughts or self.calls)

    def add(self, block: ContentBlock, path: str, notes: list[str]) -> None:
        """A block of an assistant's message."""
        if block.type == "thinking":
            self.thoughts.append(block.thinking or "")
        elif block.is_call:
            arguments = json_of(block.input) or "{}"
            self.calls.append(ToolCall(needed(block.name, f"{path}.name"), arguments, block.id or ""))
        elif block.type == "redacted_thinking":
            self.thoughts.append("")
            drop(block.type, path, notes)
        else:
            self.texts += block.texts(path, notes)

    def taken(self) -> Iterator[Message]:
        """The message, if there is any."""
        if self:
            yield msgspec.structs.replace(
                message_of(self._role, self.texts),
                thought="\n\n".join(filter(None, self.thoughts)),
                tool_calls=tuple(self.calls),
            )
        self.texts, self.thoughts, self.calls = [], [], []


def _result(block: ContentBlock, path: str, notes: list[str]) -> Message:
    call_id = needed(block.tool_use_id, f"{path}.tool_use_id") if block.type == "tool_result" else block.tool_use_id
    texts = _result_texts(block, f"{path}.content", notes)
    first = texts[0] if texts else ""
    if block.is_error and "error" not in first[:_ERROR_WITHIN].lower():
        texts = [f"Error: {first}".rstrip(), *texts[1:]]
    return msgspec.structs.replace(message_of("tool", texts), tool_call_id=call_id or "")


def _result_texts(block: ContentBlock, path: str, notes: list[str]) -> list[str]:
    given = json_of(block.content)
    if block.type not in ("tool_result", "mcp_tool_result") or not given:
        return [*texts_in(_values(block.content, path), path, notes)]
    with decoding(path):
        content = decoded(given.encode(), str | list[Block])
    if isinstance(content, str):
        return [content]
    return [text for index, part in enumerate(content) for text in part.texts(f"{path}[{index}]", notes)]


def _values(given: Raw | UnsetType, path: str) -> Any:
    with decoding(path):
        return msgspec.json.decode(json_of(given) or "null")
