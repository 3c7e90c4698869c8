"""The official `ollama` client against a real server with the carried model, as if that were Ollama."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from localllm.client.sidecar import Sidecar
from tests.later import ollama

GREEDY = {"temperature": 0.0, "num_predict": 200, "seed": 1}
HELLO: Any = [{"role": "user", "content": "Hello!"}]


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[ollama.Client]:
    with Sidecar.start(["--slots=2", "--ctx=2048"]) as sidecar:
        headers = {"authorization": f"Bearer {sidecar.token}"}
        with ollama.Client(sidecar.url, headers=headers, trust_env=False) as client:
            yield client


def test_a_model_is_in_the_list_with_what_it_can_do(client: ollama.Client) -> None:
    (demo,) = [model for model in client.list().models if model.model == "demo:latest"]
    assert demo.details is not None
    assert (demo.details.format, demo.details.family, demo.details.quantization_level) == ("gguf", "llama", "Q8_0")
    shown = client.show("demo")
    assert shown.capabilities == ["completion", "tools", "vision", "thinking"]
    assert shown.modelinfo is not None
    assert shown.modelinfo["llama.context_length"] == 2048
    assert shown.template is not None
    assert "<|im_start|>" in shown.template


def test_a_chat_comes_whole_and_in_pieces_that_add_up(client: ollama.Client) -> None:
    whole = client.chat("demo", HELLO, options=GREEDY)
    parts = list(client.chat("Demo:latest", HELLO, options=GREEDY, stream=True))
    assert whole.message.content
    assert "".join(part.message.content or "" for part in parts) == whole.message.content
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    assert parts[-1].done_reason == whole.done_reason == "stop"
    assert parts[-1].eval_count == whole.eval_count
    assert whole.total_duration is not None
    assert whole.total_duration >= (whole.eval_duration or 0) + (whole.prompt_eval_duration or 0) > 0


def test_a_prompt_is_answered_and_a_raw_one_continued(client: ollama.Client) -> None:
    answer = client.generate("demo", "Hello!", options=GREEDY)
    assert answer.response == client.chat("demo", HELLO, options=GREEDY).message.content
    raw = client.generate("demo", "Once upon a", raw=True, options={**GREEDY, "num_predict": 5})
    assert raw.response
    assert (raw.eval_count, raw.done_reason) == (5, "length")
    pieces = list(client.generate("demo", "Hello!", options=GREEDY, stream=True))
    assert "".join(piece.response or "" for piece in pieces) == answer.response


def test_thoughts_come_apart(client: ollama.Client) -> None:
    answer = client.chat("demo", HELLO, think=True, options=GREEDY)
    assert answer.message.thinking
    assert answer.message.content
    assert "<think>" not in answer.message.content
    parts = list(client.chat("demo", HELLO, think=True, options=GREEDY, stream=True))
    assert "".join(part.message.thinking or "" for part in parts) == answer.message.thinking
    assert not client.chat("demo", HELLO, think=False, options=GREEDY).message.thinking


def get_weather(city: str) -> str:
    """Get the weather in a city.

    Args:
        city: The city.
    """
    return json.dumps({"temperature": 19, "sky": "cloudy", "city": city})


@pytest.mark.parametrize("stream", [False, True])
def test_a_loop_of_calls_and_results_ends_with_an_answer(client: ollama.Client, stream: bool) -> None:
    messages: list[Any] = [{"role": "user", "content": "What is the weather in Paris?"}]
    calls: list[ollama.Message.ToolCall] = []
    if stream:
        for part in client.chat("demo", messages, tools=[get_weather], options=GREEDY, stream=True):
            calls += part.message.tool_calls or []
            assert not (part.done and part.message.tool_calls), "clients do not look into the last line"
        messages.append({"role": "assistant", "tool_calls": calls})
    else:
        message = client.chat("demo", messages, tools=[get_weather], options=GREEDY).message
        calls += message.tool_calls or []
        messages.append(message)
    (call,) = calls
    assert (call.function.name, call.function.arguments) == ("get_weather", {"city": "Paris"})
    result = get_weather(**call.function.arguments)
    messages.append({"role": "tool", "tool_name": call.function.name, "content": result})
    answer = client.chat("demo", messages, tools=[get_weather], options=GREEDY).message
    assert answer.content
    assert not answer.tool_calls


class Person(BaseModel):
    name: str
    age: int


def test_an_answer_keeps_a_schema(client: ollama.Client) -> None:
    asked: Any = [{"role": "user", "content": "Who are you? Answer in JSON."}]
    answer = client.chat("demo", asked, format=Person.model_json_schema(), options=GREEDY)
    assert Person.model_validate_json(answer.message.content or "")
    anything = client.generate("demo", "Answer in JSON.", format="json", options=GREEDY)
    assert isinstance(json.loads(anything.response or ""), dict)


def test_texts_become_vectors_of_length_one(client: ollama.Client) -> None:
    reply = client.embed("demo", ["a cat", "a dog"])
    assert len(reply.embeddings) == 2
    assert sum(number**2 for number in reply.embeddings[0]) == pytest.approx(1, abs=1e-4)
    assert client.embed("demo", "a cat").embeddings[0] == pytest.approx(reply.embeddings[0], abs=1e-4)
    assert len(client.embeddings("demo", "a cat").embedding) == len(reply.embeddings[0])


def test_a_model_comes_and_goes_as_keep_alive_says(client: ollama.Client) -> None:
    loaded = client.generate("demo", keep_alive="10m")
    assert loaded.done_reason == "load"
    (running,) = client.ps().models
    assert (running.model, running.context_length) == ("demo:latest", 2048)
    assert running.expires_at is not None
    gone = client.generate("demo", keep_alive=0)
    assert gone.done_reason == "unload"
    assert client.ps().models == []


def test_what_is_not_here_and_what_is_wrong_are_errors_with_a_status(client: ollama.Client) -> None:
    with pytest.raises(ollama.ResponseError, match=r"model 'nothing' not found") as missing:
        client.chat("nothing", HELLO)
    assert missing.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match=r"temperature") as wrong:
        client.chat("demo", HELLO, options={"temperature": -1})
    assert wrong.value.status_code == 400
    with pytest.raises(ollama.ResponseError, match=r"not found") as streamed:
        list(client.generate("nothing", "x", stream=True))
    assert streamed.value.status_code == 404


def test_a_model_that_is_a_part_of_this_needs_no_pull_and_cannot_be_deleted(client: ollama.Client) -> None:
    assert client.pull("demo").status == "success"
    assert [line.status for line in client.pull("demo", stream=True)][-1] == "success"
    with pytest.raises(ollama.ResponseError, match="part of localllm") as refused:
        client.delete("demo")
    assert refused.value.status_code == 404
