"""Guesses change no answer: two servers of the demo model, one that never guesses, asked the same in every API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import httpx
import pytest

from localllm.client.sidecar import Sidecar

pytestmark = pytest.mark.usefixtures("demo")

CITIES = "Paris, Berlin, Madrid, Rome, Vienna, Oslo, Lisbon, Dublin"
STORY = "Once upon a time there was a little cat. The little cat was happy. The little cat sat on the mat. "
LIST = [{"role": "user", "content": f"Repeat after me: {STORY * 3}"}]
PEOPLE = [{"role": "user", "content": "Give me JSON with name and age: Mira is 34 years old. Tom is 7 years old."}]
WEATHER = [{"role": "user", "content": "What is the weather in Paris?"}]
WILD = {"temperature": 1.3, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "maximum": 150}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
PERSONS = {"type": "array", "items": PERSON, "minItems": 4, "maxItems": 6}
TOOL_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Weather", "parameters": TOOL_SCHEMA}}

CHATS: dict[str, dict[str, Any]] = {
    "greedy": {"messages": LIST, "temperature": 0},
    "drawn": {"messages": LIST, "temperature": 0.8},
    "repetition penalty": {"messages": LIST, **WILD, "repeat_penalty": 1.2, "repeat_last_n": -1},
    "presence and frequency": {"messages": LIST, "presence_penalty": 0.6, "frequency_penalty": 0.4},
    "dry": {"messages": LIST, "temperature": 0.5, "dry_multiplier": 0.8, "dry_allowed_length": 2},
    "mirostat 1": {"messages": LIST, "mirostat": 1},
    "mirostat 2": {"messages": LIST, "mirostat": 2},
    "xtc": {"messages": LIST, "xtc_probability": 0.5, "xtc_threshold": 0.05},
    "typical": {"messages": LIST, "typical_p": 0.7, "top_k": 0},
    "top_n_sigma": {"messages": LIST, "top_n_sigma": 1.5, "top_k": 0},
    "dynamic temperature": {"messages": LIST, "dynatemp_range": 0.4, "dynatemp_exponent": 1.5},
    "logit_bias": {"messages": LIST, "logit_bias": {"100": 4, "200": -100}},
    "logprobs": {"messages": LIST, "logprobs": True, "top_logprobs": 4, "temperature": 0.7},
    "min_tokens": {"messages": WEATHER, "min_tokens": 60, "temperature": 0},
    "ignore_eos": {"messages": PEOPLE, "ignore_eos": True, "temperature": 0},
    "stop": {"messages": LIST, "temperature": 0, "stop": ["cat sat", "mat. The"]},
    "several": {"messages": LIST, "n": 3, "temperature": 1.0},
    "object": {"messages": PEOPLE, "response_format": {"type": "json_object"}, "temperature": 0.3},
    "schema": {
        "messages": PEOPLE,
        "response_format": {"type": "json_schema", "json_schema": {"name": "people", "schema": PERSONS}},
    },
    "schema, logprobs": {
        "messages": PEOPLE,
        "response_format": {"type": "json_schema", "json_schema": {"name": "people", "schema": PERSONS}},
        "logprobs": True, "top_logprobs": 2, "n": 2, **WILD,
    },
    "regex": {"messages": LIST, "guided_regex": "(The little cat (sat|ran)\\. ){4,9}"},
    "grammar": {"messages": LIST, "grammar": 'root ::= ("The little " ("cat" | "dog") " sat. ")+', **WILD},
    "tools, auto": {"messages": WEATHER, "tools": [TOOL], "temperature": 0},
    "tools, auto, wild": {"messages": WEATHER, "tools": [TOOL], **WILD},
    "tools, required": {"messages": WEATHER, "tools": [TOOL], "tool_choice": "required"},
    "thought": {"messages": WEATHER, "thinking_budget": 12, "reasoning_effort": "high"},
    "prediction": {"messages": LIST, "temperature": 0, "prediction": {"type": "content", "content": STORY * 4}},
    "prediction, wrong": {"messages": LIST, "prediction": {"type": "content", "content": CITIES * 4}},
}  # fmt: skip
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "completions": ("/v1/completions", {"prompt": STORY * 3, "temperature": 0.6, "logprobs": 3, "n": 2}),
    "completions, scored": ("/v1/completions", {"prompt": STORY * 3, "echo": True, "logprobs": 1, "temperature": 0}),
    "responses": ("/v1/responses", {"input": LIST[0]["content"], "temperature": 0.4}),
    "responses, schema": (
        "/v1/responses",
        {"input": PEOPLE[0]["content"], "text": {"format": {"type": "json_schema", "name": "p", "schema": PERSONS}}},
    ),
    "anthropic": ("/v1/messages", {"messages": LIST}),
    "anthropic, tools": (
        "/v1/messages",
        {
            "messages": WEATHER,
            "tools": [{"name": "get_weather", "description": "Weather", "input_schema": TOOL_SCHEMA}],
            "tool_choice": {"type": "any"},
        },
    ),
    "ollama chat": ("/api/chat", {"messages": LIST, "stream": False, "options": {"temperature": 0.4, "seed": 5}}),
    "ollama generate": (
        "/api/generate",
        {"prompt": STORY * 2, "raw": True, "stream": False, "options": {"repeat_penalty": 1.3, "seed": 5}},
    ),
    "ollama format": ("/api/chat", {"messages": PEOPLE, "stream": False, "format": PERSONS, "options": {"seed": 5}}),
    "llama-server": ("/completion", {"prompt": STORY * 3, "n_predict": 90, "n_probs": 2, "seed": 5}),
}
_OF_ITS_OWN = {
    "id", "created", "created_at", "completed_at", "timings", "total_duration", "load_duration", "eval_duration",
    "prompt_eval_duration", "system_fingerprint", "tokens_cached", "tokens_evaluated", "slot_id", "id_slot",
    "cached_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "input_tokens",
    "accepted_prediction_tokens", "rejected_prediction_tokens", "signature", "item_id", "call_id",
    "generation_settings", "context",
}  # fmt: skip
"""What differs between two answers that are the same."""
DIGITS = 2
"""Of log-probabilities: rows that are computed together are summed up in another order."""


class Both(NamedTuple):
    plain: httpx.Client
    guessing: httpx.Client

    def ask(self, path: str, body: dict[str, Any]) -> tuple[Any, Any]:
        """The answers of both. The prompt of several choices is cached first: its last token is computed with the rest
        of it, or alone, depending on when the second choice arrives, and then not to the same last bit."""
        if body.get("n", 1) > 1:
            for client in self:
                _told(client.post(path, json={**body, "n": 1}))
        return _told(self.plain.post(path, json=body)), _told(self.guessing.post(path, json=body))


@pytest.fixture(scope="module")
def both(home: Any) -> Iterator[Both]:
    # Whether flash attention is faster is measured, and on a busy machine two servers may decide differently.
    options = ["demo", "--slots=4", "--threads=1", "--flash-attn=on", "--log-level=warning"]
    with Sidecar.start([*options, "--speculation=off"]) as plain, Sidecar.start(options) as guessing:
        clients = [
            httpx.Client(base_url=one.url, headers={"authorization": f"Bearer {one.token}"}, timeout=120)
            for one in (plain, guessing)
        ]
        yield Both(*clients)
        for client in clients:
            client.close()


def _told(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    assert "x-localllm-ignored" not in response.headers, response.headers
    return _plain(response.json())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if name not in _OF_ITS_OWN}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return round(value, DIGITS) if isinstance(value, float) else value


def body(kind: str) -> dict[str, Any]:
    return {"model": "demo", "seed": 11, "max_tokens": 100, **CHATS[kind]}


@pytest.mark.parametrize("kind", CHATS)
def test_a_chat_with_guesses_is_answered_as_one_without(both: Both, kind: str) -> None:
    plain, guessed = both.ask("/v1/chat/completions", body(kind))
    assert guessed == plain


@pytest.mark.parametrize("kind", OTHERS)
def test_every_api_answers_with_guesses_as_without(both: Both, kind: str) -> None:
    path, fields = OTHERS[kind]
    limit = {} if path.startswith("/api") or path == "/completion" else {"max_tokens": 100, "seed": 11}
    if path == "/v1/responses":
        limit = {"max_output_tokens": 100, "seed": 11}
    if path == "/v1/messages":
        limit = {"max_tokens": 100, "temperature": 0}
    plain, guessed = both.ask(path, {"model": "demo", **limit, **fields})
    assert guessed == plain


def test_streams_beside_each_other_are_answered_as_alone(both: Both) -> None:
    """All of the chats at once, more than there are slots, some of them cut off by their clients in the middle."""
    expected = {kind: _told(both.plain.post("/v1/chat/completions", json=body(kind))) for kind in CHATS}

    def ask(kind: str) -> Any:
        return _told(both.guessing.post("/v1/chat/completions", json=body(kind)))

    def hang_up(kind: str) -> str:
        text = ""
        with both.guessing.stream("POST", "/v1/chat/completions", json={**body(kind), "stream": True}) as response:
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    choices = json.loads(line[6:])["choices"]
                    text += "".join(choice["delta"].get("content") or "" for choice in choices)
                if len(text) > 40:
                    break
        return text

    with ThreadPoolExecutor(8) as threads:
        gone = {kind: threads.submit(hang_up, kind) for kind in ("greedy", "prediction", "dry", "stop")}
        told = {kind: threads.submit(ask, kind) for kind in CHATS}
        for kind, answer in told.items():
            assert answer.result() == expected[kind], kind
        for kind, text in gone.items():
            assert expected[kind]["choices"][0]["message"]["content"].startswith(text.result())


def accepted(client: httpx.Client, **fields: Any) -> int:
    """Of an answer's tokens, those that were guessed."""
    asked = {"model": "demo", "temperature": 0, "max_tokens": 200, **fields}
    usage = client.post("/v1/chat/completions", json=asked).json()["usage"]
    return int(usage["completion_tokens_details"]["accepted_prediction_tokens"])


def test_there_were_guesses(both: Both) -> None:
    """What the tests before this one say would be worth little without any."""
    fields: dict[str, Any] = {"messages": LIST, "ignore_eos": True, "temperature": 0, "max_tokens": 200}
    answer = _told(both.plain.post("/v1/chat/completions", json={"model": "demo", **fields}))
    fields["prediction"] = {"type": "content", "content": answer["choices"][0]["message"]["content"]}
    assert accepted(both.plain, **fields) == 0
    # Beside other work, steps of several rows may have seemed too slow; that is forgotten within some hundred steps.
    assert any(accepted(both.guessing, **fields) for _ in range(20))


def test_what_a_grammar_leaves_open_is_guessed_too(both: Both) -> None:
    """Strings of a document, between the tokens that its schema forces."""
    schema = {
        "type": "array",
        "items": {"type": "string", "minLength": 30, "maxLength": 60},
        "minItems": 4,
        "maxItems": 4,
    }
    format = {"type": "json_schema", "json_schema": {"name": "texts", "schema": schema}}
    fields: dict[str, Any] = {"messages": LIST, "response_format": format}
    answer = _told(both.plain.post("/v1/chat/completions", json={"model": "demo", "temperature": 0, **fields}))
    content = answer["choices"][0]["message"]["content"]
    fields["prediction"] = {"type": "content", "content": content}
    assert any(accepted(both.guessing, **fields) for _ in range(20))
