"""The system prompt and the messages of a request, as clients write them, and their conversion to a `Conversation`.

Images and documents are refused by name. Knows nothing of templates or replies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType

from localllm.errors import InvalidParameter
from localllm.server.requests.call_ids import with_ids
from localllm.server.requests.field_rules import Fates, Nested, RefusedField
from localllm.server.requests.values import ObjectField, json_of, message_of, needed, wrong_content
from localllm.types import Message, ToolCall

_BILLING = re.compile(r"\Ax-anthropic-billing-header:[^\n]*\n*")
"""First line of Claude Code's system prompt. It contains a checksum of the request, so it would keep prompts from
sharing a cached prefix; it means nothing to a model.
"""
_ERROR_WITHIN = 40
"""How many characters of a failed call's result are searched for the word "error" before it is added."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A text block; other types are refused by name."""

    fates: ClassVar[Fates] = Fates(
        dict.fromkeys(("source", "transformations"), RefusedField("images are not supported yet"))
        | dict.fromkeys(("context", "title"), RefusedField("documents are not supported; send their text")),
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


class ContentBlock(Block, frozen=True, kw_only=True):
    """A text, thought, call or result block."""

    thinking: str | None = None
    id: str | None = None
    """Set for calls."""
    name: str | None = None
    input: ObjectField | UnsetType = UNSET
    tool_use_id: str | None = None
    """For results: the id of the call."""
    content: str | list[Block] | None = None
    """Set for results."""
    is_error: bool | None = None


class InputMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message. A system message may appear anywhere."""

    fates: ClassVar[Fates] = Fates(ignored={"output_config": "the request's applies to every turn"})
    nested: ClassVar[Nested] = ("content",)

    role: Literal["user", "assistant", "system"]
    content: str | list[ContentBlock]
    clear_at: Literal["next_user_message", "never"] | None = None
    """System messages only: whether the next user message ends its effect."""


def to_messages(system: str | list[Block] | None, said: Sequence[InputMessage]) -> tuple[Message, ...]:
    """A whole conversation. Raises `InvalidParameter`, `UnsupportedParameter`."""
    if not said:
        raise InvalidParameter("messages: at least one message is required", param="messages")
    messages = [*_system(system)]
    last = max((index for index, message in enumerate(said) if message.role == "user"), default=-1)
    for index, message in enumerate(said):
        if message.clear_at != "next_user_message" or index > last:
            messages += _turn(message, f"messages[{index}]")
    if not any(message.role != "system" for message in messages):
        raise InvalidParameter("messages: at least one user message is required", param="messages")
    return with_ids(messages)


def _system(system: str | list[Block] | None) -> Iterator[Message]:
    texts = [system or ""] if not isinstance(system, list) else _texts(system, "system")
    kept = [*filter(None, (_BILLING.sub("", text) for text in texts))]
    if kept:
        yield message_of("system", kept)


def _turn(message: InputMessage, path: str) -> Iterator[Message]:
    if isinstance(message.content, str):
        yield Message(message.role, message.content)
    elif message.role == "assistant":
        yield _answer(message.content, f"{path}.content")
    else:
        yield from _block_messages(message.role, message.content, f"{path}.content")


def _block_messages(role: str, blocks: Sequence[ContentBlock], path: str) -> Iterator[Message]:
    """Results and texts in order: one message per result; consecutive texts are joined."""
    texts: list[str] = []
    for index, block in enumerate(blocks):
        where = f"{path}[{index}]"
        if block.type != "tool_result":
            texts.append(_text(block, where))
            continue
        if texts:
            yield message_of(role, texts)
            texts = []
        yield _result(block, where)
    if texts or not blocks:
        yield message_of(role, texts)


def _answer(blocks: Sequence[ContentBlock], path: str) -> Message:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    for index, block in enumerate(blocks):
        where = f"{path}[{index}]"
        if block.type == "thinking":
            thoughts.append(block.thinking or "")
        elif block.type == "tool_use":
            calls.append(_call(block, where))
        elif block.type != "redacted_thinking":  # another vendor's encrypted thought
            texts.append(_text(block, where))
    return msgspec.structs.replace(
        message_of("assistant", texts), thought="\n\n".join(filter(None, thoughts)), tool_calls=tuple(calls)
    )


def _call(block: ContentBlock, path: str) -> ToolCall:
    return ToolCall(needed(block.name, f"{path}.name"), json_of(block.input) or "{}", block.id or "")


def _result(block: ContentBlock, path: str) -> Message:
    call_id, content = needed(block.tool_use_id, f"{path}.tool_use_id"), block.content
    texts = _texts(content, f"{path}.content") if isinstance(content, list) else [content or ""]
    first = texts[0] if texts else ""
    if block.is_error and "error" not in first[:_ERROR_WITHIN].lower():
        texts = [f"Error: {first}".rstrip(), *texts[1:]]
    return msgspec.structs.replace(message_of("tool", texts), tool_call_id=call_id)


def _texts(blocks: Sequence[Block], path: str) -> list[str]:
    return [_text(block, f"{path}[{index}]") for index, block in enumerate(blocks)]


def _text(block: Block, path: str) -> str:
    if block.type != "text":
        raise wrong_content(block.type, path)
    return needed(block.text, f"{path}.text")
