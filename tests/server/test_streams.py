"""A stream of any dialect says what the whole answer says, however the model's words are cut, through a real server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localllm.types import CallDelta, Delta, Finish, FinishReason, Timings, Usage
from tests.server.conftest import Served

Json = dict[str, Any]
USER: Json = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
SCHEMA = {"type": "object"}
FUNCTION = {"name": "f", "parameters": SCHEMA}
CALLS = '{"city": "Ulm ✓", "days": [1, 2.5, null]}', "{}", '{"a": {"b": "\\u00e4 \\" }"}}'


class Said(NamedTuple):
    """What there is of an answer, in no dialect's words."""

    thought: str
    text: str
    calls: list[tuple[str, Any]]
    finish: str | None
    num_tokens: tuple[int, int] | None


def events(stream: str) -> Iterator[Json]:
    for line in stream.splitlines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line.removeprefix("data: "))


def lines(stream: str) -> list[Json]:
    return [json.loads(line) for line in stream.splitlines()]


def of_chat(message: Json, finish: str | None, usage: Json) -> Said:
    calls = [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message["tool_calls"]]
    return Said(message["reasoning_content"], message["content"], calls, finish, _openai_usage(usage))


def _openai_usage(usage: Json) -> tuple[int, int]:
    return usage["prompt_tokens"], usage["completion_tokens"]


def chat(whole: Json) -> Said:
    (choice,) = whole["choices"]
    empty: Json = {"tool_calls": [], "reasoning_content": ""}
    given = {name: value for name, value in choice["message"].items() if value is not None}
    return of_chat({**empty, "content": "", **given}, choice["finish_reason"], whole["usage"])


def chat_stream(stream: str) -> Said:
    message: Json = {"content": "", "reasoning_content": "", "tool_calls": []}
    finish = None
    usage: Json = {}
    for event in events(stream):
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            finish = choice["finish_reason"] or finish
            for name in ("content", "reasoning_content"):
                message[name] += choice["delta"].get(name) or ""
            for call in choice["delta"].get("tool_calls", ()):
                if call["index"] == len(message["tool_calls"]):
                    message["tool_calls"].append({"function": {"name": call["function"]["name"], "arguments": ""}})
                message["tool_calls"][call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    return of_chat(message, finish, usage)


def completion(whole: Json) -> Said:
    (choice,) = whole["choices"]
    return Said("", choice["text"], [], choice["finish_reason"], _openai_usage(whole["usage"]))


def completion_stream(stream: str) -> Said:
    told = list(events(stream))
    choices = [choice for event in told for choice in event["choices"]]
    text = "".join(choice["text"] for choice in choices)
    return Said("", text, [], choices[-1]["finish_reason"], _openai_usage(told[-1]["usage"]))


def response(whole: Json) -> Said:
    thought, text, calls = "", "", []
    for item in whole["output"]:
        if item["type"] == "reasoning":
            thought += "".join(part["text"] for part in item["content"])
        elif item["type"] == "message":
            text += "".join(part["text"] for part in item["content"])
        else:
            calls.append((item["name"], json.loads(item["arguments"])))
    usage = whole["usage"]
    return Said(thought, text, calls, whole["status"], (usage["input_tokens"], usage["output_tokens"]))


def response_stream(stream: str) -> Said:
    """By its pieces; that its last event is the whole response is tested elsewhere."""
    pieces: dict[str, str] = {"reasoning_text": "", "output_text": ""}
    names: list[str] = []
    arguments: dict[int, str] = {}
    last: Json = {}
    for event in events(stream):
        kind, _, what = event["type"].removeprefix("response.").partition(".")
        if what == "delta" and kind in pieces:
            pieces[kind] += event["delta"]
        elif what == "delta" and kind == "function_call_arguments":
            arguments[event["output_index"]] = arguments.get(event["output_index"], "") + event["delta"]
        elif event["type"] == "response.output_item.added" and event["item"]["type"] == "function_call":
            names.append(event["item"]["name"])
            arguments[event["output_index"]] = ""
        last = event.get("response", last)
    calls = [(name, json.loads(text)) for name, text in zip(names, arguments.values(), strict=True)]
    usage = last["usage"]
    tokens = usage["input_tokens"], usage["output_tokens"]
    return Said(pieces["reasoning_text"], pieces["output_text"], calls, last["status"], tokens)


def message(whole: Json) -> Said:
    blocks = whole["content"]
    thought = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    calls = [(block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"]
    return Said(thought, text, calls, whole["stop_reason"], _anthropic_usage(whole["usage"]))


def _anthropic_usage(usage: Json) -> tuple[int, int]:
    return usage["input_tokens"] + usage["cache_read_input_tokens"], usage["output_tokens"]


def message_stream(stream: str) -> Said:
    whole: Json = {"content": []}
    inputs: list[str] = []
    for event in events(stream):
        if event["type"] == "content_block_start":
            whole["content"].append(event["content_block"])
            inputs.append("")
        elif event["type"] == "content_block_delta":
            delta, block = event["delta"], whole["content"][event["index"]]
            if delta["type"] == "input_json_delta":
                inputs[event["index"]] += delta["partial_json"]
            elif delta["type"] != "signature_delta":
                name = delta["type"].removesuffix("_delta")
                block[name] += delta[name]
        elif event["type"] == "message_delta":
            whole |= {"stop_reason": event["delta"]["stop_reason"], "usage": event["usage"]}
    for block, text in zip(whole["content"], inputs, strict=True):
        block["input"] = json.loads(text or "{}")
    return message(whole)


def ollama(told: list[Json]) -> Said:
    said = [line.get("message", line) for line in told]
    thought = "".join(line.get("thinking", "") for line in said)
    text = "".join(line.get("content", line.get("response", "")) for line in said)
    calls = [call["function"] for line in said for call in line.get("tool_calls", ())]
    last = told[-1]
    made = [(call["name"], call["arguments"]) for call in calls]
    return Said(thought, text, made, last["done_reason"], (last["prompt_eval_count"], last["eval_count"]))


def native(told: list[Json]) -> Said:
    last = told[-1]
    text = "".join(event["content"] for event in told)
    finish = "length" if last["stop_type"] == "limit" else "stop"
    return Said("", text, [], finish, (last["tokens_evaluated"], last["tokens_predicted"]))


class Dialect(NamedTuple):
    """`whole` and `stream` read what the server says."""

    path: str
    body: Json
    whole: Callable[[Json], Said]
    stream: Callable[[str], Said]
    has_thoughts: bool = True
    has_calls: bool = True
    asks: Json | None = None
    """What a stream needs besides `stream`."""


USAGE: Json = {"stream_options": {"include_usage": True}}
OF_CHAT: Json = {"tools": [{"type": "function", "function": FUNCTION}]}
DIALECTS = {
    "chat": Dialect("/v1/chat/completions", USER | OF_CHAT, chat, chat_stream, asks=USAGE),
    "completions": Dialect(
        "/v1/completions", {"model": "tiny", "prompt": "Hi"}, completion, completion_stream, False, False, USAGE
    ),
    "llama-completion": Dialect(
        "/completion",
        {"prompt": "Hi"},
        lambda told: native([told]),
        lambda told: native(list(events(told))),
        has_thoughts=False,
        has_calls=False,
    ),
    "responses": Dialect(
        "/v1/responses",
        {"model": "tiny", "input": "Hi", "tools": [{"type": "function", **FUNCTION}]},
        response,
        response_stream,
    ),
    "messages": Dialect(
        "/v1/messages",
        {**USER, "max_tokens": 50, "tools": [{"name": "f", "input_schema": SCHEMA}]},
        message,
        message_stream,
    ),
    "ollama-chat": Dialect("/api/chat", USER | OF_CHAT, lambda told: ollama([told]), lambda told: ollama(lines(told))),
    "ollama-generate": Dialect(
        "/api/generate",
        {"model": "tiny", "prompt": "Hi"},
        lambda told: ollama([told]),
        lambda told: ollama(lines(told)),
        has_calls=False,
    ),
}


def cut(draw: st.DrawFn, text: str) -> list[str]:
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


WORDS = st.text(st.characters(codec="utf-8") | st.sampled_from("\x85\u2028\u2029\x1c\n"), max_size=8)
"""With all that ends a line for somebody: clients in Python read streams by `splitlines`."""


@st.composite
def answers(draw: st.DrawFn, dialect: Dialect) -> tuple[str, str, list[Any], tuple[Delta, ...]]:
    """A thought, a text and calls; and the same in deltas, with the end."""
    thought = draw(WORDS) if dialect.has_thoughts else ""
    text = draw(WORDS)
    deltas = [Delta(thought=piece, num_tokens=1) for piece in cut(draw, thought)]
    deltas += [Delta(piece, 1) for piece in cut(draw, text)]
    calls = draw(st.lists(st.sampled_from(CALLS), max_size=3)) if dialect.has_calls else []
    for number, arguments in enumerate(calls):
        first, *more = cut(draw, arguments)
        pieces = [CallDelta(number, first, "f", f"call_{number}"), *(CallDelta(number, piece) for piece in more)]
        together = draw(st.booleans())
        deltas += [Delta(calls=tuple(pieces))] if together else [Delta(calls=(piece,)) for piece in pieces]
    reasons: tuple[FinishReason, ...] = ("stop", "length")
    reason = draw(st.sampled_from(reasons))
    usage = Usage(prompt_tokens=7, completion_tokens=draw(st.integers(1, 9)), cached_tokens=2)
    end = Delta("", 0, Finish(reason, usage, Timings(0.1, 0.2, 0.3)))
    return thought, text, [json.loads(each) for each in calls], (*deltas, end)


@pytest.mark.parametrize("name", DIALECTS)
def test_a_stream_adds_up_to_the_whole_answer(served: Served, name: str) -> None:
    dialect = DIALECTS[name]

    @settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
    @given(answers(dialect))
    def same(answer: tuple[str, str, list[Any], tuple[Delta, ...]]) -> None:
        thought, text, calls, script = answer
        served.runtime.script = script
        whole = served.http.post(dialect.path, json={**dialect.body, "stream": False})
        streamed = served.http.post(dialect.path, json={**dialect.body, "stream": True, **(dialect.asks or {})})
        assert (whole.status_code, streamed.status_code) == (200, 200)
        said = dialect.whole(whole.json())
        assert (said.thought, said.text, [arguments for _, arguments in said.calls]) == (thought, text, calls)
        assert dialect.stream(streamed.content.decode("utf-8")) == said

    same()
