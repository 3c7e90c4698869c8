"""Calls of tools in the chat API: what is asked for, and how the answer says it, with the official client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from localllm.server.apis.openai.requests import parse_chat
from localllm.types import CallDelta, Calling, Delta, Finish, Function, Timings, TokenLogprob, Usage
from tests.later import openai
from tests.server.conftest import Served
from tests.server.fake_runtime import FINISH

SCHEMA = (
    '{"type": "object", "properties": {"zoo": {"type": "string"}, "city": {"type": "string"}}, "required": ["city"]}'
)
WEATHER: dict[str, Any] = {"name": "get_weather", "description": "Of a city", "parameters": json.loads(SCHEMA)}
OTHER: dict[str, Any] = {"name": "other"}
ASK: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Paris?"}]}
ANYTHING: tuple[Any, ...] = ("{}", [], 5, True)
LENGTH = Finish("length", Usage(7, 3), Timings(0, 0, 0))
ARGUMENTS = '{"city":"Paris"}'
CALL = (
    Delta("", 1, calls=(CallDelta(0, '{"ci', "get_weather", "call_1"),)),
    Delta("", 1, calls=(CallDelta(0, 'ty":"Paris"'),)),
    Delta("", 1, FINISH, calls=(CallDelta(0, "}"),)),
)
TWO_CALLS = (
    Delta("Let me see.", 1, thought="Both."),
    Delta("", 1, calls=(CallDelta(0, ARGUMENTS, "get_weather", "call_1"), CallDelta(1, "", "other", "call_2"))),
    Delta("", 1, FINISH, calls=(CallDelta(1, "{}"),)),
)
PATCH: dict[str, Any] = {"name": "patch", "description": "Of a file"}
CUSTOM = (
    Delta("", 1, calls=(CallDelta(0, '{"in', "patch", "call_1"),)),
    Delta("", 1, calls=(CallDelta(0, 'put": "a\\'),)),
    Delta("", 1, FINISH, calls=(CallDelta(0, 'nb"}'),)),
)


def tool(function: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": function}


def custom(**format: Any) -> dict[str, Any]:
    return {"type": "custom", "custom": {**PATCH, **({"format": format} if format else {})}}


def named(name: str, kind: str = "function") -> dict[str, Any]:
    return {"type": kind, kind: {"name": name}}


AUTO = {"tools": [tool(OTHER), tool(WEATHER)]}
BY_NAME = {**AUTO, "tool_choice": named("get_weather")}
REQUIRED = {**AUTO, "tool_choice": "required"}
LEGACY_AUTO = {"functions": [WEATHER]}
LEGACY = {**LEGACY_AUTO, "function_call": {"name": "get_weather"}}


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    served.runtime.script = CALL
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0, timeout=10) as client:
        yield client


def create(client: openai.OpenAI, **fields: Any) -> Any:
    return client.chat.completions.create(**ASK, **fields)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (AUTO, "tool_calls"),
        (REQUIRED, "tool_calls"),
        (BY_NAME, "stop"),
        (LEGACY_AUTO, "function_call"),
        (LEGACY, "stop"),
    ],
)
def test_an_answer_of_calls_has_the_end_that_openai_gives_and_no_text(
    client: openai.OpenAI, asked: dict[str, Any], reason: str
) -> None:
    (choice,) = create(client, **asked).choices
    assert choice.finish_reason == reason
    assert choice.message.content is None
    if "functions" in asked:
        assert choice.message.tool_calls is None
        called = choice.message.function_call
    else:
        assert choice.message.function_call is None
        (call,) = choice.message.tool_calls
        assert (call.type, call.id) == ("function", "call_1")
        called = call.function
    assert (called.name, called.arguments) == ("get_weather", ARGUMENTS)
    *_, last = create(client, **asked, stream=True)
    assert last.choices[0].finish_reason == reason


def test_a_streamed_call_begins_with_its_id_type_and_name_and_its_arguments_follow(
    served: Served, client: openai.OpenAI
) -> None:
    served.runtime.script = TWO_CALLS
    chunks = create(client, **AUTO, stream=True)
    deltas = [chunk.choices[0].delta.model_dump(exclude_unset=True) for chunk in chunks]
    assert deltas == [
        {"role": "assistant"},
        {"reasoning_content": "Both.", "reasoning": "Both."},
        {"content": "Let me see."},
        {
            "tool_calls": [
                {"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ""}}
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": ARGUMENTS}}]},
        {
            "tool_calls": [
                {"index": 1, "id": "call_2", "type": "function", "function": {"name": "other", "arguments": ""}}
            ]
        },
        {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
        {},
    ]


def test_the_clients_own_accumulation_of_a_stream_is_the_whole_answer(served: Served, client: openai.OpenAI) -> None:
    served.runtime.script = TWO_CALLS
    whole = create(client, **AUTO).choices[0].message
    asked: Any = {**ASK, **AUTO}
    with client.chat.completions.stream(**asked) as stream:
        streamed = stream.get_final_completion().choices[0].message
    assert [call.model_dump() for call in whole.tool_calls] == [
        call.model_dump(exclude={"index": True, "function": {"parsed_arguments"}}) for call in streamed.tool_calls or ()
    ]
    assert (streamed.content, whole.content) == ("Let me see.", "Let me see.")


def test_several_answers_have_calls_of_their_own(served: Served, client: openai.OpenAI) -> None:
    other = [Delta("", 1, FINISH, calls=(CallDelta(0, "{}", "other", "call_9"),), notes=("odd",))]
    served.runtime.scripts = [CALL, other, CALL, other]
    whole = create(client, **REQUIRED, n=2)
    assert [choice.message.tool_calls[0].function.arguments for choice in whole.choices] == [ARGUMENTS, "{}"]
    assert whole.model_extra["localllm"] == {"warnings": ["choices[1]: odd"]}
    texts: list[list[str]] = [[], []]
    for chunk in create(client, **REQUIRED, n=2, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += [call.id or call.function.arguments for call in choice.delta.tool_calls or ()]
    assert ["".join(each) for each in texts] == [f"call_1{ARGUMENTS}", "call_9{}"]


@pytest.mark.parametrize("asked", [AUTO, BY_NAME, REQUIRED, LEGACY])
def test_a_call_that_is_cut_says_so(served: Served, client: openai.OpenAI, asked: dict[str, Any]) -> None:
    served.runtime.script = [Delta("", 3, LENGTH, calls=(CallDelta(0, '{"city":"Pa', "get_weather", "c"),))]
    assert create(client, **asked).choices[0].finish_reason == "length"
    *_, last = create(client, **asked, stream=True)
    assert last.choices[0].finish_reason == "length"


def test_the_older_words_are_answered_in_theirs(served: Served, client: openai.OpenAI) -> None:
    deltas = [
        delta
        for chunk in create(client, **LEGACY, stream=True)
        if (delta := chunk.choices[0].delta.function_call) is not None
    ]
    assert [delta.name for delta in deltas] == ["get_weather", None, None, None]
    assert "".join(delta.arguments or "" for delta in deltas) == ARGUMENTS
    served.runtime.script = TWO_CALLS
    whole = create(client, **LEGACY_AUTO)
    assert whole.choices[0].message.function_call.arguments == ARGUMENTS
    (warning,) = whole.model_extra["localllm"]["warnings"]
    assert "2 calls" in warning


def test_a_custom_tool_is_called_with_a_text(served: Served, client: openai.OpenAI) -> None:
    served.runtime.script = CUSTOM
    asked = {"tools": [custom(), tool(OTHER)]}
    whole = create(client, **asked).choices[0]
    (call,) = whole.message.tool_calls
    assert (call.type, call.id, call.custom.name, call.custom.input) == ("custom", "call_1", "patch", "a\nb")
    assert whole.finish_reason == "tool_calls"
    chunks = [chunk.choices[0].delta.model_dump(exclude_unset=True) for chunk in create(client, **asked, stream=True)]
    assert [chunk["tool_calls"][0] for chunk in chunks if "tool_calls" in chunk] == [
        {"index": 0, "id": "call_1", "type": "custom", "custom": {"name": "patch", "input": ""}},
        {"index": 0, "custom": {"input": "a"}},
        {"index": 0, "custom": {"input": "\nb"}},
    ]


def test_the_log_probabilities_of_a_call_come_with_it(served: Served, client: openai.OpenAI) -> None:
    served.runtime.script = [
        Delta("", 1, None, (TokenLogprob(b"<tool>", -1.0),)),
        Delta("", 1, None, (TokenLogprob(b"{", -1.0),), calls=(CallDelta(0, "{", "other", "c"),)),
        Delta("", 1, FINISH, (TokenLogprob(b"}", 0),), calls=(CallDelta(0, "}"),)),
    ]
    (choice,) = create(client, **AUTO, logprobs=True).choices
    assert [each.token for each in choice.logprobs.content] == ["<tool>", "{", "}"]
    told = [chunk.choices[0].logprobs for chunk in create(client, **AUTO, logprobs=True, stream=True)]
    assert [each.token for logprobs in told if logprobs for each in logprobs.content] == ["<tool>", "{", "}"]


@pytest.mark.parametrize("stream", [False, True])
def test_what_could_not_be_read_as_a_call_is_text_and_a_warning_says_why(
    served: Served, client: openai.OpenAI, stream: bool
) -> None:
    served.runtime.script = [
        Delta("<tool_call>{oops", 1, notes=("a call of undeclared function 'x' is in the text",)),
        Delta("", 1, FINISH),
    ]
    if stream:
        chunks = list(create(client, **AUTO, stream=True, stream_options={"include_usage": True}))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == "<tool_call>{oops"
        assert [chunk.model_extra.get("localllm") for chunk in chunks[:-2]] == [None] * (len(chunks) - 2)
        told = chunks[-2]
    else:
        told = create(client, **AUTO)
        assert told.choices[0].message.content == "<tool_call>{oops"
    assert told.choices[0].finish_reason == "stop"
    assert told.model_extra["localllm"] == {"warnings": ["a call of undeclared function 'x' is in the text"]}


def test_what_is_not_kept_of_a_request_is_said_once_for_all_its_answers(served: Served, client: openai.OpenAI) -> None:
    served.runtime.notes = ("system-moved", "schema-not-kept: tools[0].function.parameters")
    lark = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}}
    told = [
        "tools[0].custom.format: the Lark grammar is shown to the model but not enforced",
        "schema-not-kept: tools[0].function.parameters",
    ]
    whole = create(client, tools=[custom(**lark)], n=2)
    assert whole.model_extra["localllm"] == {"warnings": told}
    chunks = create(client, tools=[custom(**lark)], n=2, stream=True)
    assert [chunk.model_extra["localllm"]["warnings"] for chunk in chunks if "localllm" in chunk.model_extra] == [told]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ([Delta("", 1, FINISH)], "the answer has no text: the model ended it immediately"),
        ([Delta("", 1, thought="Hm."), Delta("", 1, FINISH)], "the answer has no text: the model ended it after its"),
        ([Delta("", 1, FINISH, thought="Hm", notes=("it ended within its thought",))], "it ended within its thought"),
        ([Delta("", 1, LENGTH)], None),
        ([Delta("x", 1, FINISH)], None),
    ],
)
def test_no_text_is_empty_without_a_reason(
    served: Served, client: openai.OpenAI, script: list[Delta], reason: str | None
) -> None:
    served.runtime.script = script
    whole = create(client).model_extra.get("localllm")
    *_, last = create(client, stream=True)
    assert whole == last.model_extra.get("localllm")
    assert (whole is None) if reason is None else whole["warnings"][0].startswith(reason)


@pytest.mark.parametrize("asked", [{}, REQUIRED])
def test_a_thought_has_fields_and_a_count_of_its_own(
    served: Served, client: openai.OpenAI, asked: dict[str, Any]
) -> None:
    finish = Finish("stop", Usage(7, 5, reasoning_tokens=2), Timings(0, 0, 0))
    call = CallDelta(0, ARGUMENTS, "get_weather", "c")
    last = Delta("", 2, finish, calls=(call,)) if asked else Delta("Paris", 2, finish)
    served.runtime.script = [Delta("", 1, thought="Let me "), Delta("", 1, thought="see."), last]
    whole = create(client, **asked)
    message = whole.choices[0].message
    assert message.model_extra["reasoning_content"] == message.model_extra["reasoning"] == "Let me see."
    assert message.content == (None if asked else "Paris")
    assert whole.usage.completion_tokens_details.reasoning_tokens == 2
    thoughts = {"reasoning_content": "", "reasoning": ""}
    for chunk in create(client, **asked, stream=True):
        for name in thoughts:
            thoughts[name] += (chunk.choices[0].delta.model_extra or {}).get(name, "")
    assert set(thoughts.values()) == {"Let me see."}


def test_an_answer_without_a_thought_has_no_word_of_one(served: Served) -> None:
    for stream in (False, True):
        text = served.http.post("/v1/chat/completions", json={**ASK, "stream": stream}).text
        assert "reasoning_content" not in text
        assert '"reasoning"' not in text
        assert 'localllm":{' not in text


FUNCTIONS = (
    Function(name="other", param="tools[0].function.parameters"),
    Function(name="get_weather", parameters=SCHEMA, param="tools[1].function.parameters"),
)


@pytest.mark.parametrize(
    ("choice", "calling"),
    [
        ({}, Calling(functions=FUNCTIONS)),
        ({"tool_choice": "auto", "parallel_tool_calls": False}, Calling(functions=FUNCTIONS, parallel=False)),
        ({"tool_choice": "none"}, Calling(functions=FUNCTIONS, choice="none")),
        ({"tool_choice": "required"}, Calling(functions=FUNCTIONS, choice="required")),
        (
            {"tool_choice": named("get_weather")},
            Calling(functions=FUNCTIONS[1:], choice="required", parallel=False),
        ),
        (
            {"tool_choice": {"type": "function", "name": "other"}},
            Calling(functions=FUNCTIONS[:1], choice="required", parallel=False),
        ),
        (
            {
                "tool_choice": {
                    "type": "allowed_tools",
                    "allowed_tools": {"mode": "required", "tools": [named("other")]},
                }
            },
            Calling(functions=FUNCTIONS[:1], choice="required"),
        ),
        (
            {
                "tool_choice": {
                    "type": "allowed_tools",
                    "allowed_tools": {"mode": "auto", "tools": [named("get_weather"), named("other")]},
                }
            },
            Calling(functions=FUNCTIONS[::-1]),
        ),
    ],
)
def test_the_choice_says_what_may_be_called_and_the_model_is_told_of_all_tools(
    choice: dict[str, Any], calling: Calling
) -> None:
    weather = f'{{"name": "get_weather", "description": "Of a city", "parameters": {SCHEMA}, "strict": false}}'
    tools = f'[{{"type": "function", "function": {{"name": "other"}}}}, {{"function": {weather}, "type": "function"}}]'
    body = json.dumps({**ASK, **choice})[:-1] + f', "tools": {tools}}}'
    (request,) = parse_chat(body.encode())[0].generations(most=1)
    assert request.calling == calling
    assert request.structure is None
    no_arguments = {"name": "other", "description": "", "parameters": {"type": "object", "properties": {}}}
    assert json.loads(request.rendering.tools) == [tool(no_arguments), tool(WEATHER)]
    assert SCHEMA in request.rendering.tools, "as the client wrote it"
    order = [*json.loads(request.rendering.tools)[1]["function"]]
    assert order == ["name", "description", "parameters"], "as models were taught it, whatever the client's order"


@pytest.mark.parametrize(
    ("given", "schema"),
    [
        ("", ""),
        (', "parameters": {}', ""),
        (', "parameters": null', ""),
        (
            ', "parameters": {"properties": {"b": {}, "a": {}}}',
            '{"type":"object","properties": {"b": {}, "a": {}}}',
        ),
        (', "parameters": {"$ref": "#/$defs/A"}', '{"$ref": "#/$defs/A"}'),
        (', "strict": true, "parameters": {"type": "object"}', '{"type": "object"}'),
    ],
)
def test_arguments_are_an_object_whatever_the_schema_leaves_out(given: str, schema: str) -> None:
    body = json.dumps(ASK)[:-1] + f', "tools": [{{"type": "function", "function": {{"name": "f"{given}}}}}]}}'
    (request,) = parse_chat(body.encode())[0].generations(most=1)
    assert request.calling is not None
    (function,) = request.calling.functions
    wanted = Function(name="f", parameters=schema, is_strict="strict" in given, param="tools[0].function.parameters")
    assert function == wanted


def test_functions_of_before_there_were_tools_are_tools(served: Served) -> None:
    for choice, calling in (
        ({}, Calling(functions=(Function(name="f", param="functions[0].parameters"),), parallel=False)),
        (
            {"function_call": {"name": "f"}},
            Calling(
                functions=(Function(name="f", param="functions[0].parameters"),), choice="required", parallel=False
            ),
        ),
    ):
        asked = {**ASK, "functions": [{"name": "f"}], **choice}
        assert served.http.post("/v1/chat/completions", json=asked).status_code == 200
        request = served.runtime.requests[-1]
        assert request.calling == calling
        assert [each["function"]["name"] for each in json.loads(request.rendering.tools)] == ["f"]


@pytest.mark.parametrize(
    ("format", "schema", "told", "warns"),
    [
        ({}, {"type": "string"}, "Of a file", False),
        ({"type": "text"}, {"type": "string"}, "Of a file", False),
        (
            {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a|b"}},
            {"type": "string", "pattern": "^(?:a|b)$"},
            "Of a file",
            False,
        ),
        (
            {"type": "grammar", "grammar": {"syntax": "lark", "definition": 'start: "x"'}},
            {"type": "string"},
            'Of a file\n\nThe input must follow this Lark grammar:\nstart: "x"',
            True,
        ),
    ],
)
def test_a_custom_tool_is_a_function_of_one_text(
    served: Served, format: dict[str, Any], schema: dict[str, Any], told: str, warns: bool
) -> None:
    response = served.http.post("/v1/chat/completions", json={**ASK, "tools": [custom(**format)]})
    (request,) = served.runtime.requests
    assert request.calling is not None
    parameters = {"type": "object", "properties": {"input": schema}, "required": ["input"]}
    assert json.loads(request.calling.functions[0].parameters) == parameters
    assert json.loads(request.rendering.tools) == [tool({**PATCH, "description": told, "parameters": parameters})]
    assert ("localllm" in response.json()) is warns


@pytest.mark.parametrize(
    ("change", "code", "param"),
    [
        ({"tools": [{"type": "web_search"}]}, "unsupported_parameter", "tools[0].type"),
        ({"tools": [{"type": "function", "name": "f"}]}, "invalid_parameter", "tools[0].function"),
        ({"tools": [custom(type="code")]}, "unsupported_parameter", "tools[0].custom.format.type"),
        ({"tools": [custom(type="grammar")]}, "invalid_parameter", "tools[0].custom.format.grammar"),
        (
            {"tools": [custom(type="grammar", grammar={"syntax": "peg", "definition": ""})]},
            "unsupported_parameter",
            "tools[0].custom.format.grammar.syntax",
        ),
        ({**AUTO, "tool_choice": {"type": "mcp"}}, "unsupported_parameter", "tool_choice.type"),
        ({**AUTO, "tool_choice": {"type": "allowed_tools"}}, "invalid_parameter", "tool_choice.allowed_tools"),
        (
            {**AUTO, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}},
            "invalid_parameter",
            "tool_choice.allowed_tools.tools",
        ),
        ({"tool_choice": "required"}, "invalid_parameter", "tool_choice"),
        ({"tool_choice": "required", "tools": []}, "invalid_parameter", "tool_choice"),
        ({"function_call": {"name": "f"}}, "invalid_parameter", "function_call"),
        ({"functions": [WEATHER], "function_call": "get_weather"}, "invalid_parameter", "function_call"),
        ({**REQUIRED, "functions": [WEATHER]}, "invalid_parameter", "functions"),
        ({**AUTO, "tool_choice": "get_weather"}, "invalid_parameter", "tool_choice"),
        ({"tools": [tool(OTHER)], "tool_choice": named("get_weather")}, "invalid_parameter", "tool_choice"),
        ({"tools": [tool(WEATHER), tool(OTHER), tool(WEATHER)]}, "invalid_parameter", "tools[2].function.name"),
        ({**AUTO, "tool_choice": {"type": "function"}}, "invalid_parameter", "tool_choice.function"),
        ({"tools": [{"type": "function"}]}, "invalid_parameter", "tools[0].function"),
        ({"tools": [tool({"name": ""})]}, "invalid_parameter", "tools[0].function.name"),
        ({"tools": [tool({"name": "n" * 257})]}, "invalid_parameter", "tools[0].function.name"),
        ({"tools": [tool({})]}, "invalid_parameter", "tools[0].function.name"),
        ({"tools": {"a": 1}}, "invalid_parameter", "tools"),
        *[
            ({"tools": [tool({**OTHER, "parameters": schema})]}, "invalid_parameter", "tools[0].function.parameters")
            for schema in ANYTHING
        ],
        ({**REQUIRED, "ignore_eos": True}, "invalid_parameter", "ignore_eos"),
        ({"reasoning_format": "xml"}, "invalid_parameter", "reasoning_format"),
        ({"thinking": {"type": "off"}}, "invalid_parameter", "thinking.type"),
        ({"thinking": {"type": "enabled", "budget_tokens": -2}}, "invalid_parameter", "thinking.budget_tokens"),
        ({"thinking_budget": 5, "reasoning_budget_tokens": 6}, "invalid_parameter", "reasoning_budget_tokens"),
    ],
)
def test_what_is_wrong_is_refused_by_name(served: Served, change: dict[str, Any], code: str, param: str) -> None:
    response = served.http.post("/v1/chat/completions", json={**ASK, **change})
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert (error["code"], error["param"]) == (code, param)
    assert served.runtime.asked == []


def test_a_structure_holds_the_text_of_an_answer_that_may_have_one(served: Served) -> None:
    shape = {"response_format": {"type": "json_object"}}
    for choice in ("none", "required", "auto"):
        asked = {**ASK, **AUTO, **shape, "tool_choice": choice}
        assert served.http.post("/v1/chat/completions", json=asked).status_code == 200
    none, required, either = served.runtime.requests
    assert (none.structure is None, none.calling) == (False, None)
    assert none.rendering.tools == required.rendering.tools
    assert required.structure is None
    assert required.calling is not None
    assert None not in (either.structure, either.calling)


def test_fields_of_a_tool_that_are_nobodys_are_named_in_a_header(served: Served) -> None:
    patch = {"type": "custom", "custom": {**PATCH, "zoo": 1}}
    strange = {"tools": [{**tool({**WEATHER, "zeal": 1, "strict": True}), "cache": 1}, patch]}
    thinking = {"thinking": {"type": "enabled", "clear": True}}
    response = served.http.post("/v1/chat/completions", json={**ASK, **strange, **thinking})
    assert (
        response.headers["x-localllm-ignored"]
        == "tools[].cache, tools[].custom.zoo, tools[].function.zeal, thinking.clear"
    )


@pytest.mark.parametrize(
    ("fields", "splits", "budget", "variables"),
    [
        ({}, True, None, {}),
        ({"reasoning_format": "none"}, False, None, {}),
        ({"reasoning_format": "deepseek"}, True, None, {}),
        ({"reasoning_format": "auto", "thinking_budget": 7}, True, 7, {}),
        ({"reasoning_budget_tokens": -1}, True, None, {}),
        ({"thinking": {"type": "disabled"}}, True, None, {"enable_thinking": False, "thinking": False}),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 9}},
            True,
            9,
            {"enable_thinking": True, "thinking": True},
        ),
        ({"thinking": {"type": "adaptive"}}, True, None, {}),
        (
            {"thinking": {"type": "disabled"}, "enable_thinking": True},
            True,
            None,
            {"enable_thinking": True, "thinking": True},
        ),
    ],
)
def test_how_thoughts_are_wanted_reaches_the_model(
    served: Served, fields: dict[str, Any], splits: bool, budget: int | None, variables: dict[str, Any]
) -> None:
    assert served.http.post("/v1/chat/completions", json={**ASK, **fields}).status_code == 200
    (request,) = served.runtime.requests
    assert (request.splits_thoughts, request.thinking_budget) == (splits, budget)
    assert json.loads(request.rendering.variables) == variables
