"""What agents send back to the Responses API: outputs of tools, thoughts, items of tools that run elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localllm.errors import RequestError
from localllm.server.apis.responses.items import AnyItem
from localllm.server.apis.responses.requests import ResponseRequest, parse_response
from localllm.types import CallDelta, Delta, Finish, Message, Timings, ToolCall, Usage
from tests.later import openai
from tests.server.conftest import Served
from tests.server.fake_runtime import FINISH

PATH = "/v1/responses"
TIME: Any = {"type": "function", "name": "get_time", "parameters": {"type": "object"}}
CALL = Delta("", 1, FINISH, calls=(CallDelta(0, "{}", "get_time", "call_0"),))
THINKING = {"enable_thinking": True, "thinking": True}
NOT_THINKING = {"enable_thinking": False, "thinking": False}


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0, timeout=10) as client:
        yield client


def create(client: openai.OpenAI, **fields: Any) -> Any:
    return client.responses.create(**{"model": "tiny", "input": "Hi", **fields})


def test_outputs_come_as_texts_parts_and_objects_and_what_is_no_text_is_left_out_and_said(served: Served) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "high"}
    outputs: list[Any] = [
        "plain",
        [{"type": "input_text", "text": "a"}, image, {"type": "input_text", "text": "b"}],
        [image],
        {"content": "x", "success": False},
        [1, 2],
        None,
        [],
    ]
    items = [{"type": "function_call_output", "call_id": f"c{n}", "output": each} for n, each in enumerate(outputs)]
    response = served.http.post(PATH, json={"model": "tiny", "input": [{"role": "user", "content": "Hi"}, *items]})
    assert response.status_code == 200
    left_out = "[image omitted: the model cannot see images]"
    asked = served.runtime.requests[-1].messages or ()
    assert [message.content for message in asked[1:]] == [
        "plain", f"a\n{left_out}\nb", left_out, '{"content":"x","success":false}', "[1,2]", "", "",
    ]  # fmt: skip
    warnings = response.json()["localllm"]["warnings"]
    assert [warning.partition(":")[0] for warning in warnings] == ["input[2].output[1]", "input[3].output[0]"]


def test_calls_of_shells_are_shown_and_items_of_tools_that_run_elsewhere_are_left_out(served: Served) -> None:
    items = [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
        {"type": "local_shell_call", "id": "l", "call_id": "a", "status": "completed", "action": {"command": ["ls"]}},
        {"type": "local_shell_call_output", "id": "a", "output": "x.txt"},
        {"type": "image_generation_call", "id": "ig", "result": None, "status": "completed"},
        {"type": "mcp_call", "id": "m", "name": "f", "arguments": "{}", "server_label": "s", "output": "3"},
    ]
    response = served.http.post(PATH, json={"model": "tiny", "input": items})
    assert served.runtime.asked[-1][1] == [
        Message("assistant", "", tool_calls=(ToolCall("local_shell", '{"command":["ls"]}', "a"),)),
        Message("tool", "x.txt", tool_call_id="a", name="local_shell"),
        Message("assistant", "", tool_calls=(ToolCall("s__f", "{}", "m"),)),
        Message("tool", "3", tool_call_id="m", name="s__f"),
    ]
    assert response.headers["x-localllm-ignored"] == "input[0]:web_search_call, input[3]:image_generation_call"


def test_thoughts_come_back_from_clients_that_send_the_sealed_ones_alone(served: Served, client: openai.OpenAI) -> None:
    served.runtime.scripts = [[Delta(thought="Hm ✓"), CALL]]
    thought, made = create(client, tools=[TIME], store=False, include=["reasoning.encrypted_content"]).output
    sealed = {"type": "reasoning", "id": thought.id, "summary": [], "encrypted_content": thought.encrypted_content}
    create(client, tools=[TIME], input=[sealed, made])
    assert served.runtime.asked[-1][1][0].thought == "Hm ✓"  # type: ignore[index]
    foreign = {**sealed, "encrypted_content": "gAAAAABo"}
    create(client, tools=[TIME], input=[foreign, made])
    assert served.runtime.asked[-1][1][0].thought == ""  # type: ignore[index]


@pytest.mark.parametrize(
    ("fields", "variables"),
    [
        ({"reasoning": {"effort": "low", "summary": "auto"}}, {**THINKING, "reasoning_effort": "low"}),
        ({"reasoning": {"effort": "minimal"}}, {**THINKING, "reasoning_effort": "minimal"}),
        ({"reasoning": {"effort": "none"}}, NOT_THINKING),
        ({"reasoning": {"effort": None, "summary": "detailed"}}, {}),
        ({"enable_thinking": False, "chat_template_kwargs": {"a": 1}}, {**NOT_THINKING, "a": 1}),
        ({"text": {"verbosity": "low"}}, {"verbosity": "low"}),
    ],
)  # fmt: skip
def test_what_is_said_of_thinking_reaches_the_template(
    served: Served, client: openai.OpenAI, fields: dict[str, Any], variables: dict[str, Any]
) -> None:
    extra = {name: fields.pop(name) for name in ("enable_thinking", "chat_template_kwargs") if name in fields}
    response = create(client, **fields, extra_body=extra)
    assert json.loads(served.runtime.requests[-1].rendering.variables) == variables
    reasoning = fields.get("reasoning", {})
    assert (response.reasoning.effort, response.reasoning.summary) == (
        reasoning.get("effort"),
        reasoning.get("summary"),
    )


def test_a_wrong_effort_is_refused_by_its_name_here(served: Served) -> None:
    response = served.http.post(PATH, json={"model": "tiny", "input": "Hi", "reasoning": {"effort": ""}})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "reasoning.effort")


def test_a_budget_of_thought_reaches_the_model(served: Served, client: openai.OpenAI) -> None:
    create(client, extra_body={"thinking": {"type": "enabled", "budget_tokens": 7}})
    assert served.runtime.requests[-1].thinking_budget == 7
    create(client, extra_body={"reasoning_budget_tokens": 0})
    assert served.runtime.requests[-1].thinking_budget == 0


def test_outputs_find_their_calls_though_a_client_rewrote_the_ids(served: Served, client: openai.OpenAI) -> None:
    call = {"type": "function_call", "call_id": "call_0", "name": "get_time", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "other", "output": "3"}
    create(client, tools=[TIME], input=[{"role": "user", "content": "Hi"}, call, output])
    assert served.runtime.asked[-1][1][-1].tool_call_id == "call_0"  # type: ignore[index]


@pytest.mark.parametrize("is_streamed", [True, False])
def test_what_is_to_be_said_of_a_request_and_its_answer_stands_beside_the_output(
    served: Served, client: openai.OpenAI, is_streamed: bool
) -> None:
    served.runtime.notes = ("system-moved", "tools[0].parameters: 'x' is not kept")
    served.runtime.script = [Delta("", 1, FINISH, thought="Hm.", notes=("the answer ended within its thought",))]
    made = create(client, tools=[TIME], stream=is_streamed)
    response = list(made)[-1].response if is_streamed else made
    assert response.model_extra["localllm"]["warnings"] == [
        "tools[0].parameters: 'x' is not kept", "the answer ended within its thought",
    ]  # fmt: skip


@pytest.mark.parametrize(("thought", "where"), [("", "immediately"), ("Hm.", "after its thought")])
def test_an_answer_without_a_text_says_why(served: Served, client: openai.OpenAI, thought: str, where: str) -> None:
    served.runtime.script = [Delta("", 1, FINISH, thought=thought)]
    (warning,) = create(client).model_extra["localllm"]["warnings"]
    assert warning == f"the answer has no text: the model ended it {where}"


def test_tokens_of_the_thought_are_counted(served: Served, client: openai.OpenAI) -> None:
    finish = Finish("stop", Usage(7, 5, reasoning_tokens=3), Timings(0, 0, 0))
    served.runtime.script = [Delta("x", 5, finish, thought="Hm.")]
    assert create(client).usage.output_tokens_details.reasoning_tokens == 3


KINDS = [
    None, "message", "reasoning", "function_call", "function_call_output", "custom_tool_call",
    "custom_tool_call_output", "local_shell_call", "local_shell_call_output", "shell_call_output",
    "apply_patch_call", "item_reference", "additional_tools", "web_search_call", "compaction",
    "mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response",
]  # fmt: skip
WORDS = st.sampled_from(["user", "assistant", "f", "x", "call_0", "", "input_text", "namespace", "function"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["type", "text", "name", "tools", "content"]), inner, max_size=3)
    ),
    max_leaves=4,
)
FIELDS = ["id", "role", "content", "call_id", "name", "namespace", "arguments", "input", "output", "action", "tools"]
FIELDS += ["server_label", "error", "approval_request_id", "approve", "reason"]
ITEMS = st.builds(
    lambda kind, fields: {"type": kind, **fields},
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=5),
)


@given(st.lists(ITEMS, max_size=5), VALUES, VALUES)
@settings(max_examples=300)
def test_whatever_comes_is_a_conversation_or_an_error_that_names_a_field(
    items: list[dict[str, Any]], tools: Any, choice: Any
) -> None:
    body = {"model": "tiny", "input": items, "tools": tools, "tool_choice": choice}
    try:
        request = parse_response(json.dumps(body).encode(), ResponseRequest).request
        said = request.taken([], lambda _: None)
        asked = request.generation(said.items, request.offered(said.items, "ignore"))
    except RequestError as error:
        named = error.param
    else:
        assert asked.messages
        assert msgspec.json.decode(msgspec.json.encode(said.items), type=list[AnyItem])
        return
    assert named
