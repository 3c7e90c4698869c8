"""What agents send when their tools return pictures: Codex 0.171, Claude Code 2.1.197, opencode 1.18.33.

Recorded from the programs, which read files of 600 x 600 pixels in answer to a scripted model; long descriptions are
left out. Codex sends a picture as it is, Claude Code as JPEG with less bytes, opencode in a user's message behind the
result. All of them send every picture again at every turn.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.agents.replay_readers import Json
from tests.agents.replay_shapes import string, text_part, tool

PATH = "/r/p{}.png"


def codex(pictures: Sequence[str]) -> Json:
    """The first was given by `-i`; `view_image` returned the others."""
    first = [
        {"type": "input_text", "text": f'<image name=[Image #1] path="{PATH.format(0)}">'},
        {"type": "input_image", "image_url": f"data:image/png;base64,{pictures[0]}", "detail": "high"},
        {"type": "input_text", "text": "</image>"},
        {"type": "input_text", "text": "Look at the pictures"},
    ]
    items: list[Json] = [
        {
            "type": "message",
            "id": "msg_1",
            "role": "developer",
            "content": [{"type": "input_text", "text": "You are Codex."}],
        },
        {"type": "message", "id": "msg_2", "role": "user", "content": first},
    ]
    for number, picture in enumerate(pictures[1:], 1):
        part = {"type": "input_image", "image_url": f"data:image/png;base64,{picture}", "detail": "high"}
        arguments = json.dumps({"path": PATH.format(number)})
        items += [
            {"type": "function_call", "name": "view_image", "arguments": arguments, "call_id": f"call{number}"},
            {"type": "function_call_output", "id": f"fco_{number}", "call_id": f"call{number}", "output": [part]},
        ]
    function = tool("view_image", "View a local image file.", ["path"], path=string("Local path to an image file."))
    return {
        "stream": True,
        "input": items,
        "tools": [{"type": "function", "strict": False, **function["function"]}],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"summary": "auto"},
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "01a226f3-4b81-7532-ab1c-ae57ed1d8f18",
        "client_metadata": {"x-codex-window-id": "01a226f3-4b81-7532-ab1c-ae57ed1d8f18:0"},
    }


def opencode(pictures: Sequence[str]) -> Json:
    messages: list[Json] = [
        {"role": "system", "content": "You are opencode."},
        {"role": "user", "content": "Look at the pictures"},
    ]
    for number, picture in enumerate(pictures):
        function = {"name": "read", "arguments": json.dumps({"filePath": PATH.format(number)}, separators=(",", ":"))}
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": "Image read successfully"},
            {"role": "user", "content": [text_part("Attached media from tool result:"), image]},
        ]
    return {
        "max_tokens": 4096,
        "messages": messages,
        "tools": [tool("read", "Read a file.", ["filePath"], filePath=string("The absolute path."))],
        "tool_choice": "auto",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def claude_code(pictures: Sequence[str]) -> Json:
    reminder = "<system-reminder>\n# currentDate\nToday is Sunday.\n</system-reminder>"
    messages: list[Json] = [
        {"role": "user", "content": [text_part(reminder), text_part("Look at the pictures")]},
        {"role": "system", "content": "Available agent types for the Agent tool: none"},
    ]
    for number, picture in enumerate(pictures):
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {"file_path": PATH.format(number)}}
        image = {"type": "image", "source": {"type": "base64", "data": picture, "media_type": "image/jpeg"}}
        result = {"tool_use_id": f"toolu_{number}", "type": "tool_result", "content": [image]}
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    lasting = {"cache_control": {"type": "ephemeral"}}
    messages[-1]["content"][-1] |= lasting
    function = tool("Read", "Reads a file.", ["file_path"], file_path=string("The absolute path."))["function"]
    read = {"name": "Read", "description": "Reads a file.", "input_schema": function["parameters"]}
    return {
        "messages": messages,
        "system": [text_part("You are a Claude agent.") | lasting],
        "tools": [read],
        "metadata": {"user_id": json.dumps({"device_id": "1", "account_uuid": "", "session_id": "2"})},
        "max_tokens": 32000,
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "high"},
        "stream": True,
    }


class PictureAgent(NamedTuple):
    """`body` gives the whole request of the turn that these pictures, as base64, lead to."""

    path: str
    body: Callable[[Sequence[str]], Json]
    limit: str
    """The field for the length of the answer."""


PICTURE_AGENTS = {
    "codex": PictureAgent("/v1/responses", codex, "max_output_tokens"),
    "opencode": PictureAgent("/v1/chat/completions", opencode, "max_tokens"),
    "claude-code": PictureAgent("/v1/messages?beta=true", claude_code, "max_tokens"),
}
