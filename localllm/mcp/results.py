"""Converts a tool's result to text for a model: names unsupported content, truncates long text. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import mcp_types as types
import msgspec

from localllm.chat.surrogates import whole_text
from localllm.mcp.outcome import Outcome

MAX_CHARS = 50_000
"""Maximum length of a result: about 12,000 tokens."""


def outcome_of(result: types.CallToolResult) -> Outcome:
    """Convert a tool's result. Structured content is used only without text, since servers repeat it as text."""
    parts = list(_parts(result))
    has_text = any(isinstance(block, types.TextContent) and block.text.strip() for block in result.content)
    if result.structured_content is not None and not has_text:
        parts.insert(0, msgspec.json.encode(result.structured_content).decode())
    text = whole_text("\n".join(part for part in parts if part)) or "(the tool returned nothing)"
    if len(text) > MAX_CHARS:
        text = f"{text[:MAX_CHARS]}\n[{len(text) - MAX_CHARS} more characters omitted]"
    return Outcome(text, bool(result.is_error))


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
