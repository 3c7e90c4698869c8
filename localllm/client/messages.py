"""Encodes messages in the format of the chat API, pictures, sounds and documents as base64.

Knows nothing about connections.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from localllm.types import Media, MediaFile, Message, ToolCall
from localllm.types.documents import DocumentOptions


def to_json_values(message: Message, files: Mapping[str, MediaFile]) -> dict[str, Any]:
    """A message as JSON values; calls, thought and parts only if it has any. `files`: those of its media, by digest."""
    content: Any = message.content
    if len(message.parts) > 1 or message.media:
        content = [_part(part, files) for part in message.parts]
    calls = [_call(call) for call in message.tool_calls]
    more = {
        "reasoning_content": message.thought,
        "tool_calls": calls,
        "tool_call_id": message.tool_call_id,
        "name": message.name,
    }
    return {"role": message.role, "content": content, **{name: value for name, value in more.items() if value}}


def _part(part: str | Media, files: Mapping[str, MediaFile]) -> dict[str, Any]:
    """The server finds the type of a file in its bytes, so the one named here is never read."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    data = base64.b64encode(files[part.digest].data).decode()
    if part.kind == "audio":
        return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    if part.kind == "document":
        options = part.document or DocumentOptions()
        more = {"filename": options.name, "pages": options.pages}
        if options.page_images != "auto":
            more["page_images"] = options.page_images
        return {"type": "file", "file": {"file_data": data, **{name: value for name, value in more.items() if value}}}
    url = f"data:application/octet-stream;base64,{data}"
    return {"type": "image_url", "image_url": {"url": url, "detail": part.detail}}


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
