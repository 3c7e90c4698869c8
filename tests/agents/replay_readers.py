"""Streams as editors and agents read them, each by the rules of its own sources.

What a client would crash on is an error here, and what it would drop is missing in what it saw. No code of theirs is
in this file; the source files whose rules a reader follows are named beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class SeenCall:
    """A call as a client hands it to its tool."""

    id: str
    name: str
    arguments: Any


@dataclass
class Seen:
    """What a client has of an answer."""

    text: str = ""
    thought: str = ""
    calls: list[SeenCall] = field(default_factory=list)
    finish: str | None = None
    usage: Json = field(default_factory=dict)
    signature: str = ""
    """Of the thought."""


def openai_events(lines: Iterable[str]) -> Iterator[Json]:
    """Of the official client for Node: it ends at [DONE], and an error in the stream is raised."""
    for line in lines:
        if not line.startswith("data:"):
            continue
        data = line.removeprefix("data:").strip()
        if data.startswith("[DONE]"):
            return
        event = json.loads(data)
        assert not event.get("error"), event
        yield event


def _first_delta(event: Json) -> Json:
    choices = event.get("choices") or [{}]
    delta: Json = choices[0].get("delta") or {}
    return delta


def read_cline(lines: Iterable[str], closing: tuple[str, ...] = ()) -> Seen:
    """Cline 3: core/api/providers/openai.ts, core/api/transform/tool-call-processor.ts, core/task/index.ts.

    A piece of arguments counts only once the id and the name of its call are known, and a call without one is lost.
    Text stands before a thought of the same chunk. Where tools are XML in the text, the first that is closed ends the
    stream: the connection is closed.
    """
    seen = Seen()
    heads: dict[int, tuple[str, str]] = {}
    arguments: dict[tuple[str, str], str] = {}
    for event in openai_events(lines):
        delta = _first_delta(event)
        seen.text += delta.get("content") or ""
        seen.thought += delta.get("reasoning_content") or ""
        for place, call in enumerate(delta.get("tool_calls") or ()):
            index = call.get("index", place)
            function = call.get("function") or {}
            id, name = heads.get(index, ("", ""))
            heads[index] = (call.get("id") or id, function.get("name") or name)
            if all(heads[index]) and function.get("arguments"):
                arguments[heads[index]] = arguments.get(heads[index], "") + function["arguments"]
        seen.usage = event.get("usage") or seen.usage
        if any(tag in seen.text for tag in closing):
            break
    seen.calls = [SeenCall(id, name, json.loads(text)) for (id, name), text in arguments.items()]
    return seen


def read_continue(lines: Iterable[str]) -> Seen:
    """Continue: core/llm/openaiTypeConverters.ts (fromChatCompletionChunk), gui/src/redux/slices/sessionSlice.ts,
    gui/src/util/toolCallState.ts.

    A chunk is text, or calls, or a thought: the first of them that it has. A piece of a call without an id belongs to
    the call that came last; arguments that can be parsed take no more pieces. Think tags in a text are cut out of it.
    """
    seen = Seen()
    calls: list[Json] = []
    for event in openai_events(lines):
        delta = _first_delta(event)
        seen.usage = event.get("usage") or seen.usage
        if delta.get("content"):
            assert "<think>" not in delta["content"]
            if seen.text or delta["content"].strip():
                seen.text += delta["content"]
        elif delta.get("tool_calls") is not None:
            for call in delta["tool_calls"]:
                if not call.get("type") or call["type"] == "function":
                    _merge_continue(calls, call)
        elif delta.get("reasoning_content") or delta.get("reasoning"):
            seen.thought += delta.get("reasoning_content") or delta["reasoning"]
    seen.calls = [SeenCall(call["id"], call["name"], json.loads(call["arguments"])) for call in calls]
    return seen


def _merge_continue(calls: list[Json], delta: Json) -> None:
    function = delta.get("function") or {}
    found = [call for call in calls if call["id"] == delta["id"]] if delta.get("id") else calls[-1:]
    if not found:
        found = [{"id": delta.get("id") or "", "name": "", "arguments": ""}]
        calls.append(found[0])
    call = found[0]
    name = function.get("name") or ""
    if name.startswith(call["name"]):
        call["name"] = name
    elif not call["name"].startswith(name):
        call["name"] += name
    try:
        json.loads(call["arguments"])
    except ValueError:
        call["arguments"] += function.get("arguments") or ""


def read_zed(lines: Iterable[str]) -> Seen:
    """Zed: crates/open_ai/src/open_ai.rs (its types), crates/open_ai/src/completion.rs (OpenAiEventMapper).

    A line that is no object of its types is an error. Calls are run only at the finish reason `tool_calls`; of each
    piece the index is needed. An id or a name that comes again takes the place of the one before.
    """
    seen = Seen()
    calls: dict[int, Json] = {}
    for line in lines:
        data = line.removeprefix("data: ")
        if data == line or data == "[DONE]":
            continue
        event = json.loads(data)
        assert isinstance(event.get("choices"), list), event
        if event.get("usage") is not None:
            assert {type(event["usage"][f"{kind}_tokens"]) for kind in ("prompt", "completion", "total")} == {int}
            seen.usage = event["usage"]
        for choice in event["choices"]:
            assert type(choice["index"]) is int
        if not event["choices"]:
            continue
        choice = event["choices"][0]
        delta = choice.get("delta") or {}
        assert delta.get("role") in (None, "user", "assistant", "system", "tool")
        for name in ("content", "reasoning_content"):
            assert isinstance(delta.get(name), str | None)
        seen.thought += delta.get("reasoning_content") or ""
        seen.text += delta.get("content") or ""
        for call in delta.get("tool_calls") or ():
            _merge_zed(calls, call)
        if choice.get("finish_reason") is not None:
            assert seen.finish is None
            seen.finish = choice["finish_reason"]
            if seen.finish == "tool_calls":
                seen.calls = [SeenCall(c["id"], c["name"], json.loads(c["arguments"] or "{}")) for c in calls.values()]
    return seen


def _merge_zed(calls: dict[int, Json], delta: Json) -> None:
    assert type(delta["index"]) is int
    call = calls.setdefault(delta["index"], {"id": "", "name": "", "arguments": ""})
    function = delta.get("function") or {}
    call["id"] = delta.get("id") or call["id"]
    call["name"] = function.get("name") or call["name"]
    call["arguments"] += function.get("arguments") or ""


def read_zed_responses(lines: Iterable[str]) -> Seen:
    """Zed: crates/open_ai/src/responses.rs (its types), crates/open_ai/src/completion.rs (OpenAiResponseEventMapper).

    Thoughts are those of summaries alone. Pieces of arguments belong to the item that was added with their id.
    """
    seen = Seen()
    begun: dict[str, Json] = {}
    for line in lines:
        data = line.removeprefix("data: ")
        if data == line or data in ("[DONE]", ""):
            continue
        event = json.loads(data)
        kind = event["type"]
        assert kind not in ("error", "response.error", "response.failed"), event
        if kind.startswith(
            ("response.output_", "response.function_", "response.reasoning_summary_", "response.content_")
        ):
            assert type(event["output_index"]) is int, event
            assert isinstance(event.get("item_id", ""), str), event
        if kind == "response.output_item.added" and event["item"]["type"] == "function_call":
            begun[event["item"]["id"]] = dict(event["item"])
        elif kind == "response.output_text.delta":
            seen.text += event["delta"]
        elif kind == "response.reasoning_summary_text.delta":
            seen.thought += event["delta"]
        elif kind == "response.function_call_arguments.delta":
            begun[event["item_id"]]["arguments"] += event["delta"]
        elif kind == "response.function_call_arguments.done":
            call = begun.pop(event["item_id"])
            arguments = json.loads(event["arguments"] or call["arguments"] or "{}")
            seen.calls.append(SeenCall(call["call_id"], call["name"], arguments))
        elif kind == "response.completed":
            usage = event["response"]["usage"]
            seen.usage = {
                "prompt_tokens": usage["input_tokens"],
                "prompt_tokens_details": usage["input_tokens_details"],
            }
            seen.finish = "tool_calls" if seen.calls else "stop"
    return seen


def read_ai_sdk(lines: Iterable[str]) -> Seen:
    """The AI SDK, below opencode, Kilo and Cline 4: packages/openai-compatible/src/chat/openai-compatible-chat-
    language-model.ts (its schema of a chunk), packages/provider-utils/src/streaming-tool-call-tracker.ts.

    A call begins with an id and a name; calls are made when the stream ends. A stream without a finish reason is an
    error. A thought ends where a text or a call begins.
    """
    seen = Seen()
    calls: list[Json] = []
    by_index: dict[int, Json] = {}
    for line in lines:
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:") or data == "[DONE]":
            continue
        event = json.loads(data)
        assert isinstance(event["choices"], list), event
        seen.usage = event.get("usage") or seen.usage
        if not event["choices"]:
            continue
        choice = event["choices"][0]
        seen.finish = choice.get("finish_reason") or seen.finish
        delta = choice.get("delta") or {}
        assert delta.get("role") in (None, "", "assistant")
        thought = delta.get("reasoning_content") or delta.get("reasoning") or ""
        assert not (thought and (seen.text or calls)), "a second thought"
        seen.thought += thought
        seen.text += delta.get("content") or ""
        for call in delta.get("tool_calls") or ():
            assert isinstance(call.get("function"), dict), call
            known = [one for one in calls if one["id"] == call["id"]] if call.get("id") else None
            one = known[0] if known else None if call.get("id") else by_index.get(call["index"])
            if one is None:
                assert isinstance(call.get("id"), str), call
                assert isinstance(call["function"].get("name"), str), call
                one = {"id": call["id"], "name": call["function"]["name"], "arguments": ""}
                calls.append(one)
            one["arguments"] += call["function"].get("arguments") or ""
            by_index[call["index"]] = one
    assert seen.finish is not None, "the stream ended without a finish reason"
    seen.calls = [SeenCall(call["id"], call["name"], json.loads(call["arguments"])) for call in calls]
    return seen


def read_open_webui(lines: Iterable[str]) -> Seen:
    """Open WebUI: backend/open_webui/utils/middleware.py (stream_body_handler).

    A name that comes in pieces is put together, so one that came twice would be a wrong one. Of a usage the timings
    are part.
    """
    seen = Seen()
    calls: dict[int, Json] = {}
    for event in openai_events(lines):
        seen.usage = event.get("usage") or seen.usage
        delta = _first_delta(event)
        seen.text += delta.get("content") or ""
        seen.thought += delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls") or ():
            function = call["function"]
            one = calls.setdefault(call["index"], {"id": call.get("id"), "name": "", "arguments": ""})
            one["name"] += function.get("name") or ""
            one["arguments"] += function.get("arguments") or ""
    seen.calls = [SeenCall(call["id"], call["name"], json.loads(call["arguments"])) for call in calls.values()]
    return seen


def read_claude_code(lines: Iterable[str]) -> Seen:
    """Of Anthropic's client: lib/MessageStream.ts. Blocks come in turn; a call's input is parsed at its end."""
    seen = Seen()
    block: Json = {}
    opened = 0
    for line in lines:
        if not line.startswith("data: "):
            continue
        event = json.loads(line.removeprefix("data: "))
        kind = event["type"]
        assert kind != "error", event
        if kind == "content_block_start":
            assert (event["index"], block) == (opened, {})
            opened += 1
            block = {**event["content_block"], "input": ""}
        elif kind == "content_block_delta":
            assert event["index"] == opened - 1
            name = {"input_json_delta": "partial_json"}.get(event["delta"]["type"], event["delta"]["type"][:-6])
            field = "input" if name == "partial_json" else name
            block[field] = block.get(field, "") + event["delta"][name]
        elif kind == "content_block_stop":
            seen.text += block.get("text", "")
            seen.thought += block.get("thinking", "")
            seen.signature += block.get("signature", "")
            if block["type"] == "tool_use":
                seen.calls.append(SeenCall(block["id"], block["name"], json.loads(block["input"] or "{}")))
            block = {}
        elif kind == "message_delta":
            usage, finish = event["usage"], event["delta"]["stop_reason"]
            cached = usage["cache_read_input_tokens"]
            seen.usage = {
                "prompt_tokens": usage["input_tokens"] + cached,
                "prompt_tokens_details": {"cached_tokens": cached},
            }
            seen.finish = {"tool_use": "tool_calls", "end_turn": "stop"}.get(finish, finish)
    assert bool(seen.signature) == bool(seen.thought)
    return seen


def read_codex(lines: Iterable[str]) -> Seen:
    """Codex: codex-rs/codex-api (sse/responses.rs). What counts are items that are done, and the response's end."""
    seen = Seen()
    for line in lines:
        if not line.startswith("data: "):
            continue
        event = json.loads(line.removeprefix("data: "))
        assert event["type"] not in ("error", "response.failed", "response.incomplete"), event
        if event["type"] == "response.output_item.done":
            _take_codex(seen, event["item"])
        elif event["type"] == "response.completed":
            usage = event["response"]["usage"]
            seen.usage = {
                "prompt_tokens": usage["input_tokens"],
                "prompt_tokens_details": usage["input_tokens_details"],
            }
            seen.finish = "tool_calls" if seen.calls else "stop"
    assert seen.finish is not None, "the stream ended before the response"
    return seen


def _take_codex(seen: Seen, item: Json) -> None:
    if item["type"] == "reasoning":
        seen.thought += "".join(part["text"] for part in item["summary"])
        seen.signature += item["encrypted_content"]
    elif item["type"] == "message":
        seen.text += "".join(part["text"] for part in item["content"])
    elif item["type"] == "custom_tool_call":
        seen.calls.append(SeenCall(item["call_id"], item["name"], {"input": item["input"]}))
    else:
        name = f"{item['namespace']}__{item['name']}" if item.get("namespace") else item["name"]
        seen.calls.append(SeenCall(item["call_id"], name, json.loads(item["arguments"])))


def told(seen: Seen) -> Seen:
    """What of it does not depend on the run."""
    return replace(seen, calls=[replace(call, id="") for call in seen.calls], finish=None, usage={}, signature="")
