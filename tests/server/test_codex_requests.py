"""Requests in the shape in which Codex CLI 0.169 sends them, by what it sent: none is refused, also by a strict server.

Texts are shortened; every field, item and kind of tool is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from localllm.server.apis.responses.items import sealed
from localllm.settings.config import Settings
from localllm.types import CallDelta, Delta, Message, ToolCall
from tests.later import response_event
from tests.server.conftest import Served, running
from tests.server.fake_runtime import FINISH

END = Delta("", 0, FINISH)


def function(name: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": [*properties][:1], "additionalProperties": False}
    return {"type": "function", "name": name, "description": f"Does {name}.", "strict": False, "parameters": schema}


def namespace(name: str, *tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "namespace", "name": name, "description": f"Tools in the {name} namespace.", "tools": list(tools)}


def message(role: str, *texts: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text} for text in texts]
    return {"type": "message", "id": "msg_37a28891-be23-57b4-8092", "role": role, "content": content}


TEXT = {"type": "string", "description": "A text."}
NUMBER = {"type": "number", "description": "A number."}
TOOLS = [
    function("exec_command", cmd=TEXT, login={"type": "boolean"}, prefix_rule={"type": "array", "items": TEXT}),
    function("write_stdin", session_id=NUMBER, chars=TEXT),
    function("view_image", path=TEXT),
    namespace("multi_agent_v1", function("close_agent", target=TEXT), function("spawn_agent", message=TEXT)),
    namespace("mcp__demo", function("add", a={"type": "integer"}, b={"type": "integer"})),
    function("get_goal"),
    {"type": "web_search", "external_web_access": True},
]
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "\nstart: SOURCE\nSOURCE: /(?s:.+)/\n"}
EXEC = {"type": "custom", "name": "exec", "description": "Runs JavaScript.", "format": GRAMMAR}
CODE_MODE = {
    "type": "additional_tools",
    "id": "at_01a207b1-7ff6-72f0-8d70-d04168d1d10a",
    "role": "developer",
    "tools": [
        namespace("functions", EXEC, function("wait", cell_id=TEXT)),
        namespace("clock", function("sleep", s=NUMBER)),
    ],
}
"""How tools come where Codex takes the model for one that it knows."""
INPUT = [
    message("developer", "You are a coding agent."),
    message("developer", "<skills_instructions>", "<permissions instructions>"),
    message("user", "<environment_context>"),
    message("user", "Change hello to goodbye in a.txt"),
]
METADATA = {"turn_id": "01a207a3-688a", "x-codex-turn-metadata": json.dumps({"request_kind": "turn"})}
REQUEST: dict[str, Any] = {
    "model": "tiny",
    "stream": True,
    "input": INPUT,
    "tools": TOOLS,
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"summary": "auto"},
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "01a207a3-6874-79c3-bbb3-e8e2f79b4b4e",
    "client_metadata": METADATA,
}
HEADERS = {
    "originator": "codex_exec",
    "session-id": "01a207a3-6874",
    "user-agent": "codex_exec/0.169.0 (Debian 12.0.0; x86_64) xterm (codex_exec; 0.169.0)",
    "x-codex-turn-metadata": METADATA["x-codex-turn-metadata"],
    "x-codex-beta-features": "remote_compaction_v2",
    "accept": "text/event-stream",
}
SAID = [
    Message("developer", "You are a coding agent."),
    Message(
        "developer",
        "<skills_instructions>\n<permissions instructions>",
        parts=("<skills_instructions>", "<permissions instructions>"),
    ),
    Message("user", "<environment_context>"),
    Message("user", "Change hello to goodbye in a.txt"),
]


@pytest.fixture(scope="module")
def strict_server() -> Iterator[Served]:
    with running(Settings(port=0, grace_s=0.1, strict=True)) as served:
        yield served


@pytest.fixture
def strict(strict_server: Served) -> Served:
    strict_server.runtime.reset()
    return strict_server


def sent(served: Served, **changes: Any) -> tuple[httpx.Response, list[dict[str, Any]]]:
    """The response and its events, each checked."""
    response = served.http.post("/v1/responses", json={**REQUEST, **changes}, headers=HEADERS)
    assert response.status_code == 200, response.text
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]
    for event in events:
        assert response_event().validate_python(event).type == event["type"]
    assert events[-1]["type"] == "response.completed"
    return response, events


def test_the_first_request_is_answered_with_a_thought_a_text_and_calls(strict: Served) -> None:
    strict.runtime.script = [
        Delta(thought="I look."),
        Delta("Let me look."),
        Delta(calls=(CallDelta(0, '{"cmd":', "exec_command", "call_a"),)),
        Delta(calls=(CallDelta(0, '"cat a.txt"}'), CallDelta(1, '{"a":1,"b":2}', "mcp__demo__add", "call_b"))),
        END,
    ]
    response, events = sent(strict)
    assert response.headers["x-localllm-ignored"] == "tools[6]:web_search"
    assert strict.runtime.asked[-1][1] == SAID
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    thought, text, command, add = done
    assert (thought["type"], thought["encrypted_content"]) == ("reasoning", sealed("I look."))
    assert text["content"][0]["text"] == "Let me look."
    assert (command["name"], command["arguments"], command["call_id"]) == (
        "exec_command",
        '{"cmd":"cat a.txt"}',
        "call_a",
    )
    assert "namespace" not in command
    assert (add["name"], add["namespace"], add["arguments"]) == ("add", "mcp__demo", '{"a":1,"b":2}')
    usage = events[-1]["response"]["usage"]
    assert (usage["input_tokens_details"]["cached_tokens"], usage["output_tokens_details"]["reasoning_tokens"]) == (
        2,
        0,
    )


def test_what_it_sends_back_is_the_turn_that_was_made(strict: Served) -> None:
    turn = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": sealed("I look.")},
        {
            "type": "message",
            "status": "completed",
            "id": "msg_1",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Let me look.", "annotations": [], "logprobs": []}],
            "phase": "commentary",
        },
        {
            "type": "function_call",
            "status": "completed",
            "id": "fc_1",
            "name": "exec_command",
            "arguments": '{"cmd":"cat a.txt"}',
            "call_id": "call_a",
        },
        {
            "type": "function_call",
            "status": "completed",
            "id": "fc_2",
            "name": "add",
            "namespace": "mcp__demo",
            "arguments": '{"a":1,"b":2}',
            "call_id": "call_b",
        },
        {"type": "function_call_output", "id": "fco_1", "call_id": "call_a", "output": "Output:\nhello\n"},
        {
            "type": "function_call_output",
            "id": "fco_2",
            "call_id": "call_b",
            "output": [{"type": "input_text", "text": "Wall time: 0 s"}, {"type": "input_text", "text": "3"}],
        },
        {
            "type": "function_call",
            "status": "completed",
            "id": "fc_3",
            "name": "view_image",
            "arguments": '{"path":"i.png"}',
            "call_id": "call_c",
        },
        {
            "type": "function_call_output",
            "id": "fco_3",
            "call_id": "call_c",
            "output": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "high"}],
        },
        message("developer", "<collaboration_mode>"),
    ]
    sent(strict, input=[*INPUT, *turn])
    calls = (
        ToolCall("exec_command", '{"cmd":"cat a.txt"}', "call_a"),
        ToolCall("mcp__demo__add", '{"a":1,"b":2}', "call_b"),
    )
    assert strict.runtime.asked[-1][1] == [
        *SAID,
        Message("assistant", "Let me look.", thought="I look.", tool_calls=calls),
        Message("tool", "Output:\nhello\n", tool_call_id="call_a", name="exec_command"),
        Message(
            "tool",
            "Wall time: 0 s\n3",
            parts=("Wall time: 0 s", "3"),
            tool_call_id="call_b",
            name="mcp__demo__add",
        ),
        Message("assistant", "", tool_calls=(ToolCall("view_image", '{"path":"i.png"}', "call_c"),)),
        Message("tool", "[image omitted: the model cannot see images]", tool_call_id="call_c", name="view_image"),
        Message("developer", "<collaboration_mode>"),
    ]


def test_a_model_that_it_takes_for_one_of_openais_is_offered_code_to_run(strict: Served) -> None:
    source = 'const r = await tools.exec_command({cmd: "ls"}); text(r)'
    arguments = json.dumps({"input": source})
    strict.runtime.script = [Delta(calls=(CallDelta(0, arguments, "exec", "call_a"),)), END]
    changes: dict[str, Any] = {
        "input": [CODE_MODE, *INPUT],
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low", "context": "all_turns"},
        "text": {"verbosity": "low"},
        "tools": None,
    }
    _, events = sent(strict, **changes)
    asked = strict.runtime.requests[-1]
    assert asked.calling is not None
    assert [each.name for each in asked.calling.functions] == ["exec", "wait", "clock__sleep"]
    assert strict.runtime.asked[-1][1] == SAID
    (item,) = events[-1]["response"]["output"]
    assert (item["type"], item["name"], item["namespace"], item["input"]) == (
        "custom_tool_call",
        "exec",
        "functions",
        source,
    )
    output = {
        "type": "custom_tool_call_output",
        "id": "ctco_1",
        "call_id": "call_a",
        "output": [{"type": "input_text", "text": "Script completed"}, {"type": "input_text", "text": "a.txt"}],
    }
    sent(strict, **{**changes, "input": [CODE_MODE, *INPUT, item, output]})
    said: Any = strict.runtime.asked[-1][1]
    assert [(each.role, each.content) for each in said[4:]] == [("assistant", ""), ("tool", "Script completed\na.txt")]
    assert [each.name for each in said[4].tool_calls] == ["exec"]
    assert json.loads(said[4].tool_calls[0].arguments) == {"input": source}
