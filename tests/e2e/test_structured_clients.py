"""Structured answers as the libraries that people use ask for them, on a real server with the carried model.

That model knows little, so what is asserted is that each library gets an object of its type, at the first try. It
would go on for long with properties and characters that no schema excludes, so these do.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from localllm.client.sidecar import Sidecar
from tests.e2e.conftest import TIMEOUT_S
from tests.later import jsonschema, openai

QUESTION = "Give me JSON with name and age: Mira is 34 years old."
SPACED = {"guided_whitespace_pattern": " ?"}
"""As the model learned to write JSON: where any object will do, this lets it find the end."""
MESSAGES: Any = [{"role": "user", "content": QUESTION}]


class Person(BaseModel):
    """Somebody."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(max_length=12)]
    age: Annotated[int, Field(ge=0, le=150)]


class Team(BaseModel):
    """Some of them, in an order that no sorting gives."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["chess", "football"]
    members: Annotated[list[Person], Field(min_length=1, max_length=2)]
    best: Person | None
    active: bool


class Anything(BaseModel):
    """For what a library only asks any object for."""

    model_config = ConfigDict(extra="allow")


@pytest.fixture(scope="module")
def sidecar(home: Path) -> Iterator[Sidecar]:
    with Sidecar.start(["demo", "--slots=4", "--ctx=1024"]) as sidecar:
        yield sidecar


@pytest.fixture(scope="module")
def client(sidecar: Sidecar) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{sidecar.url}/v1", api_key=sidecar.token, max_retries=0) as client:
        yield client


def create(client: openai.OpenAI, **fields: Any) -> Any:
    return client.chat.completions.create(model="demo", messages=MESSAGES, **fields)


def shape_of(kind: type[BaseModel], **more: Any) -> dict[str, Any]:
    schema = {"name": kind.__name__, "schema": kind.model_json_schema(), **more}
    return {"type": "json_schema", "json_schema": schema}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("thinks", [False, True])
def test_openai_goes_on_under_a_schema_with_thinking_on_and_off(
    client: openai.OpenAI, *, thinks: bool, stream: bool
) -> None:
    """Each answer is sent back as the client has it, thought and all."""
    asked: Any = {"model": "demo", "temperature": 0, "max_tokens": 300, "response_format": shape_of(Person)}
    asked["extra_body"] = {"enable_thinking": thinks}
    talk: Any = []
    for name, age in (("Mira", 34), ("Otto", 51), ("Ida", 7)):
        talk.append({"role": "user", "content": f"Give me JSON with name and age: {name} is {age} years old."})
        if stream:
            with client.chat.completions.stream(**asked, messages=talk) as events:
                answer: Any = events.get_final_completion()
        else:
            answer = client.chat.completions.create(**asked, messages=talk)
        (choice,) = answer.choices
        assert choice.finish_reason == "stop"
        Person.model_validate_json(choice.message.content)
        thought = getattr(choice.message, "reasoning_content", None)
        assert bool(thought) == thinks
        assert "think>" not in (thought or "")
        talk.append(choice.message.model_dump(exclude_none=True))


@pytest.mark.parametrize("temperature", [0, 1.5])
@pytest.mark.parametrize("kind", [Person, Team])
def test_openai_parses_chats_whole_and_streamed(
    client: openai.OpenAI, kind: type[BaseModel], temperature: float
) -> None:
    asked: Any = {"model": "demo", "messages": MESSAGES, "temperature": temperature, "seed": 5, "max_tokens": 200}
    whole = client.chat.completions.parse(**asked, response_format=kind).choices[0]
    assert whole.finish_reason == "stop"
    assert type(whole.message.parsed) is kind
    with client.chat.completions.stream(**asked, response_format=kind) as stream:
        pieces = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion().choices[0].message
    assert type(final.parsed) is kind
    assert "".join(pieces) == final.content == whole.message.content


def test_openai_parses_several_answers_and_each_has_its_log_probabilities(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(
        model="demo", messages=MESSAGES, response_format=Team, n=3, temperature=1.5, logprobs=True, max_tokens=200
    )
    assert len(answer.choices) == 3
    for choice in answer.choices:
        assert type(choice.message.parsed) is Team
        assert choice.logprobs is not None
        said = b"".join(bytes(each.bytes or ()) for each in choice.logprobs.content or ())
        assert said.decode() == choice.message.content


def test_openai_parses_a_forced_call_whole_and_streamed(client: openai.OpenAI) -> None:
    tool = openai.pydantic_function_tool(Person)
    asked: Any = {"model": "demo", "messages": MESSAGES, "tools": [tool], "tool_choice": "required", "max_tokens": 100}
    [call] = client.chat.completions.parse(**asked).choices[0].message.tool_calls or []
    assert type(call.function.parsed_arguments) is Person
    with client.chat.completions.stream(**asked) as stream:
        events = list(stream)
        final = stream.get_final_completion().choices[0]
    assert final.finish_reason == "tool_calls"
    [call] = final.message.tool_calls or []
    assert type(call.function.parsed_arguments) is Person
    assert "tool_calls.function.arguments.done" in [event.type for event in events]


@pytest.mark.parametrize("kind", [Person, Team])
def test_openai_parses_responses_whole_and_streamed(client: openai.OpenAI, kind: type[BaseModel]) -> None:
    asked: Any = {"model": "demo", "input": QUESTION, "temperature": 0, "max_output_tokens": 200}
    whole = client.responses.parse(**asked, text_format=kind)
    assert type(whole.output_parsed) is kind
    assert whole.text is not None
    assert whole.text.format is not None
    assert whole.text.format.type == "json_schema"
    with client.responses.stream(**asked, text_format=kind) as stream:
        pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert type(final.output_parsed) is kind
    assert "".join(pieces) == final.output_text == whole.output_text


def test_a_document_that_max_tokens_cuts_says_so_whole_and_streamed(client: openai.OpenAI) -> None:
    asked: Any = {"model": "demo", "messages": MESSAGES, "response_format": Team, "max_tokens": 5}
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(**asked)
    with pytest.raises(openai.LengthFinishReasonError), client.chat.completions.stream(**asked) as stream:
        list(stream)
    cut = create(client, response_format=shape_of(Team), max_tokens=5).choices[0]
    assert cut.finish_reason == "length"
    closed = create(client, response_format=shape_of(Team) | {"close_at_limit": True}, max_tokens=60)
    assert Team.model_validate_json(closed.choices[0].message.content)
    assert closed.choices[0].finish_reason == "stop" or closed.localllm["limit"] == "closed"
    with pytest.raises(json.JSONDecodeError):
        json.loads(cut.message.content)
    tools: Any = [openai.pydantic_function_tool(Team)]
    assert create(client, tools=tools, tool_choice="required", max_tokens=5).choices[0].finish_reason == "length"
    text: Any = {"format": {"type": "json_schema", **_flat(Team)}}
    response = client.responses.create(model="demo", input=QUESTION, max_output_tokens=16, text=text)
    assert (response.status, response.incomplete_details and response.incomplete_details.reason) == (
        "incomplete",
        "max_output_tokens",
    )


def _flat(kind: type[BaseModel]) -> Any:
    return {"name": kind.__name__, "schema": kind.model_json_schema()}


def test_stop_strings_biases_and_penalties_go_with_a_structure(client: openai.OpenAI) -> None:
    shape = shape_of(Person)
    stopped = create(client, response_format=shape, stop=['"age"'], temperature=0).choices[0]
    assert stopped.finish_reason == "stop"
    assert '"age"' not in stopped.message.content
    assert stopped.message.content.startswith('{"name":')
    asked: Any = {"frequency_penalty": 1.5, "presence_penalty": 1, "logit_bias": {"300": -100, "400": 50}}
    for seed in range(3):
        made = create(client, response_format=shape, seed=seed, max_tokens=100, **asked).choices[0]
        assert made.finish_reason == "stop"
        jsonschema.validate(json.loads(made.message.content), Person.model_json_schema())


@pytest.mark.parametrize(
    ("fields", "allowed"),
    [
        ({"guided_choice": ["yes", "no"]}, {"yes", "no"}),
        ({"guided_regex": "(a|b)c"}, {"ac", "bc"}),
        ({"grammar": 'root ::= "x" [12]'}, {"x1", "x2"}),
        ({"guided_grammar": 'start: "x" /[12]/'}, {"x1", "x2"}),
        ({"structured_outputs": {"choice": ["ä", "🙂"]}}, {"ä", "🙂"}),
        ({"response_format": {"type": "lark", "lark": 'start: "l" /[12]/'}}, {"l1", "l2"}),
        ({"json_schema": {"enum": [1, None, "é"]}}, {"1", "null", '"é"'}),
    ],
)
def test_what_clients_of_other_servers_send_is_kept_in_chats_and_plain_completions(
    client: openai.OpenAI, fields: dict[str, Any], allowed: set[str]
) -> None:
    for seed in range(3):
        asked: Any = {"temperature": 2, "seed": seed, "max_tokens": 20, "extra_body": fields}
        choice = create(client, **asked).choices[0]
        assert (choice.message.content in allowed, choice.finish_reason) == (True, "stop"), choice
        text = client.completions.create(model="demo", prompt="Say", **asked).choices[0]
        assert (text.text in allowed, text.finish_reason) == (True, "stop"), text


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": "S"}}}, "json_schema.schema"),
        ({"json_schema": "S"}, "json_schema"),
        ({"structured_outputs": {"json": "S"}}, "structured_outputs.json"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": "S", "strict": True}}]},
            "tools[0].function.parameters",
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_schema_that_cannot_be_kept_is_a_400_that_names_the_keyword(
    client: openai.OpenAI, fields: dict[str, Any], param: str, stream: bool
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "\\bx"}}}
    body = json.loads(json.dumps(fields).replace('"S"', json.dumps(schema)))
    with pytest.raises(openai.BadRequestError) as caught:
        create(client, extra_body=body, stream=stream)
    assert caught.value.type == "invalid_request_error"
    assert (caught.value.param or "").endswith(f"{param}.properties.a.pattern")
    assert "word boundary" in caught.value.message


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")  # langchain's own, where it streams
def test_langchain_gets_its_objects_by_every_method(sidecar: Sidecar) -> None:
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(
        model="demo",
        base_url=f"{sidecar.url}/v1",
        api_key=SecretStr(sidecar.token or ""),
        max_retries=0,
        temperature=0,
        max_completion_tokens=200,
    )
    methods: tuple[Any, ...] = ("json_schema", "function_calling")
    for method in methods:
        for kind in (Person, Team):
            assert type(chat.with_structured_output(kind, method=method).invoke(QUESTION)) is kind
    strict = chat.with_structured_output(Person, method="function_calling", strict=True)
    assert type(strict.invoke(QUESTION)) is Person
    spaced = chat.model_copy(update={"extra_body": SPACED})
    made = spaced.with_structured_output(Anything, method="json_mode").invoke(QUESTION)
    assert isinstance(made, Anything)
    assert made.model_extra == {"name": "Mira", "age": 34}
    streamed = list(chat.with_structured_output(Person, method="json_schema").stream(QUESTION))
    assert type(streamed[-1]) is Person


def test_pydantic_ai_gets_its_objects_by_every_kind_of_output(sidecar: Sidecar) -> None:
    from pydantic_ai import Agent, NativeOutput, PromptedOutput, ToolOutput
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=f"{sidecar.url}/v1", api_key=sidecar.token)
    chat, responses = OpenAIChatModel("demo", provider=provider), OpenAIResponsesModel("demo", provider=provider)
    cases: list[tuple[Any, Any, type[BaseModel]]] = [
        (chat, NativeOutput(Person), Person),
        (chat, Team, Team),
        (chat, ToolOutput(Person, name="person"), Person),
        (chat, PromptedOutput(Anything), Anything),
        (responses, NativeOutput(Team), Team),
    ]

    async def outputs() -> list[Any]:
        async with chat.client:
            agents = [Agent(model, output_type=output, retries=0) for model, output, _ in cases]
            return [
                (await agent.run(QUESTION, model_settings={"temperature": 0, "max_tokens": 200})).output
                for agent in agents
            ]

    assert [type(made) for made in asyncio.run(outputs())] == [kind for _, _, kind in cases]


def test_instructor_gets_its_objects_in_every_mode(sidecar: Sidecar) -> None:
    python = os.environ.get("INSTRUCTOR_PYTHON")
    if not python:
        pytest.skip("needs an environment with instructor, whose interpreter INSTRUCTOR_PYTHON names")
    script = Path(__file__).with_name("instructor_client.py")
    done = subprocess.run(
        [python, str(script), sidecar.url, sidecar.token or ""], capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stderr
    made = [json.loads(line) for line in done.stdout.splitlines()]
    assert {each["mode"] for each in made} >= {"JSON", "JSON_SCHEMA", "TOOLS"}
    assert all(0 <= each["age"] <= 150 and len(each["name"]) <= 12 for each in made)
