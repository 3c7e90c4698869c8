"""Encodes messages in the format of the chat API. Knows nothing about connections."""

from __future__ import annotations

from typing import Any

from localllm.types import Message, ToolCall


def to_json_values(message: Message) -> dict[str, Any]:
    """A message as JSON values; calls, thought and parts only if it has any."""
    content: Any = message.content
    if len(message.parts) > 1:
        content = [{"type": "text", "text": text} for text in message.parts]
    calls = [_call(call) for call in message.tool_calls]
    more = {
        "reasoning_content": message.thought,
        "tool_calls": calls,
        "tool_call_id": message.tool_call_id,
        "name": message.name,
    }
    return {"role": message.role, "content": content, **{name: value for name, value in more.items() if value}}


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
