"""Conversations of the Python API: dicts in the format of OpenAI's chat API, or `Message` objects.

Knows nothing about rendering.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from localllm.errors import InvalidParameter, clipped
from localllm.types import Message, ToolCall

AnyMessage = Message | Mapping[str, Any]
Messages = Sequence[AnyMessage]

THOUGHTS = ("reasoning_content", "reasoning")
_KEYS = ("role", "content", "name", "tool_calls", "tool_call_id", *THOUGHTS)


def to_messages(messages: Messages) -> tuple[Message, ...]:
    """The conversation as `Message` objects. Raises `InvalidParameter`."""
    if isinstance(messages, str | bytes | Mapping | Message) or not isinstance(messages, Iterable):
        raise InvalidParameter(
            'messages must be a list like [{"role": "user", "content": "Hello"}]; complete() takes plain text',
            param="messages",
        )
    turns = tuple(_message(message, f"messages[{number}]") for number, message in enumerate(messages))
    if not turns:
        raise InvalidParameter("messages is empty; give at least one", param="messages")
    return turns


def _message(message: object, path: str) -> Message:
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
    calls = tuple(
        _call(call, f"{path}.tool_calls[{number}]") for number, call in enumerate(message.get("tool_calls") or ())
    )
    thought = next((text for name in THOUGHTS if (text := _text(message, name, path))), "")
    if calls and role != "assistant":
        raise InvalidParameter("only messages of the role assistant may have tool_calls", param=f"{path}.tool_calls")
    if not isinstance(content, str) and not (content is None and (calls or thought)):
        raise _incomplete(path)
    return Message(
        role,
        content or "",
        thought=thought,
        tool_calls=calls,
        tool_call_id=_text(message, "tool_call_id", path),
        name=_text(message, "name", path),
    )


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
