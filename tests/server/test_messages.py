"""What agents send back is read: calls, results, thoughts; and what says how all of it becomes a prompt."""

from __future__ import annotations

import json
from typing import Any

import httpx
import msgspec
import pytest

from localllm.types import Message, Rendering, ToolCall
from tests.server.conftest import Served

HI = {"role": "user", "content": "Hi"}


def ask(served: Served, *messages: dict[str, Any], **fields: Any) -> httpx.Response:
    return served.http.post("/v1/chat/completions", json={"model": "tiny", "messages": messages, **fields})


def error_of(response: httpx.Response) -> tuple[int, str, str]:
    error = response.json()["error"]
    return response.status_code, error["code"], error["param"]


def test_a_history_of_calls_results_and_thoughts_is_taken(served: Served) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": "\\u00e4"}'}}
    as_object = {"id": "c2", "type": "function", "function": {"name": "g", "arguments": {"y": [1]}}}
    custom = {"id": "c3", "type": "custom", "custom": {"name": "h", "input": "ls"}}
    response = ask(
        served,
        HI,
        {"role": "assistant", "content": None, "tool_calls": [call, as_object, custom], "reasoning_content": "hm"},
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": [{"type": "text", "text": "3"}, {"type": "text", "text": "4"}],
        },
        {"role": "tool", "tool_call_id": "nobody's", "content": None},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "so"}, {"type": "refusal", "refusal": "No."}],
        },
        {"role": "assistant", "content": None, "function_call": {"name": "old", "arguments": ""}},
        {"role": "function", "name": "old", "content": "5"},
        {"role": "user", "content": "and?", "name": "Ann"},
    )
    assert response.status_code == 200
    assert "x-localllm-ignored" not in response.headers
    assert served.runtime.requests[0].messages == (
        Message("user", "Hi"),
        Message(
            "assistant",
            "",
            thought="hm",
            tool_calls=(
                ToolCall("f", '{"x": "\\u00e4"}', "c1"),
                ToolCall("g", '{"y":[1]}', "c2"),
                ToolCall("h", '{"input": "ls"}', "c3"),
            ),
        ),
        Message("tool", "3\n4", parts=("3", "4"), tool_call_id="c1"),
        Message("tool", "", tool_call_id="c2"),
        Message("assistant", "No.", thought="so"),
        Message("assistant", "", tool_calls=(ToolCall("old", "{}", "call_5_0"),)),
        Message("tool", "5", tool_call_id="call_5_0", name="old"),
        Message("user", "and?", name="Ann"),
    )


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "user", "content": "x", "tool_calls": [{"function": {"name": "f"}}]}, "messages[0].tool_calls"),
        ({"role": "assistant", "tool_calls": [{"id": "x"}]}, "messages[0].tool_calls[0].function"),
        ({"role": "user", "content": [{"type": "thinking"}]}, "messages[0].content[0].thinking"),
        ({"role": "ghost", "content": "x"}, "messages[0].role"),
        ({"role": "developer"}, "messages[0].content"),
    ],
)
def test_a_message_that_is_none_is_refused_by_name(served: Served, message: dict[str, Any], param: str) -> None:
    assert error_of(ask(served, message)) == (400, "invalid_parameter", param)
    assert served.runtime.requests == []


@pytest.mark.parametrize(
    ("fields", "variables"),
    [
        ({}, {}),
        ({"chat_template_kwargs": {"mood": "ä", "n": [1]}}, {"mood": "ä", "n": [1]}),
        ({"enable_thinking": False}, {"enable_thinking": False, "thinking": False}),
        ({"reasoning_effort": "none"}, {"enable_thinking": False, "thinking": False}),
        (
            {"reasoning_effort": "high"},
            {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"},
        ),
        (
            {"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False, "reasoning_effort": "max"}},
            {"enable_thinking": False, "thinking": False, "reasoning_effort": "max"},
        ),
        ({"chat_template_kwargs": {"thinking": True}}, {"enable_thinking": True, "thinking": True}),
        ({"chat_template_kwargs": None, "reasoning_effort": None}, {}),
        ({"chat_template_kwargs": {"x": "y" * 70_000}}, {"x": "y" * 70_000}),
    ],
)
def test_template_variables_and_the_thinking_switch_reach_the_model(
    served: Served, fields: dict[str, Any], variables: dict[str, Any]
) -> None:
    assert ask(served, HI, **fields).status_code == 200
    assert json.loads(served.runtime.requests[0].rendering.variables) == variables


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
        ({"chat_template_kwargs": [1]}, "chat_template_kwargs"),
        ({"reasoning_effort": ""}, "reasoning_effort"),
        ({"documents": {}}, "documents"),
        ({"continue_final_message": True}, "continue_final_message"),
    ],
)
def test_what_is_wrong_about_the_prompt_is_named(served: Served, fields: dict[str, Any], param: str) -> None:
    assert error_of(ask(served, HI, **fields)) == (400, "invalid_parameter", param)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ('{"tools": []}', "chat_template_kwargs.tools is set by the field tools; leave it out"),
        ('{"bos_token": ""}', "chat_template_kwargs.bos_token is set by the model; leave it out"),
        ('{"n": 1' + "0" * 5000 + "}", "chat_template_kwargs nests too deeply, or has a number with too many digits"),
    ],
)
def test_a_wrong_template_variable_is_refused_in_a_sentence(served: Served, variables: str, message: str) -> None:
    body = json.dumps({"model": "tiny", "messages": [HI]})[:-1] + f', "chat_template_kwargs": {variables}}}'
    response = served.http.post(
        "/v1/chat/completions", content=body.encode(), headers={"content-type": "application/json"}
    )
    assert response.json()["error"]["message"] == message


def test_a_last_answer_is_continued_unless_a_new_one_is_asked_for(served: Served) -> None:
    begun = {"role": "assistant", "content": "The"}
    call = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}
    cases: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
        (begun, {}, True),
        (begun, {"continue_final_message": True, "add_generation_prompt": False}, True),
        (begun, {"continue_final_message": False}, False),
        (begun, {"add_generation_prompt": True}, False),
        (begun, {"add_generation_prompt": False}, False),
        (call, {}, False),
        (HI, {}, False),
    ]
    for number, (last, fields, continues) in enumerate(cases):
        assert ask(served, HI, last, **fields).status_code == 200
        request = served.runtime.requests[number]
        assert request.messages is not None
        assert request.rendering.continues(request.messages) is continues, fields
    both = {"continue_final_message": True, "add_generation_prompt": True}
    assert error_of(ask(served, HI, begun, **both)) == (400, "invalid_parameter", "continue_final_message")


@pytest.mark.parametrize("stream", [False, True])
def test_a_header_says_that_messages_were_moved(served: Served, stream: bool) -> None:
    served.runtime.notes = ("system-moved", "calls-as-text")
    assert ask(served, HI, stream=stream).headers["x-localllm-messages"] == "calls-as-text, system-moved"
    response = served.http.post("/v1/responses", json={"model": "tiny", "input": "Hi", "stream": stream})
    assert response.headers["x-localllm-messages"] == "calls-as-text, system-moved"
    served.runtime.notes = ()
    assert "x-localllm-messages" not in ask(served, HI, stream=stream).headers


@pytest.mark.parametrize("stream", [False, True])
def test_a_header_says_that_the_file_has_no_template_or_one_without_messages(served: Served, stream: bool) -> None:
    (model,) = served.runtime.models
    replace = msgspec.structs.replace
    assert "x-localllm-template" not in ask(served, HI, stream=stream).headers
    served.runtime.models = [replace(model, info=replace(model.info, chat_template_source="architecture"))]
    assert "that of llama models is used" in ask(served, HI, stream=stream).headers["x-localllm-template"]
    served.runtime.models = [replace(model, format=replace(model.format, omits_messages=True))]
    assert "leaves out" in ask(served, HI, stream=stream).headers["x-localllm-template"]
    response = served.http.post("/v1/responses", json={"model": "tiny", "input": "Hi", "stream": stream})
    assert "leaves out" in response.headers["x-localllm-template"]
    assert "leaves out" in served.http.get("/v1/models").json()["data"][0]["chat_template_note"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_header_and_ps_say_that_fewer_layers_are_on_gpus(served: Served, stream: bool) -> None:
    assert "x-localllm-placement" not in ask(served, HI, stream=stream).headers
    note = "out of memory on Vulkan0 with 9 of 9 layers: 6 of 9 layers there instead"
    served.runtime.models = [
        msgspec.structs.replace(model, placement_note=f"{note}\nü") for model in served.runtime.models
    ]
    assert ask(served, HI, stream=stream).headers["x-localllm-placement"] == f"{note}??"
    assert served.http.get("/localllm/ps").json()["models"][0]["placement_note"] == f"{note}\nü"


def test_a_prompt_can_be_looked_at_with_tools_and_variables(served: Served) -> None:
    tools: list[Any] = [{"type": "function", "function": {"name": "f", "parameters": {"b": 1, "a": 2}}}]
    body = {"messages": [HI], "tools": tools, "chat_template_kwargs": {"x": 1}, "documents": [{"title": "T"}]}
    assert served.http.post("/apply-template", json=body).status_code == 200
    (rendering,) = served.runtime.renderings
    tools[0]["function"]["description"] = ""
    assert json.loads(rendering.tools) == tools
    assert rendering == Rendering(variables='{"x": 1}', tools=rendering.tools, documents='[{"title":"T"}]')


@pytest.mark.parametrize(
    "body",
    [
        b'{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"\\ud800"}}]}',
        b'{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"' + b"\xff" + b'"}}]}',
        b'{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"x":"\\ud800"}}}]}',
        b'{"role":"user","content":"x"}],"chat_template_kwargs":{"x":"\\ud800"},"stop":["y"',
        b'{"role":"user","content":"x"}],"chat_template_kwargs":{"x":'
        + b"[" * 20_000
        + b"]" * 20_000
        + b'},"stop":["y"',
        b'{"role":"user","content":"x"}],"documents":[' + b'"\\ud800"' + b'],"stop":["y"',
    ],
)
def test_no_text_that_is_none_is_a_500(served: Served, body: bytes) -> None:
    content = b'{"model":"tiny","messages":[' + body + b"]}"
    response = served.http.post("/v1/chat/completions", content=content, headers={"content-type": "application/json"})
    assert response.status_code in (200, 400)
