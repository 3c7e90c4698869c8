"""Requests as editors and agents write them to a server of OpenAI's or Anthropic's API: fields, tools, histories.

Written by hand after the clients' sources, which are named beside each. A client remembers what it saw of earlier
answers, and tells the server what it would tell it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.agents.replay_agents import CLAUDE_TOOLS, CODEX_TOOLS, WEBUI_TOOLS, claude_code, codex, open_webui
from tests.agents.replay_readers import (
    Json,
    Seen,
    read_ai_sdk,
    read_claude_code,
    read_cline,
    read_codex,
    read_continue,
    read_open_webui,
    read_zed,
    read_zed_responses,
)
from tests.agents.replay_shapes import Client, Said, last_calls, rules, sent_calls, string, text_part, tool

# Cline 3 (apps/vscode/src/core): api/providers/openai.ts, api/transform/openai-format.ts, tool-call-processor.ts;
# tools as in prompts/system-prompt/__tests__/__snapshots__/cline_native_next_gen.tools.snap.
ENVIRONMENT = "<environment_details>\n# Current Time\n10:00\n\n# Current Mode\nACT MODE\n</environment_details>"
_PROGRESS = string("A checklist showing task progress after this tool use is completed.")


def _loose(made: Json) -> Json:
    made["function"]["strict"] = False
    made["function"]["parameters"]["additionalProperties"] = False
    return made


CLINE_TOOLS = [
    _loose(tool("read_file", "Read a file.", ["path"], path=string("The path of the file."), task_progress=_PROGRESS)),
    _loose(
        tool(
            "replace_in_file",
            "Replace sections of a file by SEARCH/REPLACE blocks.",
            ["absolutePath", "diff"],
            absolutePath=string("The path."),
            diff=string("The blocks."),
            task_progress=_PROGRESS,
        )
    ),
    _loose(
        tool("attempt_completion", "Present the result.", ["result"], result=string("It."), command=string("Demo."))
    ),
]


def _cline(said: Sequence[Said], *, native: bool) -> Json:
    """Thoughts are never sent back. Results in the native way are messages of tools and then a user's, otherwise text
    of the user's.
    """
    messages: list[Json] = [{"role": "system", "content": rules("Cline" if native else "Cline with XML")}]
    for place, one in enumerate(said):
        if isinstance(one, str):
            parts = [text_part(f"<task>\n{one}\n</task>"), text_part(ENVIRONMENT)]
            messages.append({"role": "user", "content": parts})
        elif isinstance(one, Seen):
            answer: Json = {"role": "assistant", "content": one.text}
            if one.calls:
                answer |= {"content": one.text if one.text.strip() else None, "tool_calls": sent_calls(one.calls)}
            messages.append(answer)
        elif native:
            calls = last_calls(said[:place])
            for call, text in zip(calls, one.texts, strict=True):
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
            messages.append({"role": "user", "content": [text_part(ENVIRONMENT)]})
        else:
            parts = [text_part(part) for text in one.texts for part in ("[read_file for 'a.txt'] Result:", text)]
            messages.append({"role": "user", "content": [*parts, text_part(ENVIRONMENT)]})
    asked: Json = {"messages": messages, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}}
    return asked | ({"tools": CLINE_TOOLS, "tool_choice": "auto", "parallel_tool_calls": False} if native else {})


CLOSING = ("</read_file>", "</replace_in_file>", "</attempt_completion>")

# Continue: core/llm/openaiTypeConverters.ts (toChatBody, toChatMessage), core/llm/llms/OpenAI.ts (modifyChatBody),
# packages/openai-adapters/src/apis/OpenAI.ts; tools as in core/tools/definitions.
CONTINUE_TOOLS = [
    tool("read_file", "View the contents of an existing file.", ["filepath"], filepath=string("The path.")),
    {
        "type": "function",
        "function": {
            "name": "read_currently_open_file",
            "description": "Read the file that is open in the editor.",
            "parameters": {"type": "object", "properties": {}},
        },
    },
    tool(
        "single_find_and_replace",
        "Replace text in a file.",
        ["filepath", "old_string", "new_string"],
        filepath=string("The path."),
        old_string=string("What is replaced."),
        new_string=string("By what."),
        replace_all={"type": "boolean", "description": "All of them."},
    ),
]


def _continue(said: Sequence[Said]) -> Json:
    """No content of an answer is one space; thoughts stay here."""
    messages: list[Json] = [{"role": "system", "content": rules("Continue")}]
    for place, one in enumerate(said):
        if isinstance(one, str):
            messages.append({"role": "user", "content": one})
        elif isinstance(one, Seen):
            answer: Json = {"role": "assistant", "content": one.text or " "}
            messages.append(answer | ({"tool_calls": sent_calls(one.calls)} if one.calls else {}))
        else:
            for call, text in zip(last_calls(said[:place]), one.texts, strict=True):
                messages.append({"role": "tool", "content": text, "tool_call_id": call.id})
    return {
        "messages": messages,
        "max_tokens": 4096,
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": CONTINUE_TOOLS,
        "parallel_tool_calls": False,
    }


# Zed: crates/open_ai/src/completion.rs (into_open_ai), crates/language_models/src/provider/open_ai_compatible.rs;
# schemas as its adapt_to_json_schema_subset leaves them.
ZED_TOOLS = [
    tool(
        "read_file",
        "Reads the content of the given file in the project.",
        ["path"],
        path=string("The relative path of the file to read."),
        start_line={"type": "integer", "minimum": 0, "nullable": True, "description": "Optional line number."},
    ),
    tool(
        "edit_file",
        "Edits a file.",
        ["display_description", "path", "mode"],
        display_description=string("What the edit is for."),
        path=string("The full path."),
        mode={"description": "How.", "type": "string", "enum": ["edit", "create", "overwrite"]},
        edits={
            "type": "array",
            "nullable": True,
            "items": {
                "type": "object",
                "properties": {"old_text": {"type": "string"}, "new_text": {"type": "string"}},
                "required": ["old_text", "new_text"],
            },
        },
    ),
    tool("terminal", "Runs a shell command.", ["command", "cd"], command=string("It."), cd=string("Where.")),
]


def _zed(said: Sequence[Said], *, interleaved: bool) -> Json:
    """A thought is the answer's `reasoning_content`, or, where the settings do not say that the model takes it, the
    first part of its text.
    """
    messages: list[Json] = [{"role": "system", "content": rules("Zed")}]
    for place, one in enumerate(said):
        if isinstance(one, str):
            messages.append({"role": "user", "content": one})
        elif isinstance(one, Seen):
            texts = [text for text in (one.text if interleaved else one.thought, not interleaved and one.text) if text]
            content: Any = texts[0] if len(texts) == 1 else [text_part(text) for text in texts] or None
            answer: Json = {"role": "assistant", "content": content}
            if one.calls:
                answer["tool_calls"] = sent_calls(one.calls)
            if interleaved and one.thought:
                answer["reasoning_content"] = one.thought
            messages.append(answer)
        else:
            for call, text in zip(last_calls(said[:place]), one.texts, strict=True):
                messages.append({"role": "tool", "content": text, "tool_call_id": call.id})
    return {
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 8192,
        "temperature": 1.0,
        "tools": ZED_TOOLS,
        "tool_choice": "auto",
    }


def _zed_responses(said: Sequence[Said]) -> Json:
    """As it asks a server whose settings say that it has no chat completions. Thoughts stay here."""

    def message(role: str, text: str) -> Json:
        part: Json = {"type": "output_text", "annotations": []} if role == "assistant" else {"type": "input_text"}
        return {"type": "message", "role": role, "content": [part | {"text": text}]}

    items = [message("system", rules("Zed"))]
    for place, one in enumerate(said):
        if isinstance(one, str):
            items.append(message("user", one))
        elif isinstance(one, Seen):
            items += [message("assistant", one.text)] if one.text.strip() else []
            for made in sent_calls(one.calls):
                items.append({"type": "function_call", "call_id": made["id"], **made["function"]})
        else:
            for call, text in zip(last_calls(said[:place]), one.texts, strict=True):
                items.append({"type": "function_call_output", "call_id": call.id, "output": text})
    return {
        "input": items,
        "store": False,
        "stream": True,
        "max_output_tokens": 8192,
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [{"type": "function", **each["function"]} for each in ZED_TOOLS],
    }


# The AI SDK (packages/openai-compatible/src/chat): openai-compatible-chat-language-model.ts,
# convert-to-openai-compatible-chat-messages.ts, openai-compatible-prepare-tools.ts; schemas are zod's.
def _zod(made: Json) -> Json:
    made["function"]["parameters"] |= {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "additionalProperties": False,
    }
    return made


SDK_TOOLS = [
    _zod(tool("read", "Reads a file.", ["filePath"], filePath=string("The path."), limit={"type": "number"})),
    _zod(tool("bash", "Runs a command.", ["command"], command=string("The command."), timeout={"type": "number"})),
]


def _ai_sdk(said: Sequence[Said]) -> Json:
    """Thoughts are sent back; a result that is an object is its JSON."""
    messages: list[Json] = [{"role": "system", "content": rules("opencode")}]
    for place, one in enumerate(said):
        if isinstance(one, str):
            messages.append({"role": "user", "content": one})
        elif isinstance(one, Seen):
            answer: Json = {"role": "assistant", "content": (one.text or None) if one.calls else one.text}
            answer |= {"reasoning_content": one.thought} if one.thought else {}
            messages.append(answer | ({"tool_calls": sent_calls(one.calls)} if one.calls else {}))
        else:
            for call, text in zip(last_calls(said[:place]), one.texts, strict=True):
                output = json.dumps({"output": text})
                messages.append({"role": "tool", "tool_call_id": call.id, "content": output})
    return {
        "max_tokens": 4096,
        "top_p": 1,
        "messages": messages,
        "tools": SDK_TOOLS,
        "tool_choice": "auto",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


CLIENTS = {
    "cline": Client("Cline", CLINE_TOOLS, lambda said: _cline(said, native=True), read_cline),
    "cline-xml": Client(
        "Cline with XML", (), lambda said: _cline(said, native=False), lambda lines: read_cline(lines, CLOSING)
    ),
    "continue": Client("Continue", CONTINUE_TOOLS, _continue, read_continue),
    "zed": Client("Zed", ZED_TOOLS, lambda said: _zed(said, interleaved=False), read_zed),
    "zed-interleaved": Client("Zed", ZED_TOOLS, lambda said: _zed(said, interleaved=True), read_zed),
    "zed-responses": Client("Zed", ZED_TOOLS, _zed_responses, read_zed_responses, "responses"),
    "ai-sdk": Client("opencode", SDK_TOOLS, _ai_sdk, read_ai_sdk),
    "open-webui": Client("Open WebUI", WEBUI_TOOLS, open_webui, read_open_webui),
    "codex": Client("Codex", CODEX_TOOLS, codex, read_codex, "responses"),
    "claude-code": Client("Claude Code", CLAUDE_TOOLS, claude_code, read_claude_code, "messages?beta=true"),
}
