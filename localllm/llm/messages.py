"""Conversations of the Python API: dicts in the format of OpenAI's chat API, or `Message` objects.

A note stands for pictures and sounds, except in the turn to answer.

Knows nothing about rendering.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from localllm.chat.surrogates import REPLACED, whole_struct
from localllm.chat.unreadable import first_refused, stand_in
from localllm.errors import InvalidParameter, clipped
from localllm.types import Message, ToolCall
from localllm.types.conversation import Conversation

AnyMessage = Message | Mapping[str, Any]
Messages = Sequence[AnyMessage]

THOUGHTS = ("reasoning_content", "reasoning")
_KEYS = ("role", "content", "name", "tool_calls", "tool_call_id", *THOUGHTS)


def to_conversation(messages: Messages) -> Conversation:
    """The conversation as `Message` objects. Raises `InvalidParameter`."""
    if isinstance(messages, str | bytes | Mapping | Message) or not isinstance(messages, Iterable):
        raise InvalidParameter(
            'messages must be a list like [{"role": "user", "content": "Hello"}]; complete() takes plain text',
            param="messages",
        )
    given, notes = tuple(messages), list[str]()
    first = first_refused([*map(_role, given)])
    turns = tuple(
        _whole(_message(message, path, notes, refuses=number >= first), path, notes)
        for number, message in enumerate(given)
        for path in [f"messages[{number}]"]
    )
    if not turns:
        raise InvalidParameter("messages is empty; give at least one", param="messages")
    return Conversation(turns, tuple(notes))


def _whole(message: Message, path: str, notes: list[str]) -> Message:
    whole = whole_struct(message)
    if whole is not message:
        notes.append(f"{path}: {REPLACED}")
    return whole


def _role(message: object) -> str:
    role = message.get("role") if isinstance(message, Mapping) else getattr(message, "role", "")
    return role if isinstance(role, str) else ""


def _message(message: object, path: str, notes: list[str], *, refuses: bool) -> Message:
    if isinstance(message, Message):
        try:
            return msgspec.convert(msgspec.to_builtins(message), Message)
        except (msgspec.ValidationError, TypeError):
            raise _incomplete(path) from None
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise _incomplete(path)
    for key, value in message.items():
        if key not in _KEYS and value is not None:
            known = ", ".join(_KEYS)
            raise InvalidParameter(f"{clipped(repr(key))} is not a key of a message; known: {known}", param=path)
    role, content = message["role"], message.get("content")
    parts: tuple[str, ...] = ()
    calls = tuple(
        _call(call, f"{path}.tool_calls[{number}]") for number, call in enumerate(message.get("tool_calls") or ())
    )
    thought = next((text for name in THOUGHTS if (text := _text(message, name, path))), "")
    if calls and role != "assistant":
        raise InvalidParameter("only messages of the role assistant may have tool_calls", param=f"{path}.tool_calls")
    if isinstance(content, Sequence) and not isinstance(content, str | bytes):
        texts = [
            _part(part, f"{path}.content[{number}]", notes, refuses=refuses) for number, part in enumerate(content)
        ]
        content, parts = "\n".join(texts), tuple(texts) if len(texts) > 1 else ()
    if not isinstance(content, str) and not (content is None and (calls or thought)):
        raise _incomplete(path)
    return Message(
        role,
        content or "",
        parts=parts,
        thought=thought,
        tool_calls=calls,
        tool_call_id=_text(message, "tool_call_id", path),
        name=_text(message, "name", path),
    )


def _part(part: object, path: str, notes: list[str], *, refuses: bool) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping) or not isinstance(kind, str):
        raise InvalidParameter('a part of a content is a dict such as {"type": "text", "text": ...}', param=path)
    text = part.get("text")
    if isinstance(text, str) and (kind == "text" or not refuses):
        return text
    if kind == "text" or refuses:
        raise InvalidParameter(
            "a part of type text needs a text"
            if kind == "text"
            else f"content of type {clipped(kind)!r} is not supported",
            param=path,
        )
    return stand_in(kind, path, notes)


def _call(call: object, path: str) -> ToolCall:
    if isinstance(call, ToolCall):
        return call
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise InvalidParameter(
            'a call is a ToolCall, or {"id": ..., "type": "function", "function": {"name": ..., "arguments": ...}}',
            param=path,
        )
    arguments = function.get("arguments", "{}")
    if not isinstance(arguments, str):
        try:
            arguments = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidParameter(
                f"the arguments cannot be written as JSON: {error}", param=f"{path}.function"
            ) from error
    return ToolCall(function["name"], arguments or "{}", _text(call, "id", path))


def _text(given: Mapping[str, Any], name: str, path: str) -> str:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidParameter(f"{name} must be a string, got {clipped(repr(value))}", param=f"{path}.{name}")
    return value or ""


def _incomplete(path: str) -> InvalidParameter:
    return InvalidParameter("each message needs role and content, both strings", param=path)
