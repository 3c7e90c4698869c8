"""Agents' loops of calls and results as the libraries that people use run them, with the carried model.

That model knows one call at a time: several are what a bias makes of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from localllm.client.sidecar import Sidecar
from tests.e2e.conftest import TIMEOUT_S
from tests.later import openai

WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
PATCH: Any = {"type": "custom", "custom": {"name": "patch", "description": "Change a file."}}
PARIS = "What is the weather in Paris?"
ASKED: Any = [{"role": "user", "content": PARIS}]
CLOUDY = '{"temperature": 19, "sky": "cloudy"}'
GREEDY: dict[str, Any] = {"model": "demo", "temperature": 0, "max_tokens": 200}


@pytest.fixture(scope="module")
def sidecar(home: Path) -> Iterator[Sidecar]:
    with Sidecar.start(["demo", "--slots=2", "--ctx=2048"]) as sidecar:
        yield sidecar


@pytest.fixture(scope="module")
def client(sidecar: Sidecar) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{sidecar.url}/v1", api_key=sidecar.token, max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def call_token(sidecar: Sidecar) -> str:
    """What opens a call."""
    with httpx.Client(base_url=sidecar.url, headers={"authorization": f"Bearer {sidecar.token}"}) as http:
        (token,) = http.post("/tokenize", json={"content": "<tool_call>"}).json()["tokens"]
    return str(token)


def answer(client: openai.OpenAI, messages: Any, *, stream: bool = False, **fields: Any) -> Any:
    """One choice; put together of a stream by the client's own hand."""
    asked: Any = {**GREEDY, "messages": messages, **fields}
    if not stream:
        return client.chat.completions.create(**asked).choices[0]
    with client.chat.completions.stream(**asked) as events:
        return events.get_final_completion().choices[0]


def made(call: Any) -> tuple[str, Any]:
    return call.function.name, json.loads(call.function.arguments)


def result(call: Any, content: Any = CLOUDY) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.id, "content": content}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_a_call_its_result_an_answer_and_the_next_call(client: openai.OpenAI, choice: str, *, stream: bool) -> None:
    turns: Any = [*ASKED]
    for city, wanted, degrees in (("Paris", choice, "19"), ("Rome", "auto", "25")):
        asked = answer(client, turns, stream=stream, tools=[WEATHER], tool_choice=wanted)
        assert (asked.finish_reason, asked.message.content) == ("tool_calls", None)
        (call,) = asked.message.tool_calls
        assert made(call) == ("get_weather", {"city": city})
        turns += [asked.message, result(call, json.dumps({"temperature": int(degrees), "sky": "sunny"}))]
        told = answer(client, turns, stream=stream, tools=[WEATHER])
        assert (told.finish_reason, told.message.tool_calls or None) == ("stop", None)
        assert city in told.message.content
        assert degrees in told.message.content
        turns += [told.message, {"role": "user", "content": "And in Rome?"}]


def test_a_history_means_the_same_however_a_client_writes_it(client: openai.OpenAI) -> None:
    def history(id: Any, result_id: Any, arguments: Any, content: Any) -> Any:
        call = {"id": id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
        return [
            *ASKED,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": result_id, "content": content},
        ]

    parts = [{"type": "text", "text": CLOUDY}]
    told = {
        answer(client, messages, tools=[WEATHER]).message.content
        for messages in (
            history("call_1", "call_1", '{"city": "Paris"}', CLOUDY),
            history("call_1", "toolu_2", '{ "city":"Paris" }', parts),
            history(None, None, {"city": "Paris"}, CLOUDY),
        )
    }
    assert len(told) == 1
    assert "19" in told.pop()


@pytest.mark.parametrize("stream", [False, True])
def test_several_calls_come_unless_one_is_wanted(client: openai.OpenAI, call_token: str, *, stream: bool) -> None:
    often: dict[str, Any] = {"tools": [WEATHER], "logit_bias": {call_token: 100}, "max_tokens": 120}
    many = answer(client, ASKED, **often)
    assert len(many.message.tool_calls) > 2
    assert len({call.id for call in many.message.tool_calls}) == len(many.message.tool_calls)
    assert {str(made(call)) for call in many.message.tool_calls[:-1]} == {str(("get_weather", {"city": "Paris"}))}
    for choice in ("auto", "required"):
        one = answer(client, ASKED, stream=stream, parallel_tool_calls=False, tool_choice=choice, **often)
        assert [made(call) for call in one.message.tool_calls] == [("get_weather", {"city": "Paris"})]
        assert one.finish_reason == "tool_calls"
    first, second, *_ = many.message.tool_calls
    calls = [call.model_dump() for call in (first, second)]
    turns = [*ASKED, {"role": "assistant", "tool_calls": calls}, result(second), result(first)]
    assert answer(client, turns, tools=[WEATHER], stream=stream).message.content


def test_a_call_in_a_stream_is_the_call_of_the_whole_answer(client: openai.OpenAI, call_token: str) -> None:
    """With the tokens of several calls, and cut in the middle of one."""
    asked: dict[str, Any] = {"tools": [WEATHER], "logit_bias": {call_token: 100}}
    for max_tokens in range(8, 60, 3):
        whole = answer(client, ASKED, **{**asked, "max_tokens": max_tokens})
        arguments: dict[int, str] = {}
        text, finish = "", None
        chunks = client.chat.completions.create(
            **{**GREEDY, **asked, "max_tokens": max_tokens}, messages=ASKED, stream=True
        )
        for chunk in chunks:
            (choice,) = chunk.choices
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
            for delta in choice.delta.tool_calls or ():
                assert delta.function is not None
                assert (delta.function.name is None) == (delta.index in arguments)
                arguments[delta.index] = arguments.get(delta.index, "") + (delta.function.arguments or "")
        assert [*arguments.values()] == [call.function.arguments for call in whole.message.tool_calls or ()]
        assert (text, finish) == (whole.message.content or "", whole.finish_reason)


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_that_is_named_is_called_whatever_was_asked(client: openai.OpenAI, *, stream: bool) -> None:
    tools: Any = [WEATHER, {"type": "function", "function": {"name": "stop_everything"}}]
    named = {"type": "function", "function": {"name": "stop_everything"}}
    choice = answer(client, ASKED, tools=tools, tool_choice=named, max_tokens=60, stream=stream)
    assert [call.function.name for call in choice.message.tool_calls] == ["stop_everything"]
    allowed: Any = {"mode": "required", "tools": [named]}
    asked = {"type": "allowed_tools", "allowed_tools": allowed}
    choice = answer(client, ASKED, tools=tools, tool_choice=asked, max_tokens=60, parallel_tool_calls=False)
    assert [call.function.name for call in choice.message.tool_calls] == ["stop_everything"]
    none = answer(client, ASKED, tools=tools, tool_choice="none", stream=stream)
    assert none.message.content
    assert not none.message.tool_calls


def test_a_custom_tool_is_called_with_a_text_of_its_grammar(client: openai.OpenAI) -> None:
    form = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "(add|drop) [a-z]{1,8}"}}
    tool = {"type": "custom", "custom": {**PATCH["custom"], "format": form}}
    for tools, choice in (([tool], "required"), ([WEATHER, tool], {"type": "custom", "custom": {"name": "patch"}})):
        (call,) = answer(client, ASKED, tools=tools, tool_choice=choice, parallel_tool_calls=False).message.tool_calls
        assert call.type == "custom"
        assert call.custom.name == "patch"
        assert call.custom.input.split(" ")[0] in ("add", "drop")
        told = [*ASKED, {"role": "assistant", "tool_calls": [call.model_dump()]}, result(call, "done")]
        assert answer(client, told, tools=tools).message.content


def test_the_words_of_before_there_were_tools_do_the_same(client: openai.OpenAI) -> None:
    asked = answer(client, ASKED, functions=[WEATHER["function"]])
    assert (asked.finish_reason, asked.message.content, asked.message.tool_calls) == ("function_call", None, None)
    assert json.loads(asked.message.function_call.arguments) == {"city": "Paris"}
    turns = [*ASKED, asked.message, {"role": "function", "name": "get_weather", "content": CLOUDY}]
    assert "19" in answer(client, turns, functions=[WEATHER["function"]]).message.content


@pytest.mark.parametrize("stream", [False, True])
def test_a_thought_stands_beside_calls_and_text(client: openai.OpenAI, *, stream: bool) -> None:
    thinking: dict[str, Any] = {"extra_body": {"thinking": {"type": "enabled"}}, "stream": stream}
    called = answer(client, ASKED, tools=[WEATHER], **thinking).message
    assert made(called.tool_calls[0]) == ("get_weather", {"city": "Paris"})
    assert called.reasoning_content
    summed = answer(client, [{"role": "user", "content": "What is 4 + 4?"}], **thinking).message
    assert "8" in summed.content
    assert summed.reasoning_content == summed.reasoning
    assert "think>" not in summed.content + summed.reasoning_content
    raw = {"enable_thinking": True, "reasoning_format": "none"}
    kept = answer(client, [{"role": "user", "content": "What is 4 + 4?"}], extra_body=raw, stream=stream).message
    assert kept.content.endswith(f"</think>\n\n{summed.content}")
    assert not (kept.model_extra or {}).get("reasoning_content")


def test_an_answer_that_is_all_thought_says_so(client: openai.OpenAI) -> None:
    asked: Any = {**GREEDY, "messages": [{"role": "user", "content": "What is 4 + 4?"}], "max_tokens": 5}
    whole = client.chat.completions.create(**asked, extra_body={"enable_thinking": True})
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == ("", "length")
    assert "thought" in (whole.model_extra or {})["localllm"]["warnings"][0]
    assert whole.usage is not None
    assert whole.usage.completion_tokens_details is not None
    assert whole.usage.completion_tokens_details.reasoning_tokens == 5


SHAPE: Any = {
    "type": "json_schema",
    "json_schema": {
        "name": "weather",
        "schema": {
            "type": "object",
            "properties": {"sky": {"enum": ["cloudy", "sunny"]}, "temperature": {"type": "integer"}},
            "required": ["sky", "temperature"],
            "additionalProperties": False,
        },
    },
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("thinks", [False, True])
def test_a_last_answer_has_its_structure_though_calls_come_before_it(
    client: openai.OpenAI, *, stream: bool, thinks: bool
) -> None:
    asked: dict[str, Any] = {"tools": [WEATHER], "response_format": SHAPE, "stream": stream}
    asked["extra_body"] = {"enable_thinking": thinks}
    first = answer(client, ASKED, **asked)
    (call,) = first.message.tool_calls
    assert made(call) == ("get_weather", {"city": "Paris"})
    assert first.message.content is None
    last = answer(client, [*ASKED, first.message.model_dump(exclude_none=True), result(call)], **asked)
    assert last.finish_reason == "stop"
    assert not last.message.tool_calls
    assert set(json.loads(last.message.content)) == {"sky", "temperature"}


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_drawn_an_answer_is_calls_or_has_its_structure(client: openai.OpenAI, seed: int) -> None:
    city = {"name": "look", "parameters": {"type": "object", "properties": {"city": {"enum": ["Ulm", "Bonn"]}}}}
    tool = {"type": "function", "function": city}
    drawn = answer(client, ASKED, tools=[tool], response_format=SHAPE, temperature=2, seed=seed, max_tokens=200)
    if drawn.message.tool_calls:
        assert drawn.message.content is None
    elif drawn.finish_reason == "stop":
        assert set(json.loads(drawn.message.content)) == {"sky", "temperature"}


QUOTES = "a\"b'c\\d}{<|im_end|></tool_call>\n\u2028é🙂"
DEEP: Any = {"type": "object", "properties": {"x": {"$ref": "#"}}}
CYCLE: Any = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
WORDS = [f"v{number}" for number in range(20)]
LARGE: Any = {
    "type": "object",
    "properties": {f"field_{number}": {"type": "string", "enum": WORDS} for number in range(40)},
}
ODD: Any = {"type": "object", "x-unknown": 1, "zzz": [{}], "properties": {"a": {"frob": 2}}}


@pytest.mark.parametrize("choice", ["none", "auto", "required"])
@pytest.mark.parametrize(
    "tools",
    [
        [{"name": QUOTES}],
        [{"name": "f", "description": QUOTES * 50, "parameters": {"properties": {QUOTES: {"enum": [QUOTES, None]}}}}],
        [{"name": f"tool_{number}", "parameters": LARGE} for number in range(60)],
        [
            {
                "name": "f",
                "parameters": {"type": "object", "x-unknown": 1, "zzz": [{}], "properties": {"a": {"frob": 2}}},
            }
        ],
        [{"name": "f", "parameters": DEEP}],
        [{"name": "f", "parameters": CYCLE}],
        [{"name": "f", "parameters": {"$ref": "#/nowhere"}}],
        [{"name": "f", "parameters": {"type": "object", "properties": {"a": {"pattern": "(?<=x)y"}}}}],
        [{"name": "f", "parameters": {"type": "string"}}],
        [{"name": "f", "parameters": {"type": "object", "not": {}}}],
        [{"name": "f", "parameters": CYCLE, "strict": True}],
        [{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}}],
    ],
)
def test_no_tools_whatever_they_are_end_in_a_fault_of_the_server(
    sidecar: Sidecar, tools: list[dict[str, Any]], choice: str
) -> None:
    asked: dict[str, Any] = {**GREEDY, "max_tokens": 20, "messages": ASKED, "tool_choice": choice}
    asked["tools"] = [{"type": "function", "function": tool} for tool in tools]
    with httpx.Client(base_url=sidecar.url, headers={"authorization": f"Bearer {sidecar.token}"}) as http:
        response = http.post("/v1/chat/completions", json=asked, timeout=TIMEOUT_S)
    if response.status_code == 200:
        assert response.json()["choices"][0]["finish_reason"] in ("stop", "length", "tool_calls")
    else:
        assert response.status_code == 400, response.text
        assert response.json()["error"]["param"].startswith(("tools", "messages"))


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")  # langchain's own, where it streams
def test_langchain_calls_tools_and_goes_on(sidecar: Sidecar) -> None:
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    @tool
    def get_weather(city: str) -> str:
        """Get the weather in a city."""
        assert city == "Paris"
        return CLOUDY

    chat = ChatOpenAI(
        model="demo",
        base_url=f"{sidecar.url}/v1",
        api_key=SecretStr(sidecar.token or ""),
        max_retries=0,
        temperature=0,
        max_completion_tokens=200,
    )
    for choice in (None, "required", "get_weather"):
        agent = chat.bind_tools([get_weather], tool_choice=choice)
        asked = agent.invoke([HumanMessage(PARIS)])
        (call,) = asked.tool_calls
        pieces = agent.stream([HumanMessage(PARIS)])
        streamed: Any = next(pieces)
        for piece in pieces:
            streamed += piece
        assert [(each["name"], each["args"]) for each in streamed.tool_calls] == [("get_weather", {"city": "Paris"})]
        turns = [HumanMessage(PARIS), asked, ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])]
        assert "19" in str(chat.bind_tools([get_weather]).invoke(turns).content)


def test_pydantic_ai_runs_a_tool_whole_and_streamed(sidecar: Sidecar) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("demo", provider=OpenAIProvider(base_url=f"{sidecar.url}/v1", api_key=sidecar.token))
    agent = Agent(model, retries=0, model_settings={"temperature": 0, "max_tokens": 200})

    @agent.tool_plain
    def get_weather(city: str) -> str:
        """Get the weather in a city."""
        assert city == "Paris"
        return CLOUDY

    async def answers() -> list[str]:
        async with model.client:
            whole = (await agent.run(PARIS)).output
            async with agent.run_stream(PARIS) as streamed:
                return [whole, await streamed.get_output()]

    whole, streamed = asyncio.run(answers())
    assert "19" in whole
    assert streamed == whole


def test_openai_agents_and_smolagents_run_a_tool_also_where_the_end_has_a_type(sidecar: Sidecar) -> None:
    python = os.environ.get("AGENTS_PYTHON")
    if not python:
        pytest.skip("needs an environment with openai-agents and smolagents, whose interpreter AGENTS_PYTHON names")
    script = Path(__file__).with_name("agents_client.py")
    done = subprocess.run(
        [python, str(script), sidecar.url, sidecar.token or ""], capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stderr
    loops = [json.loads(line) for line in done.stdout.splitlines()]
    assert len({(each["through"], each["typed"]) for each in loops}) == 9
    for each in loops:
        assert each["asked"] == "Paris"
        assert "19" in str(each["answer"])


def test_the_official_client_for_node_runs_a_loop_whole_and_streamed(sidecar: Sidecar) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node")
    if subprocess.run([node, "-e", 'require("openai")'], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the openai package of npm; NODE_PATH names the folder that holds it")
    script = Path(__file__).with_name("node_tools.js")
    done = subprocess.run(
        [node, str(script), f"{sidecar.url}/v1", sidecar.token or "", "demo"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.stdout == "all is well\n", done.stderr
