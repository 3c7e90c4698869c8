"""A conversation's messages as the chat API spells them. Knows nothing of connections."""

from __future__ import annotations

from typing import Any

from localllm.types import Message, ToolCall


def spelled(message: Message) -> dict[str, Any]:
    """With its calls, its thought and its parts, where it has some."""
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
