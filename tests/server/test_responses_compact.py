"""A conversation is compacted and continued from its summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from localllm.types import Delta, Finish, Message, Timings, ToolCall, Usage
from tests.later import openai
from tests.server.conftest import Served
from tests.server.fake_runtime import FINISH

PATH = "/v1/responses/compact"
WEATHER: Any = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
HISTORY: list[Any] = [
    {"role": "developer", "content": "Be short."},
    {"role": "user", "content": "Weather?"},
    {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "Rain"},
    {"role": "assistant", "content": "Rain."},
]


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0, timeout=10) as client:
        yield client


def test_a_conversation_goes_on_from_its_summary(served: Served, client: openai.OpenAI) -> None:
    served.runtime.script = [Delta("It rains ✓", 3), Delta(finish=FINISH)]
    fields: dict[str, Any] = {"tools": [WEATHER], "parallel_tool_calls": False, "reasoning": {"effort": "low"}}
    made = client.responses.compact(model="tiny", input=HISTORY, instructions="You help.", extra_body=fields)
    assert (made.object, made.usage.output_tokens) == ("response.compaction", 3)
    kept: list[Any] = [item.model_dump(exclude_none=True, warnings=False) for item in made.output]
    *messages, summary = kept
    assert [(each["role"], each["content"][0]["text"]) for each in messages] == [
        ("developer", "Be short."), ("user", "Weather?"),
    ]  # fmt: skip
    assert summary["type"] == "compaction"
    asked = served.runtime.requests[-1]
    assert asked.messages is not None
    assert asked.messages[:-1] == (
        Message("system", "You help."),
        Message("developer", "Be short."),
        Message("user", "Weather?"),
        Message("assistant", "", tool_calls=(ToolCall("weather", "{}", "c"),)),
        Message("tool", "Rain", tool_call_id="c", name="weather"),
        Message("assistant", "Rain."),
    )
    assert "Summarize" in asked.messages[-1].content
    assert (asked.params.max_tokens, asked.structure) == (4096, None)
    assert asked.calling is None or asked.calling.choice == "none"
    assert "weather" in asked.rendering.tools, "so that the prompt begins as it did"

    served.runtime.script = [Delta("Yes.", 1), Delta(finish=FINISH)]
    again = client.responses.create(model="tiny", input=[*kept, {"role": "user", "content": "Still?"}])
    client.responses.create(model="tiny", previous_response_id=again.id, input="Sure?")
    read = [(message.role, message.content) for message in served.runtime.requests[-1].messages or ()]
    assert read[:2] == [("developer", "Be short."), ("user", "Weather?")]
    assert read[2][0] == "user"
    assert read[2][1].endswith("\n\nIt rains ✓")
    assert read[3:] == [("user", "Still?"), ("assistant", "Yes."), ("user", "Sure?")]


def test_a_summary_of_another_vendors_is_a_note(served: Served) -> None:
    items = [{"type": "compaction", "encrypted_content": "gAAA"}, {"role": "user", "content": "Go on."}]
    response = served.http.post("/v1/responses", json={"model": "tiny", "input": items})
    assert response.status_code == 200
    assert response.headers["x-localllm-messages"].startswith("input[0]: summary of the earlier conversation omitted")
    assert "omitted" in (served.runtime.requests[-1].messages or ())[0].content


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "input"),
        ({"input": "Hi", "stream": True}, "stream"),
        ({"input": [{"role": "user", "content": "Hi"}, {"type": "compaction_trigger"}]}, "input[1].type"),
    ],
)
def test_what_cannot_be_compacted_is_refused_by_name(served: Served, fields: dict[str, Any], param: str) -> None:
    response = served.http.post("/responses/compact", json={"model": "tiny", **fields})
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)
    assert served.runtime.requests == []


def test_a_summary_that_was_cut_says_so_and_one_without_words_is_an_error(served: Served) -> None:
    cut = Finish("length", Usage(7, 3), Timings(0, 0, 0))
    served.runtime.script = [Delta("It ra", 3), Delta(finish=cut)]
    body = {"model": "tiny", "input": "Hi", "max_output_tokens": 3}
    assert served.http.post(PATH, json=body).json()["localllm"]["warnings"] == [
        "the summary was cut at the token limit"
    ]
    assert served.runtime.requests[-1].params.max_tokens == 3
    served.runtime.script = [Delta(thought="Hm", num_tokens=3), Delta(finish=cut)]
    response = served.http.post(PATH, json=body)
    assert response.status_code == 500
    assert "its thought reached the token limit" in response.json()["error"]["message"]
