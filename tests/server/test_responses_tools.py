"""Tools in the Responses API: declared and chosen in every way, called, streamed, and their results sent back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest

from localllm.server.apis.responses.store import ResponseStore, StoredResponse
from localllm.settings.config import Settings
from localllm.types import CallDelta, Calling, Delta, Finish, Function, Message, Timings, ToolCall, Usage
from tests.later import openai
from tests.server.conftest import Served, running
from tests.server.fake_runtime import FINISH

PATH = "/v1/responses"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: Any = {"type": "function", "name": "get_weather", "description": "Of a city", "parameters": SCHEMA}
TIME: Any = {"type": "function", "name": "get_time", "strict": True, "parameters": {"type": "object"}}
PATCH: Any = {"type": "custom", "name": "patch", "description": "Changes files"}
GIT: Any = {
    "type": "namespace",
    "name": "mcp__git",
    "description": "A repository",
    "tools": [{"type": "function", "name": "log"}, {"type": "custom", "name": "note"}],
}
LARK: Any = {"type": "grammar", "syntax": "lark", "definition": 'start: "a"+'}
SEARCH: Any = {"type": "web_search", "external_web_access": True}
LENGTH = Finish("length", Usage(7, 3), Timings(0, 0, 0))


def call(name: str, arguments: str, *, index: int = 0) -> list[Delta]:
    """A call in three deltas."""
    middle = len(arguments) // 2
    return [
        Delta(calls=(CallDelta(index, "", name, f"call_{index}"),), num_tokens=1),
        Delta(calls=(CallDelta(index, arguments[:middle]),), num_tokens=1),
        Delta(calls=(CallDelta(index, arguments[middle:]),), num_tokens=1),
    ]


END = Delta("", 0, FINISH)


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0, timeout=10) as client:
        yield client


def create(client: openai.OpenAI, **fields: Any) -> Any:
    return client.responses.create(**{"model": "tiny", "input": "Hi", **fields})


def asked_calling(served: Served) -> Calling:
    calling = served.runtime.requests[-1].calling
    assert calling is not None
    return calling


def asked_names(served: Served) -> list[str]:
    return [function.name for function in asked_calling(served).functions]


def refused(served: Served, **fields: Any) -> dict[str, str]:
    response = served.http.post(PATH, json={"model": "tiny", "input": "Hi", **fields})
    assert response.status_code == 400
    assert served.runtime.asked == []
    error: dict[str, str] = response.json()["error"]
    return error


def test_functions_reach_the_template_and_the_answer_as_they_were_declared(
    served: Served, client: openai.OpenAI
) -> None:
    response = create(client, tools=[WEATHER, TIME], parallel_tool_calls=False)
    asked = served.runtime.requests[-1]
    assert asked.calling == Calling(
        functions=(
            Function(
                name="get_weather", parameters=json.dumps(SCHEMA, separators=(",", ":")), param="tools[0].parameters"
            ),
            Function(name="get_time", parameters='{"type":"object"}', is_strict=True, param="tools[1].parameters"),
        ),
        choice="auto",
        parallel=False,
    )
    told = json.loads(asked.rendering.tools)
    assert [tool["type"] for tool in told] == ["function", "function"]
    assert told[0]["function"] == {"name": "get_weather", "description": "Of a city", "parameters": SCHEMA}
    assert response.parallel_tool_calls is False
    assert response.tool_choice == "auto"
    assert [tool.name for tool in response.tools] == ["get_weather", "get_time"]


def test_a_call_is_an_item_whole_and_streamed(served: Served, client: openai.OpenAI) -> None:
    served.runtime.script = [*call("get_weather", '{"city": "Ulm"}'), END]
    (item,) = create(client, tools=[WEATHER]).output
    assert item.type == "function_call"
    assert (item.name, item.call_id, item.status) == ("get_weather", "call_0", "completed")
    assert json.loads(item.arguments) == {"city": "Ulm"}
    assert item.id.startswith("fc_")
    events = list(create(client, tools=[WEATHER], stream=True))
    pieces = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
    (done,) = [event for event in events if event.type == "response.function_call_arguments.done"]
    assert "".join(pieces) == done.arguments == '{"city": "Ulm"}'
    assert len(pieces) == 2
    assert events[-1].type == "response.completed"
    assert events[-1].response.output[0].arguments == done.arguments


def test_the_clients_own_helpers_parse_a_call(served: Served, client: openai.OpenAI) -> None:
    class GetWeather(pydantic.BaseModel):
        city: str

    served.runtime.script = [Delta(thought="Hm."), Delta("I look."), *call("GetWeather", '{"city": "Ulm"}'), END]
    tool = openai.pydantic_function_tool(GetWeather)
    parsed = client.responses.parse(model="tiny", input="Hi", tools=[tool])
    assert [item.type for item in parsed.output] == ["reasoning", "message", "function_call"]
    assert parsed.output[2].parsed_arguments == GetWeather(city="Ulm")  # type: ignore[union-attr]
    assert asked_calling(served).functions[0].is_strict
    with client.responses.stream(model="tiny", input="Hi", tools=[tool]) as stream:
        final = stream.get_final_response()
    assert final.output[2].parsed_arguments == GetWeather(city="Ulm")  # type: ignore[union-attr]


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_loop_of_three_steps_sends_outputs_back_as_they_came(
    served: Served, client: openai.OpenAI, is_streamed: bool
) -> None:
    served.runtime.scripts = [
        [Delta(thought="Both."), *call("get_weather", '{"city": "Ulm"}'), *call("get_time", "{}", index=1), END],
        [Delta("And now:"), *call("get_weather", '{"city": "Bonn"}'), END],
        [Delta("Rain.", 1, FINISH)],
    ]
    history: list[Any] = [{"role": "user", "content": "Hi"}]
    for _ in range(3):
        made = create(client, input=history, tools=[WEATHER, TIME], store=False, stream=is_streamed)
        response = list(made)[-1].response if is_streamed else made
        history += response.output
        history += [
            {"type": "function_call_output", "call_id": item.call_id, "output": f"of {item.name}"}
            for item in response.output
            if item.type == "function_call"
        ]
    assert response.output_text == "Rain."
    assert served.runtime.asked[-1][1] == [
        Message("user", "Hi"),
        Message(
            "assistant",
            "",
            thought="Both.",
            tool_calls=(ToolCall("get_weather", '{"city": "Ulm"}', "call_0"), ToolCall("get_time", "{}", "call_1")),
        ),
        Message("tool", "of get_weather", tool_call_id="call_0", name="get_weather"),
        Message("tool", "of get_time", tool_call_id="call_1", name="get_time"),
        Message("assistant", "And now:", tool_calls=(ToolCall("get_weather", '{"city": "Bonn"}', "call_0"),)),
        Message("tool", "of get_weather", tool_call_id="call_0", name="get_weather"),
    ]


def test_a_turn_goes_on_from_a_kept_one_with_calls(served: Served, client: openai.OpenAI) -> None:
    served.runtime.scripts = [[Delta(thought="Hm."), *call("patch", '{"input": "*** x"}'), END]]
    first = create(client, tools=[PATCH])
    (_, item) = first.output
    output = {"type": "custom_tool_call_output", "call_id": item.call_id, "output": "done"}
    second = create(client, tools=[PATCH], input=[output], previous_response_id=first.id)
    assert served.runtime.asked[-1][1] == [
        Message("user", "Hi"),
        Message("assistant", "", thought="Hm.", tool_calls=(ToolCall("patch", '{"input": "*** x"}', "call_0"),)),
        Message("tool", "done", tool_call_id="call_0", name="patch"),
    ]
    kinds = [each.type for each in client.responses.input_items.list(second.id, order="asc")]
    assert kinds == ["message", "reasoning", "custom_tool_call", "custom_tool_call_output"]


def test_items_of_kept_answers_can_be_referred_to_until_they_go(served: Served, client: openai.OpenAI) -> None:
    served.runtime.scripts = [[Delta(thought="Hm."), *call("get_time", "{}"), END]]
    first = create(client, tools=[TIME])
    references: list[Any] = [{"type": "item_reference", "id": item.id} for item in first.output]
    output = {"type": "function_call_output", "call_id": "call_0", "output": "3"}
    history = [{"role": "user", "content": "Hi"}, *references, output]
    create(client, tools=[TIME], input=history)
    expected = [
        Message("user", "Hi"),
        Message("assistant", "", thought="Hm.", tool_calls=(ToolCall("get_time", "{}", "call_0"),)),
        Message("tool", "3", tool_call_id="call_0", name="get_time"),
    ]
    assert served.runtime.asked[-1][1] == expected
    create(client, tools=[TIME], input=[*references, output], previous_response_id=first.id)
    assert served.runtime.asked[-1][1] == expected, "what is there already is not there twice"
    create(client, tools=[TIME], input=[history[0], *references * 100, output])
    assert served.runtime.asked[-1][1] == expected, "nor is what a request refers to again and again"
    client.responses.delete(first.id)
    with pytest.raises(openai.BadRequestError, match=first.output[0].id) as caught:
        create(client, tools=[TIME], input=history)
    assert caught.value.param == "input[1].id"


def test_a_kept_answer_is_decoded_once_however_many_of_its_items_are_referred_to(
    served: Served, client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.runtime.scripts = [[Delta(thought="Hm."), *call("get_time", "{}"), END]]
    first = create(client, tools=[TIME])
    looked_up: list[str] = []
    holder = ResponseStore.holder

    def noted(store: ResponseStore, item_id: str, owner: str = "") -> StoredResponse | None:
        looked_up.append(item_id)
        return holder(store, item_id, owner)

    monkeypatch.setattr(ResponseStore, "holder", noted)
    references: list[Any] = [{"type": "item_reference", "id": item.id} for item in first.output]
    create(client, tools=[TIME], input=[{"role": "user", "content": "Hi"}, *references])
    assert looked_up == [first.output[0].id]
    assert len(first.output) == 2


def test_a_custom_tool_is_called_with_its_text(served: Served, client: openai.OpenAI) -> None:
    text = '*** Begin "x"\n\\ü✓😀\n'
    served.runtime.script = [*call("patch", json.dumps({"input": text})), END]
    (item,) = create(client, tools=[PATCH]).output
    assert (item.type, item.name, item.input, item.call_id) == ("custom_tool_call", "patch", text, "call_0")
    events = list(create(client, tools=[PATCH], stream=True))
    assert "".join(each.delta for each in events if each.type == "response.custom_tool_call_input.delta") == text
    (function,) = asked_calling(served).functions
    assert json.loads(function.parameters)["properties"] == {"input": {"type": "string"}}


def test_a_custom_tools_regular_expression_is_kept_and_its_lark_grammar_is_told(
    served: Served, client: openai.OpenAI
) -> None:
    regex = {**PATCH, "name": "digits", "format": {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"}}
    lark = {**PATCH, "format": LARK}
    response = create(client, tools=[regex, lark])
    digits, patch = asked_calling(served).functions
    assert json.loads(digits.parameters)["properties"]["input"]["pattern"] == "^(?:[0-9]+)$"
    assert "pattern" not in patch.parameters
    described = json.loads(served.runtime.requests[-1].rendering.tools)[1]["function"]["description"]
    assert described.startswith("Changes files")
    assert 'start: "a"+' in described
    (warning,) = response.model_extra["localllm"]["warnings"]
    assert "tools[1].format" in warning


def test_the_tools_of_a_namespace_are_called_by_both_names_and_come_back_by_their_own(
    served: Served, client: openai.OpenAI
) -> None:
    served.runtime.script = [*call("mcp__git__log", "{}"), *call("mcp__git__note", '{"input": "x"}', index=1), END]
    log, note = create(client, tools=[GIT, WEATHER]).output
    assert (log.type, log.name, log.namespace, log.arguments) == ("function_call", "log", "mcp__git", "{}")
    assert (note.type, note.name, note.namespace, note.input) == ("custom_tool_call", "note", "mcp__git", "x")
    assert asked_names(served) == ["mcp__git__log", "mcp__git__note", "get_weather"]
    told = json.loads(served.runtime.requests[-1].rendering.tools)
    assert told[0]["function"]["description"] == "[mcp__git: A repository]", "once, with the first of them"
    create(client, tools=[GIT], input=[{"role": "user", "content": "Hi"}, log, note])
    (calls,) = [message.tool_calls for message in served.runtime.requests[-1].messages or () if message.tool_calls]
    assert [each.name for each in calls] == ["mcp__git__log", "mcp__git__note"]


def test_two_namespaces_may_make_one_name(served: Served, client: openai.OpenAI) -> None:
    def within(namespace: str, name: str) -> dict[str, Any]:
        tools = [{"type": "function", "name": name}]
        return {"type": "namespace", "name": namespace, "description": "", "tools": tools}

    served.runtime.script = [*call("a__b__c_2", "{}"), END]
    (item,) = create(client, tools=[within("a", "b__c"), within("a__b", "c")]).output
    assert asked_names(served) == ["a__b__c", "a__b__c_2"]
    assert (item.namespace, item.name) == ("a__b", "c")


def test_tools_that_come_as_an_item_are_offered_in_later_turns_as_well(served: Served, client: openai.OpenAI) -> None:
    plain = {"type": "namespace", "name": "functions", "description": "", "tools": [WEATHER, PATCH]}
    item = {"type": "additional_tools", "role": "developer", "tools": [plain, GIT]}
    first = create(client, input=[item, {"role": "user", "content": "Hi"}])
    names = ["get_weather", "patch", "mcp__git__log", "mcp__git__note"]
    assert asked_names(served) == names
    assert served.runtime.asked[-1][1] == [Message("user", "Hi")]
    served.runtime.script = [*call("patch", '{"input": "x"}'), END]
    (made,) = create(client, previous_response_id=first.id).output
    assert asked_names(served) == names
    assert (made.name, made.namespace) == ("patch", "functions")


@pytest.mark.parametrize(
    ("choice", "how", "names"),
    [
        ("none", "none", ["get_weather", "patch", "mcp__git__log", "mcp__git__note"]),
        ("auto", "auto", ["get_weather", "patch", "mcp__git__log", "mcp__git__note"]),
        ("required", "required", ["get_weather", "patch", "mcp__git__log", "mcp__git__note"]),
        ({"type": "function", "name": "get_weather"}, "required", ["get_weather"]),
        ({"type": "function", "name": "log"}, "required", ["mcp__git__log"]),
        ({"type": "function", "name": "mcp__git__log"}, "required", ["mcp__git__log"]),
        ({"type": "custom", "name": "patch"}, "required", ["patch"]),
        ({"type": "namespace", "name": "mcp__git"}, "required", ["mcp__git__log", "mcp__git__note"]),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "custom", "name": "patch"}, SEARCH]},
            "auto",
            ["patch"],
        ),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "namespace", "name": "mcp__git"}]},
            "required",
            ["mcp__git__log", "mcp__git__note"],
        ),
    ],
)  # fmt: skip
def test_every_way_to_choose_leaves_the_prompts_tools_as_they_are(
    served: Served, choice: Any, how: str, names: list[str]
) -> None:
    body = {"model": "tiny", "input": "Hi", "tools": [WEATHER, PATCH, GIT], "tool_choice": choice}
    response = served.http.post(PATH, json=body).json()
    assert asked_calling(served).choice == how
    assert asked_names(served) == names
    told = json.loads(served.runtime.requests[-1].rendering.tools)
    assert len(told) == 4
    assert (response["tool_choice"], response["tools"]) == (choice, body["tools"])


@pytest.mark.parametrize(
    "choice", [{"type": "web_search"}, {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]}]
)
def test_a_choice_that_only_a_hosted_tool_could_meet_is_left_out_with_it(served: Served, choice: Any) -> None:
    body = {"model": "tiny", "input": "x", "tools": [WEATHER, SEARCH], "tool_choice": choice}
    response = served.http.post("/v1/responses", json=body)
    assert response.headers["x-localllm-ignored"] == "tools[1]:web_search, tool_choice"
    (given,) = served.runtime.requests
    assert given.calling is not None
    assert given.calling.choice == "auto"
    alone = {**body, "tools": [SEARCH], "tool_choice": "required"}
    assert "tool_choice" in served.http.post("/v1/responses", json=alone).headers["x-localllm-ignored"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": "any"}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "name": "other"}}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function"}}, "tool_choice.function"),
        ({"tools": [WEATHER], "tool_choice": {"type": "web_search"}}, "tool_choice.type"),
        ({"tools": [WEATHER], "tool_choice": {"type": "allowed_tools", "tools": [SEARCH]}}, "tool_choice.tools"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [{"type": "namespace", "tools": []}]}, "tools[0].name"),
        ({"tools": [WEATHER, WEATHER]}, "tools[1].name"),
        ({"tools": [{**GIT, "tools": [WEATHER, WEATHER]}]}, "tools[0].tools[1].name"),
        ({"tools": [{**WEATHER, "parameters": True}]}, "tools[0].parameters"),
        ({"tools": [{**PATCH, "format": {**LARK, "syntax": "ebnf"}}]}, "tools[0].format.syntax"),
        ({"tools": [{"name": "f"}]}, "tools[0].type"),
    ],
)  # fmt: skip
def test_wrong_tools_and_choices_are_refused_by_name(served: Served, fields: dict[str, Any], param: str) -> None:
    assert refused(served, **fields)["param"] == param


def test_a_structure_beside_tools_holds_the_text_of_an_answer_that_may_have_one(
    served: Served, client: openai.OpenAI
) -> None:
    text = {"format": {"type": "json_object"}}
    create(client, tools=[WEATHER], text=text, tool_choice="none")
    none = served.runtime.requests[-1]
    assert (none.structure is None, none.calling) == (False, None)
    assert none.rendering.tools
    create(client, tools=[WEATHER], text=text, tool_choice="required")
    required = served.runtime.requests[-1]
    assert required.structure is None
    assert required.calling is not None
    create(client, tools=[WEATHER], text=text)
    either = served.runtime.requests[-1]
    assert None not in (either.structure, either.calling)


def test_tools_that_run_elsewhere_are_left_out_and_named(served: Served) -> None:
    tools = [WEATHER, SEARCH, {"type": "image_generation"}, {"type": "mcp", "server_label": "x"}]
    response = served.http.post(PATH, json={"model": "tiny", "input": "Hi", "tools": tools})
    assert response.headers["x-localllm-ignored"] == "tools[1]:web_search, tools[2]:image_generation, tools[3]:mcp"
    warnings = response.json()["localllm"]["warnings"]
    assert [warning.partition(":")[0] for warning in warnings] == ["tools[1]", "tools[2]", "tools[3]"]
    assert asked_names(served) == ["get_weather"]
    served.http.post(PATH, json={"model": "tiny", "input": "Hi", "tools": [SEARCH]})
    assert served.runtime.requests[-1].calling is None


def test_a_server_may_be_told_to_refuse_tools_that_run_elsewhere() -> None:
    with running(Settings(port=0, grace_s=0.1, hosted_tools="refuse")) as served:
        error = refused(served, tools=[WEATHER, SEARCH])
        assert (error["code"], error["param"]) == ("unsupported_parameter", "tools[1].type")
        assert "web_search" in error["message"]


def test_fields_of_tools_that_are_nobodys_are_named(served: Served) -> None:
    tools = [{**WEATHER, "defer_loading": True, "zeal": 1}, {**SEARCH, "zest": 1}]
    body = {"model": "tiny", "input": "Hi", "tools": tools, "reasoning": {"mode": "pro", "zest": 1}}
    ignored = served.http.post(PATH, json=body).headers["x-localllm-ignored"]
    assert ignored == "tools[].zeal, reasoning.zest, tools[1]:web_search"


def test_a_call_that_was_cut_is_incomplete(served: Served, client: openai.OpenAI) -> None:
    first, second, _ = call("get_weather", '{"city": "Ulm"}')
    served.runtime.script = [first, second, Delta("", 0, LENGTH)]
    response = create(client, tools=[WEATHER])
    (item,) = response.output
    assert (response.status, item.status, item.arguments) == ("incomplete", "incomplete", '{"city"')


@pytest.mark.parametrize(
    ("tool", "arguments", "sent", "shown", "output"),
    [
        (
            {"type": "local_shell"},
            '{"command":["ls"],"timeout_ms":5}',
            {"action": {"type": "exec", "command": ["ls"], "env": {}, "timeout_ms": 5}},
            {"command": ["ls"], "timeout_ms": 5},
            {"type": "local_shell_call_output", "output": "a.txt"},
        ),
        (
            {"type": "shell", "environment": {"type": "local"}},
            '{"commands":["ls"]}',
            {"action": {"commands": ["ls"]}, "environment": {"type": "local"}},
            {"commands": ["ls"]},
            {
                "type": "shell_call_output",
                "output": [{"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
            },
        ),
        (
            {"type": "apply_patch"},
            '{"type":"delete_file","path":"a.txt","diff":""}',
            {"operation": {"type": "delete_file", "path": "a.txt"}},
            {"type": "delete_file", "path": "a.txt", "diff": ""},
            {"type": "apply_patch_call_output", "status": "completed", "output": "a.txt is gone"},
        ),
    ],
)
def test_tools_that_the_client_runs_are_called_by_items_of_their_own(
    served: Served, client: openai.OpenAI, tool: Any, arguments: str, sent: Any, shown: Any, output: Any
) -> None:
    kind = tool["type"]
    served.runtime.script = [*call(kind, arguments), END]
    choice: Any = {"type": kind}
    events: list[Any] = [*create(client, tools=[tool, SEARCH], tool_choice=choice, stream=True)]
    response = events[-1].response
    assert [event.type for event in events[2:4]] == ["response.output_item.added", "response.output_item.done"]
    (item,) = response.output
    assert item.model_dump(exclude_none=True) == {
        "type": f"{kind}_call", "id": item.id, "call_id": "call_0", "status": "completed", **sent,
    }  # fmt: skip
    calling = asked_calling(served)
    assert [function.name for function in calling.functions] == [kind]
    assert calling.choice == "required"
    again = {"call_id": "call_0", **output}
    history: list[Any] = [{"role": "user", "content": "Hi"}, item.model_dump(exclude_none=True), again]
    for before, more in ((response.id, [again]), (None, history)):
        served.runtime.script = [Delta("Done.", 1), END]
        create(client, previous_response_id=before, input=more)
        _, own, result = served.runtime.requests[-1].messages or ()
        assert json.loads(own.tool_calls[0].arguments) == shown
        assert (own.tool_calls[0].name, result.name, result.tool_call_id) == (kind, kind, "call_0")
        assert "a.txt" in result.content


def test_a_shell_in_a_container_of_the_vendors_is_left_out(served: Served) -> None:
    body = {"model": "tiny", "input": "Hi", "tools": [{"type": "shell", "environment": {"type": "container_auto"}}]}
    response = served.http.post(PATH, json={**body, "tool_choice": {"type": "shell"}})
    assert response.headers["x-localllm-ignored"] == "tools[0]:shell, tool_choice"
