"""A forced call: asked for with `tool_choice` (or the older `function_call`), its arguments are the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from localllm.server.openai.requests import parse_chat
from localllm.structures import Structure
from localllm.types import Delta, Finish, Message, Timings, TokenLogprob, Usage
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
DELTAS = (Delta('{"ci', 1), Delta('ty":"Paris"', 1), Delta("}", 1, FINISH))


def tool(function: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": function}


NAMED = {"type": "function", "function": {"name": "get_weather"}}
BY_NAME = {"tools": [tool(OTHER), tool(WEATHER)], "tool_choice": NAMED}
REQUIRED = {"tools": [tool(WEATHER)], "tool_choice": "required"}
LEGACY = {"functions": [WEATHER], "function_call": {"name": "get_weather"}}


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    served.runtime.script = DELTAS
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0, timeout=10) as client:
        yield client


def create(client: openai.OpenAI, **fields: Any) -> Any:
    return client.chat.completions.create(**ASK, **fields)


@pytest.mark.parametrize(("asked", "reason"), [(BY_NAME, "stop"), (REQUIRED, "tool_calls")])
def test_the_answer_is_a_call_with_the_end_that_openai_gives(
    client: openai.OpenAI, asked: dict[str, Any], reason: str
) -> None:
    (choice,) = create(client, **asked, parallel_tool_calls=False).choices
    assert choice.finish_reason == reason
    assert choice.message.content is None
    (call,) = choice.message.tool_calls
    assert call.type == "function"
    assert (call.function.name, call.function.arguments) == ("get_weather", ARGUMENTS)
    assert call.id.startswith("call_")


@pytest.mark.parametrize(("asked", "reason"), [(BY_NAME, "stop"), (REQUIRED, "tool_calls")])
def test_a_streamed_call_begins_with_its_name_and_its_arguments_follow(
    client: openai.OpenAI, asked: dict[str, Any], reason: str
) -> None:
    first, *more, last = create(client, **asked, stream=True)
    (begun,) = first.choices[0].delta.tool_calls
    assert first.choices[0].delta.role == "assistant"
    assert begun.function is not None
    assert (begun.index, begun.type, begun.function.name, begun.function.arguments) == (
        0,
        "function",
        "get_weather",
        "",
    )
    assert begun.id is not None
    deltas = [delta for chunk in more for delta in chunk.choices[0].delta.tool_calls or ()]
    assert "".join(delta.function.arguments or "" for delta in deltas if delta.function) == ARGUMENTS
    assert all(delta.index == 0 and delta.id is None for delta in deltas)
    assert all(chunk.choices[0].delta.content is None for chunk in (first, *more, last))
    assert last.choices[0].finish_reason == reason


def test_several_answers_are_a_call_each_with_ids_of_their_own(served: Served, client: openai.OpenAI) -> None:
    other = [Delta('{"city":"Rome"}', 1, FINISH)]
    served.runtime.scripts = [DELTAS, other, DELTAS, other]
    whole = create(client, **REQUIRED, n=2)
    calls = [choice.message.tool_calls[0] for choice in whole.choices if choice.message.tool_calls]
    assert [call.function.arguments for call in calls if call.type == "function"] == [ARGUMENTS, '{"city":"Rome"}']
    assert len({call.id for call in calls}) == 2
    texts, ids = ["", ""], set[str | None]()
    for chunk in create(client, **REQUIRED, n=2, stream=True):
        for choice in chunk.choices:
            for delta in choice.delta.tool_calls or ():
                ids |= {delta.id} - {None}
                texts[choice.index] += (delta.function and delta.function.arguments) or ""
    assert texts == [ARGUMENTS, '{"city":"Rome"}']
    assert len(ids) == 2


@pytest.mark.parametrize("asked", [BY_NAME, REQUIRED, LEGACY])
def test_a_call_that_is_cut_says_so(served: Served, client: openai.OpenAI, asked: dict[str, Any]) -> None:
    served.runtime.script = [Delta('{"city":"Pa', 3, LENGTH)]
    assert create(client, **asked).choices[0].finish_reason == "length"
    *_, last = create(client, **asked, stream=True)
    assert last.choices[0].finish_reason == "length"


def test_the_older_words_are_answered_in_theirs(client: openai.OpenAI) -> None:
    (choice,) = create(client, **LEGACY).choices
    assert choice.message.function_call is not None
    assert (choice.message.function_call.name, choice.message.function_call.arguments) == ("get_weather", ARGUMENTS)
    assert (choice.message.content, choice.message.tool_calls, choice.finish_reason) == (None, None, "stop")
    deltas = [
        delta
        for chunk in create(client, **LEGACY, stream=True)
        if (delta := chunk.choices[0].delta.function_call) is not None
    ]
    assert [delta.name for delta in deltas] == ["get_weather", None, None, None]
    assert "".join(delta.arguments or "" for delta in deltas) == ARGUMENTS


def test_the_log_probabilities_of_a_call_are_those_of_its_arguments(served: Served, client: openai.OpenAI) -> None:
    served.runtime.script = [
        Delta("{", 1, None, (TokenLogprob(b"{", -1.0),)),
        Delta("}", 1, FINISH, (TokenLogprob(b"}", 0),)),
    ]
    (choice,) = create(client, **BY_NAME, logprobs=True).choices
    assert choice.logprobs is not None
    assert [each.token for each in choice.logprobs.content or ()] == ["{", "}"]


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        (BY_NAME, "tools[1].function.parameters"),
        (REQUIRED, "tools[0].function.parameters"),
        (LEGACY, "functions[0].parameters"),
    ],
)
def test_the_arguments_have_the_functions_schema_and_the_model_is_told_of_it(
    served: Served, asked: dict[str, Any], param: str
) -> None:
    assert served.http.post("/v1/chat/completions", json={**ASK, **asked}).status_code == 200
    (request,) = served.runtime.requests
    assert request.structure is not None
    assert (request.structure.kind, request.structure.param) == ("json_schema", param)
    assert json.loads(request.structure.source) == json.loads(SCHEMA)
    (message,) = request.messages or ()
    schema = json.dumps(json.loads(SCHEMA), separators=(",", ":"))
    assert message.role == "user"
    assert message.content.startswith("Paris?\n\n")
    assert all(told in message.content for told in ("get_weather", "Of a city", schema))


def test_the_model_is_told_where_the_system_message_is_if_there_is_one(served: Served) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Paris?"}]
    served.http.post("/v1/chat/completions", json={**ASK, **REQUIRED, "messages": messages})
    system, user = served.runtime.requests[0].messages or ()
    assert system.content.startswith("Be brief.\n\n")
    assert "get_weather" in system.content
    assert user == Message("user", "Paris?")


@pytest.mark.parametrize(
    ("parameters", "kind", "source"),
    [
        ("", "json_object", ""),
        (', "parameters": {}', "json_object", ""),
        (', "parameters": null', "json_object", ""),
        (
            ', "parameters": {"properties": {"b": {}, "a": {}}}',
            "json_schema",
            '{"type":"object","properties": {"b": {}, "a": {}}}',
        ),
        (', "parameters": {"$ref": "#/$defs/A"}', "json_schema", '{"$ref": "#/$defs/A"}'),
    ],
)
def test_arguments_are_an_object_whatever_the_schema_leaves_out(parameters: str, kind: str, source: str) -> None:
    tools = f'[{{"type": "function", "function": {{"name": "f"{parameters}}}}}]'
    body = f'{{"model": "m", "messages": [{{"role": "user", "content": "x"}}], "tools": {tools}'
    (request,) = parse_chat(f'{body}, "tool_choice": "required"}}'.encode())[0].generations(most=1)
    wanted = Structure(kind=kind, source=source, param="tools[0].function.parameters")  # type: ignore[arg-type]
    assert request.structure == wanted


@pytest.mark.parametrize(
    ("change", "code", "param"),
    [
        ({"tools": [tool(WEATHER)]}, "unsupported_parameter", "tools"),
        ({"tools": [tool(WEATHER)], "tool_choice": "auto"}, "unsupported_parameter", "tools"),
        ({"tools": [tool(WEATHER)], "tool_choice": "none"}, "unsupported_parameter", "tools"),
        ({"tools": [tool(WEATHER), tool(OTHER)], "tool_choice": "required"}, "unsupported_parameter", "tool_choice"),
        ({"tools": [{"type": "custom", "custom": {"name": "f"}}], "tool_choice": NAMED}, "", "tools[0].type"),
        (
            {"tools": [tool(WEATHER)], "tool_choice": {"type": "allowed_tools", "allowed_tools": {}}},
            "unsupported_parameter",
            "tool_choice.type",
        ),
        ({"functions": [WEATHER]}, "unsupported_parameter", "functions"),
        ({"functions": [WEATHER], "function_call": "auto"}, "unsupported_parameter", "functions"),
        ({"tool_choice": "required"}, "invalid_parameter", "tool_choice"),
        ({"tool_choice": "required", "tools": []}, "invalid_parameter", "tool_choice"),
        ({"function_call": {"name": "f"}}, "invalid_parameter", "function_call"),
        ({"functions": [WEATHER], "function_call": "get_weather"}, "invalid_parameter", "function_call"),
        ({**REQUIRED, "functions": [WEATHER]}, "invalid_parameter", "functions"),
        ({"tools": [tool(WEATHER)], "tool_choice": "get_weather"}, "invalid_parameter", "tool_choice"),
        ({"tools": [tool(OTHER)], "tool_choice": NAMED}, "invalid_parameter", "tool_choice"),
        ({"tools": [tool(WEATHER)] * 2, "tool_choice": NAMED}, "invalid_parameter", "tool_choice"),
        ({"tools": [tool(WEATHER)], "tool_choice": {"type": "function"}}, "invalid_parameter", "tool_choice.function"),
        ({"tools": [{"type": "function"}], "tool_choice": "required"}, "invalid_parameter", "tools[0].function"),
        ({"tools": [tool({"name": ""})], "tool_choice": "required"}, "invalid_parameter", "tools[0].function.name"),
        ({"tools": [tool({})], "tool_choice": "required"}, "invalid_parameter", "tools[0].function.name"),
        ({"tools": [tool(OTHER)] * 129, "tool_choice": "required"}, "invalid_parameter", "tools"),
        ({"tools": {"a": 1}}, "invalid_parameter", "tools"),
        *[
            (
                {"tools": [tool({**OTHER, "parameters": schema})], "tool_choice": "required"},
                "invalid_parameter",
                "tools[0].function.parameters",
            )
            for schema in ANYTHING
        ],
        ({**REQUIRED, "response_format": {"type": "json_object"}}, "invalid_parameter", "tool_choice"),
        ({**LEGACY, "grammar": "root ::= []"}, "invalid_parameter", "function_call"),
        ({**REQUIRED, "ignore_eos": True}, "invalid_parameter", "ignore_eos"),
    ],
)
def test_other_use_of_tools_is_refused_by_name(served: Served, change: dict[str, Any], code: str, param: str) -> None:
    response = served.http.post("/v1/chat/completions", json={**ASK, **change})
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["code"], error["param"]) == (code or "unsupported_parameter", param)
    assert served.runtime.asked == []


def test_fields_of_a_tool_that_are_nobodys_are_named_in_a_header(served: Served) -> None:
    strange = {"tools": [{**tool({**WEATHER, "zeal": 1, "strict": True}), "cache": 1}], "tool_choice": "required"}
    response = served.http.post("/v1/chat/completions", json={**ASK, **strange})
    assert response.headers["x-localllm-ignored"] == "tools[].cache, tools[].function.zeal"


@pytest.mark.parametrize("asked", [{}, REQUIRED])
def test_a_thought_is_reasoning_content_and_never_a_part_of_the_answer(
    served: Served, client: openai.OpenAI, asked: dict[str, Any]
) -> None:
    served.runtime.script = [
        Delta("", 1, thought="Let me "),
        Delta("", 1, thought="see."),
        Delta('{"city":', 1),
        Delta('"Paris"}', 1, FINISH),
    ]
    message = create(client, **asked).choices[0].message
    assert message.model_extra is not None
    assert message.model_extra["reasoning_content"] == "Let me see."
    calls = message.tool_calls or ()
    texts = [call.function.arguments for call in calls if call.type == "function"] if asked else [message.content]
    assert texts == [ARGUMENTS]
    thought = text = ""
    for chunk in create(client, **asked, stream=True):
        delta = chunk.choices[0].delta
        thought += (delta.model_extra or {}).get("reasoning_content", "")
        text += (
            "".join((call.function and call.function.arguments) or "" for call in delta.tool_calls or ())
            if asked
            else delta.content or ""
        )
    assert (thought, text) == ("Let me see.", ARGUMENTS)


def test_an_answer_without_a_thought_has_no_word_of_one(served: Served, client: openai.OpenAI) -> None:
    assert "reasoning_content" not in served.http.post("/v1/chat/completions", json=ASK).text
    assert "reasoning_content" not in served.http.post("/v1/chat/completions", json={**ASK, "stream": True}).text
