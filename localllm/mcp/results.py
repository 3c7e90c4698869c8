"""Converts a tool's result for a model: to text, which names other content and is truncated if it is long, and to the
JSON of its parts if it has files. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import mcp_types as types
import msgspec

from localllm.chat.surrogates import whole_text
from localllm.mcp.outcome import Outcome

MAX_CHARS = 50_000
"""Maximum length of a result: about 12,000 tokens."""
MAX_FILE_CHARS = 32 * 2**20
"""Most base64 of a result's pictures, sounds and files together; a text names those of a larger one."""


def outcome_of(result: types.CallToolResult) -> Outcome:
    """Convert a tool's result. Structured content is used only without text, since servers repeat it as text."""
    parts = list(_parts(result))
    has_text = any(isinstance(block, types.TextContent) and block.text.strip() for block in result.content)
    if result.structured_content is not None and not has_text:
        parts.insert(0, msgspec.json.encode(result.structured_content).decode())
    text = whole_text("\n".join(part for part in parts if part)) or "(the tool returned nothing)"
    if len(text) > MAX_CHARS:
        text = f"{text[:MAX_CHARS]}\n[{len(text) - MAX_CHARS} more characters omitted]"
    return Outcome(text, bool(result.is_error), _content(result))


def _content(result: types.CallToolResult) -> str:
    """The parts as JSON; empty: none is a file, or they are too large."""
    num_chars = sum(map(_file_chars, result.content))
    if not num_chars or num_chars > MAX_FILE_CHARS or result.is_error:
        return ""
    parts = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
    for part in parts:
        if part["type"] == "text":
            part["text"] = whole_text(part["text"])[:MAX_CHARS]
    return msgspec.json.encode(parts).decode()


def _file_chars(block: types.ContentBlock) -> int:
    """Base64 in it."""
    if isinstance(block, types.ImageContent | types.AudioContent):
        return len(block.data)
    if isinstance(block, types.EmbeddedResource) and isinstance(block.resource, types.BlobResourceContents):
        return len(block.resource.blob)
    return 0


def _parts(result: types.CallToolResult) -> Iterator[str]:
    for block in result.content:
        if isinstance(block, types.TextContent):
            yield block.text
        elif isinstance(block, types.ImageContent | types.AudioContent):
            kind = "an image" if isinstance(block, types.ImageContent) else "a recording"
            yield f"[{kind} of type {block.mime_type[:100]}: not supported, omitted]"
        elif isinstance(block, types.ResourceLink):
            yield f"[a resource: {block.name[:200]} at {str(block.uri)[:2000]}]"
        elif isinstance(block.resource, types.TextResourceContents):
            yield block.resource.text
        else:
            yield f"[data of {str(block.resource.uri)[:2000]}: not supported, omitted]"
