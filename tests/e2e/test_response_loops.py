"""Agents' loops through the Responses API: OpenAI's client, a real server, the carried model.

That model knows little, so calls are required, and what is asserted is that they are what the tools declare, that
their outputs are taken, and that a stream says what a whole response does.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localllm.client.sidecar import Sidecar
from tests.e2e.conftest import TIMEOUT_S
from tests.later import jsonschema, openai

SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Ulm", "Bonn"]}, "days": {"type": "integer", "minimum": 1, "maximum": 3}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
WEATHER: Any = {"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": True}
NOTE: Any = {
    "type": "custom",
    "name": "note",
    "format": {"type": "grammar", "syntax": "regex", "definition": "[a-z]{2,6}"},
}
HOME: Any = {
    "type": "namespace",
    "name": "home",
    "description": "A house",
    "tools": [{**WEATHER, "name": "light"}, NOTE],
}
SEARCH: Any = {"type": "web_search"}


@pytest.fixture(scope="module")
def sidecar(home: Path) -> Iterator[Sidecar]:
    with Sidecar.start(["demo", "--slots=2", "--ctx=2048"]) as sidecar:
        yield sidecar


@pytest.fixture
def client(sidecar: Sidecar) -> Iterator[openai.OpenAI]:
    url = f"{sidecar.url}/v1"
    with openai.OpenAI(base_url=url, api_key=sidecar.token, max_retries=0, timeout=TIMEOUT_S) as client:
        yield client


def asked(client: openai.OpenAI, *, stream: bool, **fields: Any) -> Any:
    made = client.responses.create(**{"model": "demo", "max_output_tokens": 200, "stream": stream, **fields})
    return list(made)[-1].response if stream else made


def check(item: Any) -> str:
    """A call as it was declared; the type of what answers it."""
    if item.type == "function_call":
        jsonschema.validate(json.loads(item.arguments), SCHEMA)
        return "function_call_output"
    assert item.type == "custom_tool_call"
    assert re.fullmatch("[a-z]{2,6}", item.input)
    return "custom_tool_call_output"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("stores", [False, True])
def test_a_loop_of_three_steps_calls_what_it_must_and_then_answers(
    client: openai.OpenAI, stream: bool, stores: bool
) -> None:
    chosen: list[Any] = [
        {"type": "function", "name": "get_weather"},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "namespace", "name": "home"}]},
        "none",
    ]
    new: list[Any] = [{"role": "user", "content": "How is the weather in Ulm?"}]
    history, last = list(new), None
    for choice in chosen:
        response = asked(
            client,
            stream=stream,
            input=new if stores else history,
            previous_response_id=last if stores else None,
            store=stores,
            tools=[WEATHER, HOME, SEARCH],
            tool_choice=choice,
            parallel_tool_calls=False,
        )
        calls = [item for item in response.output if item.type.endswith("_call")]
        assert len(calls) == (0 if choice == "none" else 1)
        assert response.status == "completed" or not calls
        new = [{"type": check(item), "call_id": item.call_id, "output": "sunny"} for item in calls]
        history += [*response.output, *new]
        last = response.id
        if choice is chosen[1]:
            assert calls[0].namespace == "home"
            assert calls[0].name in ("light", "note")
    assert response.output[-1].type == "message"
    assert response.usage.input_tokens_details.cached_tokens > 0


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_says_what_a_whole_response_does(client: openai.OpenAI, seed: int) -> None:
    fields: dict[str, Any] = {
        "input": "Two, please.",
        "tools": [WEATHER, NOTE],
        "tool_choice": "required",
        "temperature": 1.0,
        "extra_body": {"seed": seed},
    }
    whole, streamed = asked(client, stream=False, **fields), asked(client, stream=True, **fields)

    def said(response: Any) -> list[tuple[Any, ...]]:
        return [
            (item.type, getattr(item, "arguments", None), getattr(item, "input", None), getattr(item, "name", None))
            for item in response.output
        ]

    assert said(whole) == said(streamed)
    assert all(check(item) for item in whole.output if item.status == "completed")


ANSWER: Any = {
    "type": "json_schema",
    "name": "answer",
    "strict": True,
    "schema": {
        "type": "object",
        "properties": {"warmer": {"enum": ["Ulm", "Bonn"]}},
        "required": ["warmer"],
        "additionalProperties": False,
    },
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("effort", ["none", "low"])
def test_under_a_schema_a_model_calls_or_answers_by_it(client: openai.OpenAI, stream: bool, effort: str) -> None:
    """As agents ask that have a type for their answer: in every step with both."""
    history: list[Any] = [{"role": "user", "content": "Where is it warmer?"}]
    for choice in ("required", "auto", "none"):
        response = asked(
            client,
            stream=stream,
            input=history,
            tools=[WEATHER],
            tool_choice=choice,
            parallel_tool_calls=False,
            text={"format": ANSWER},
            reasoning={"effort": effort},
        )
        assert response.status == "completed"
        calls = [item for item in response.output if item.type == "function_call"]
        assert bool(calls) != bool(response.output_text)
        if response.output_text:
            jsonschema.validate(json.loads(response.output_text), ANSWER["schema"])
        history += response.output
        history += [{"type": check(item), "call_id": item.call_id, "output": "3"} for item in calls]


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_that_changed_says_where_if_it_is_asked(client: openai.OpenAI, stream: bool) -> None:
    extra = {"cache_report": True, "cache_salt": f"{stream}"}
    said = [
        asked(client, stream=stream, input="Hello", instructions=text, extra_body=extra).model_extra["localllm"]
        for text in ("It is Monday.", "It is Tuesday.")
    ]
    assert said[0]["cache_miss"] is None
    assert said[1]["cache_miss"] == "differs in message 0, character 6: 'Monday.' -> 'Tuesday.'"


def test_openais_client_for_node_runs_a_loop(sidecar: Sidecar) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node")
    if subprocess.run([node, "-e", 'require("openai")'], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the openai package of npm; NODE_PATH names the folder that holds it")
    script = Path(__file__).with_name("node_responses.js")
    done = subprocess.run(
        [node, str(script), f"{sidecar.url}/v1", sidecar.token, "demo"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "all is well\n", done.stderr
