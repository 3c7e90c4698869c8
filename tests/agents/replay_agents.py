"""Requests as Open WebUI, Claude Code and Codex write them, by the rules that `replay_clients` names."""

from __future__ import annotations

import hashlib
import html
import json
from collections.abc import Sequence

from tests.agents.replay_readers import Json, Seen
from tests.agents.replay_shapes import Said, last_calls, rules, sent_calls, string, text_part, tool

# Open WebUI (backend/open_webui): utils/middleware.py (process_chat_response, convert_content_blocks_to_messages),
# routers/openai.py, utils/payload.py; what the page makes of an answer that it shows: src/lib/utils (processDetails).
WEBUI_TOOLS = [
    tool("search_notes", "Search the user's notes.", ["query"], query=string("What for."), count={"type": "integer"}),
    tool("read_note", "Read a note.", ["note_id"], note_id=string("Its id.")),
]


def open_webui(said: Sequence[Said]) -> Json:
    """Within a turn thoughts come back as tags in the text, and calls with the index that they were streamed with.
    When the user goes on, the turn's answers are one text, with the results in it and no thought.
    """
    messages: list[Json] = [{"role": "system", "content": rules("Open WebUI")}]
    last_question = max(place for place, one in enumerate(said) if isinstance(one, str))
    shown: list[str] = []
    for place, one in enumerate(said):
        is_over = place < last_question
        if isinstance(one, str):
            if shown:
                messages.append({"role": "assistant", "content": "\n".join(shown)})
                shown = []
            messages.append({"role": "user", "content": one})
        elif isinstance(one, Seen) and is_over:
            shown += [one.text] if one.text else []
        elif isinstance(one, Seen):
            thought = f"<think>{one.thought}</think>\n" if one.thought else ""
            answer: Json = {"role": "assistant", "content": (thought + one.text).strip()}
            calls = [{"index": index, **call} for index, call in enumerate(sent_calls(one.calls))]
            messages.append(answer | ({"tool_calls": calls} if calls else {}))
        elif is_over:
            shown += [f'"{html.escape(json.dumps(text))}"' for text in one.texts]
        else:
            for call, text in zip(last_calls(said[:place]), one.texts, strict=True):
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    return {
        "stream": True,
        "messages": messages,
        "tools": WEBUI_TOOLS,
        "temperature": 0.8,
        "stream_options": {"include_usage": True},
        "user": {"name": "Ann", "id": "1", "email": "ann@example.org", "role": "user"},
    }


# Claude Code, by what it was seen to send (docs/en of its gateway, llama.cpp#19494, anthropics/claude-code#77698).
def _claude_tool(made: Json) -> Json:
    function = made["function"]
    return {"name": function["name"], "description": function["description"], "input_schema": function["parameters"]}


_LONG = "Does what the server knows. " + "Use it before you change anything, and say in one sentence why. " * 15
"""Its prompts are of 15,000 tokens and more, most of them tools."""
CLAUDE_TOOLS: list[Json] = [
    _claude_tool(tool("Read", "Reads a file.", ["file_path"], file_path=string("The path."), limit={"type": "number"})),
    _claude_tool(
        tool(
            "Edit",
            "Replaces text in a file.",
            ["file_path", "old_string", "new_string"],
            file_path=string("The path."),
            old_string=string("What is replaced."),
            new_string=string("By what."),
            replace_all={"type": "boolean", "default": False},
        )
    ),
    _claude_tool(tool("Bash", "Runs a command.", ["command"], command=string("It."), timeout={"type": "number"})),
    *(
        _claude_tool(tool(f"mcp__server__tool_{number}", _LONG, ["what"], what=string("What to do.")))
        for number in range(20)
    ),
]
_LASTING: Json = {"cache_control": {"type": "ephemeral"}}


def claude_code(said: Sequence[Said]) -> Json:
    """The first line of its system prompt has a checksum of the request, a late message of the system comes behind the
    user's turn, and the mark for the cache moves on with every request.
    """
    messages: list[Json] = []
    for place, one in enumerate(said):
        if isinstance(one, str):
            blocks = [text_part(f"<system-reminder>\n{place}: be brief.\n</system-reminder>"), text_part(one)]
            messages.append({"role": "user", "content": blocks})
        elif isinstance(one, Seen):
            thought = {"type": "thinking", "thinking": one.thought, "signature": one.signature}
            calls = [
                {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in one.calls
            ]
            text = [text_part(one.text)] if one.text else []
            messages.append({"role": "assistant", "content": ([thought] if one.thought else []) + text + calls})
        else:
            results = [
                {"tool_use_id": call.id, "type": "tool_result", "content": text, "is_error": False}
                for call, text in zip(last_calls(said[:place]), one.texts, strict=True)
            ]
            messages.append({"role": "user", "content": results})
    messages[-1]["content"][-1] |= _LASTING
    checksum = hashlib.sha256(json.dumps(messages).encode()).hexdigest()[:5]
    header = f"x-anthropic-billing-header: cc_version=2.1.{len(said)}.f6d; cc_entrypoint=cli; cch={checksum};"
    return {
        "system": [
            text_part(header),
            text_part("You are Claude Code, the command line of somebody.") | _LASTING,
            text_part(rules("an agent of theirs")) | _LASTING,
        ],
        "messages": [*messages, {"role": "system", "content": "The current directory has not changed."}],
        "tools": CLAUDE_TOOLS,
        "max_tokens": 32000,
        "temperature": 1,
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "medium"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "metadata": {"user_id": json.dumps({"device_id": "1", "session_id": "2"})},
        "stream": True,
    }


CLAUDE_ASIDE: list[tuple[str, Json]] = [
    ("messages?beta=true", {"max_tokens": 1, "messages": [{"role": "user", "content": "quota"}]}),
    (
        "messages?beta=true",
        {
            "max_tokens": 512,
            "system": [text_part("x-anthropic-billing-header: cch=00000;"), text_part("Give the chat a title.")],
            "messages": [{"role": "user", "content": [text_part("Change hello to goodbye.")]}],
            "tools": [],
            "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        },
    ),
    ("messages/count_tokens?beta=true", {"messages": [{"role": "user", "content": "foo"}], "tools": CLAUDE_TOOLS[:1]}),
]
"""What it asks beside its task, of its small model."""


# Codex CLI 0.169, by what it sent; see tests/server/test_codex_requests.py for every field and item.
def _codex_tool(made: Json) -> Json:
    return {"type": "function", "strict": False, **made["function"]}


CODEX_TOOLS: list[Json] = [
    _codex_tool(tool("exec_command", "Runs a command.", ["cmd"], cmd=string("It."), login={"type": "boolean"})),
    {"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": {"type": "text"}},
    {
        "type": "namespace",
        "name": "mcp__demo",
        "description": "Tools in the mcp__demo namespace.",
        "tools": [_codex_tool(tool("add", "Adds.", ["a", "b"], a={"type": "integer"}, b={"type": "integer"}))],
    },
    {"type": "web_search", "external_web_access": True},
    *(_codex_tool(tool(f"agent_{number}", _LONG, ["message"], message=string("To it."))) for number in range(8)),
]
_DEMO = "mcp__demo__"
"""Before the names of the namespace's tools, as the model knows them."""


def codex(said: Sequence[Said]) -> Json:
    """Everything is sent again, thoughts sealed; results are texts, and parts where a namespace's tool gave them."""

    def message(role: str, *texts: str) -> Json:
        kind = "output_text" if role == "assistant" else "input_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text} for text in texts]}

    items = [
        message("developer", rules("Codex")),
        message("developer", "<permissions instructions>", "<skills_instructions>"),
        message("user", "<environment_context>\n  <cwd>/r</cwd>\n</environment_context>"),
    ]
    for place, one in enumerate(said):
        if isinstance(one, str):
            items.append(message("user", one))
        elif isinstance(one, Seen):
            thought: Json = {"type": "reasoning", "summary": [], "content": None, "encrypted_content": one.signature}
            items += [thought] if one.thought else []
            items += [message("assistant", one.text) | {"phase": "commentary"}] if one.text else []
            for call, made in zip(one.calls, sent_calls(one.calls), strict=True):
                arguments = made["function"]["arguments"]
                if call.name == "apply_patch":
                    call_item = {"type": "custom_tool_call", "name": call.name, "input": call.arguments["input"]}
                elif call.name.startswith(_DEMO):
                    name = call.name.removeprefix(_DEMO)
                    call_item = {"type": "function_call", "name": name, "namespace": "mcp__demo"}
                    call_item |= {"arguments": arguments}
                else:
                    call_item = {"type": "function_call", "name": call.name, "arguments": arguments}
                items.append(call_item | {"call_id": call.id})
        else:
            for call, text in zip(last_calls(said[:place]), one.texts, strict=True):
                kind = "custom_tool_call_output" if call.name == "apply_patch" else "function_call_output"
                parts: list[Json] = [{"type": "input_text", "text": text}]
                output = parts if call.name.startswith(_DEMO) else text
                items.append({"type": kind, "call_id": call.id, "output": output})
    return {
        "input": items,
        "tools": CODEX_TOOLS,
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"summary": "auto"},
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "01a207a3-6874-79c3-bbb3-e8e2f79b4b4e",
        "client_metadata": {"turn_id": f"{len(said)}"},
    }
