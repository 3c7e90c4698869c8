"""Anthropic's Messages API: its own client, a real server, the carried model.

That model knows little, so calls are required, and what is asserted is that they are what the tools declare, that
their results are taken, and that a stream says what a whole message does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localllm.client.sidecar import Sidecar
from tests.e2e.conftest import TIMEOUT_S
from tests.later import anthropic, jsonschema

SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Ulm", "Bonn"]}, "days": {"type": "integer", "minimum": 1, "maximum": 3}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
SMALL = {"type": "object", "properties": {"on": {"type": "boolean"}}}
WEATHER: Any = {"name": "get_weather", "description": "The weather.", "input_schema": SCHEMA}
GREEDY = {"temperature": 0.0}
USER: Any = {"role": "user", "content": "How is the weather in Ulm?"}


@pytest.fixture(scope="module")
def sidecar(home: Path) -> Iterator[Sidecar]:
    with Sidecar.start(["demo", "--slots=2", "--ctx=2048", "--model-aliases=claude-*"]) as sidecar:
        yield sidecar


@pytest.fixture
def client(sidecar: Sidecar) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=sidecar.url, auth_token=sidecar.token, max_retries=0, timeout=TIMEOUT_S
    ) as client:
        yield client


def asked(client: anthropic.Anthropic, *, stream: bool = False, **fields: Any) -> Any:
    given = {"model": "claude-large", "max_tokens": 100, "messages": [USER], **fields}
    if not stream:
        return client.messages.create(**given)
    with client.messages.stream(**given) as events:
        return events.get_final_message()


@pytest.mark.parametrize("stream", [False, True])
def test_a_loop_calls_what_it_must_and_then_answers(client: anthropic.Anthropic, stream: bool) -> None:
    first = asked(client, stream=stream, tools=[WEATHER], tool_choice={"type": "any"})
    assert first.stop_reason == "tool_use"
    calls = [block for block in first.content if block.type == "tool_use"]
    for call in calls:
        assert call.name == "get_weather"
        jsonschema.validate(call.input, SCHEMA)
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny"} for call in calls]
    history = [USER, {"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
    second = asked(client, stream=stream, messages=history, tools=[WEATHER], tool_choice={"type": "none"})
    assert second.content[-1].type == "text"
    assert second.stop_reason in ("end_turn", "max_tokens")
    assert second.usage.cache_read_input_tokens > first.usage.input_tokens * 0.9


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("choice", ["auto", "any"])
def test_a_stream_says_what_a_whole_message_does(client: anthropic.Anthropic, choice: str, seed: int) -> None:
    fields: dict[str, Any] = {
        "tools": [WEATHER],
        "tool_choice": {"type": choice},
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "extra_body": {"seed": seed},
    }
    whole, streamed = (asked(client, stream=stream, **fields) for stream in (False, True))
    ids = {"__all__": {"id"}}
    assert whole.model_dump(include={"content"}, exclude={"content": ids}) == streamed.model_dump(
        include={"content"}, exclude={"content": ids}
    )
    assert whole.stop_reason == streamed.stop_reason
    assert whole.usage.output_tokens == streamed.usage.output_tokens


def test_a_stop_sequence_is_named(client: anthropic.Anthropic) -> None:
    text = asked(client, extra_body=GREEDY).content[0].text
    stop = text[3:8]
    message = asked(client, extra_body=GREEDY, stop_sequences=[stop, "never to be seen"])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", stop)
    assert message.content[0].text == text[: text.index(stop)]


def test_a_count_is_what_the_answer_says_the_prompt_was(client: anthropic.Anthropic) -> None:
    for fields in ({}, {"tools": [WEATHER], "system": "Be brief."}, {"thinking": {"type": "adaptive"}}):
        given: Any = {"model": "claude-small", "messages": [USER], **fields}
        count = client.messages.count_tokens(**given).input_tokens
        usage = asked(client, **fields).usage
        assert count == usage.input_tokens + usage.cache_read_input_tokens > 0


def claude_code(number: int, messages: list[Any]) -> dict[str, Any]:
    """A request as Claude Code shapes it; the first line of the system prompt is another in each."""
    header = f"x-anthropic-billing-header: cc_version=2.1.{number}.abc; cc_entrypoint=cli; cch={number:05x};"
    lasting = {"type": "ephemeral"}
    system = [
        {"type": "text", "text": header},
        {"type": "text", "text": "You are an agent.", "cache_control": lasting},
        {"type": "text", "text": "Follow the rules. " * 60, "cache_control": lasting},
    ]
    tools = [{"name": f"tool_{index}", "description": "Does it.", "input_schema": SMALL} for index in range(20)]
    tools[-1]["cache_control"] = lasting
    return {
        "system": system,
        "tools": tools,
        "messages": [*messages, {"role": "system", "content": "The user's name is Ann."}],
        "max_tokens": 60,
        "metadata": {"user_id": json.dumps({"session": "1"})},
        "extra_query": {"beta": "true"},
        "extra_headers": {"anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14"},
    }


def test_what_claude_code_sends_goes_on_from_what_was_computed(client: anthropic.Anthropic) -> None:
    said: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "Hello, who are you?"}]}]
    choice = {"type": "any", "disable_parallel_tool_use": True}
    for number in range(3):
        message = asked(client, stream=True, tool_choice=choice, **claude_code(number, said))
        usage = message.usage
        num_prompt = usage.input_tokens + usage.cache_read_input_tokens
        if number > 0:
            assert usage.cache_read_input_tokens >= 0.95 * num_prompt
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "Done.", "cache_control": {"type": "ephemeral"}}
            for block in message.content
            if block.type == "tool_use"
        ]
        assert results
        said += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]


def test_a_prompt_that_does_not_fit_is_an_error_that_agents_know(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
        asked(client, messages=[{"role": "user", "content": "far too much " * 20_000}])
