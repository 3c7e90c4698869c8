"""The chunks of a chat answer add up to the whole answer, for whatever a model says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.runtime.runtime import Answer
from localllm.server.answers.choices import collect
from localllm.server.apis.openai.replies import CalledDelta
from localllm.server.apis.openai.requests import parse_chat
from localllm.server.apis.openai.shapes import ChatShape
from localllm.server.requests.tool_choice import Tooling
from localllm.types import CallDelta, Delta, Finish, Timings, Usage

FINISH = Finish("stop", Usage(1, 1), Timings(0, 0, 0))


class Played(Answer):
    """These deltas."""

    def __init__(self, deltas: Sequence[Delta]) -> None:
        self._deltas = iter(deltas)

    async def __anext__(self) -> Delta:
        return next(self._deltas)

    def __del__(self) -> None:
        pass


def tooling(**asked: Any) -> Tooling:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], **asked}
    return parse_chat(json.dumps(body).encode())[0].tooling()


TOOLS = [{"type": "function", "function": {"name": "f"}}, {"type": "custom", "custom": {"name": "patch"}}]
SHAPES = [
    ChatShape(tooling(tools=TOOLS)),
    ChatShape(tooling(tools=TOOLS, tool_choice="required")),
    ChatShape(tooling(tools=TOOLS, tool_choice={"type": "custom", "custom": {"name": "patch"}})),
    ChatShape(tooling(functions=[{"name": "f"}])),
    ChatShape(),
]


@st.composite
def answers(draw: st.DrawFn) -> list[Delta]:
    """Thought, text and calls in pieces, several of which may be in one delta."""
    texts = st.lists(st.text(max_size=3), max_size=3)
    pieces: list[Any] = [("thought", piece) for piece in draw(texts)] + [("text", piece) for piece in draw(texts)]
    for index in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from(["f", "patch"]))
        whole = json.dumps({"input": draw(st.text(max_size=5))}, ensure_ascii=draw(st.booleans()))
        cut = draw(st.integers(0, len(whole)))
        end = draw(st.integers(cut, len(whole)))
        pieces += [
            ("call", CallDelta(index, whole[:cut], name, f"id{index}")),
            ("call", CallDelta(index, whole[cut:end])),
        ]
    pieces += [("text", piece) for piece in draw(texts)]
    deltas: list[Delta] = []
    while pieces:
        taken, pieces = pieces[: (count := draw(st.integers(1, 4)))], pieces[count:]
        deltas.append(
            Delta(
                "".join(piece for kind, piece in taken if kind == "text"),
                len(taken),
                thought="".join(piece for kind, piece in taken if kind == "thought"),
                calls=tuple(piece for kind, piece in taken if kind == "call"),
                notes=draw(st.sampled_from([(), ("odd",)])),
            )
        )
    return [*deltas, Delta(finish=FINISH)]


@given(deltas=answers(), shape=st.sampled_from(SHAPES))
def test_the_sum_of_the_chunks_is_the_whole_answer(deltas: list[Delta], shape: ChatShape) -> None:
    (made,) = asyncio.run(collect([Played(deltas)]))
    whole = shape.whole(0, made, None)
    stream = shape.stream(0)
    chunks = [stream.first(), *(chunk for delta in deltas for chunk in stream.chunks(delta, None)), stream.last(FINISH)]
    text = thought = ""
    calls: dict[int, dict[str, str]] = {}
    legacy: dict[str, str] = {}
    for chunk in chunks:
        assert chunk is not None
        delta = chunk.delta
        text += delta.content or ""
        thought += delta.reasoning_content
        assert delta.reasoning == delta.reasoning_content
        assert bool(delta.content) + bool(delta.reasoning) + bool(delta.tool_calls) <= 1, "Continue reads one of them"
        for call in delta.tool_calls:
            of = call.function or call.custom
            assert of is not None
            piece = of.arguments if isinstance(of, CalledDelta) else of.input
            if call.index not in calls:
                assert (call.id, call.type, piece) == (f"id{call.index}", call.type, ""), "the head comes alone"
                assert of.name
                calls[call.index] = {"id": call.id or "", "type": call.type or "", "name": of.name, "text": ""}
            else:
                assert (call.id, call.type, of.name) == (None, None, None), "names come once"
                calls[call.index]["text"] += piece
        if delta.function_call is not None:
            legacy = {
                "name": legacy.get("name") or delta.function_call.name or "",
                "arguments": legacy.get("arguments", "") + delta.function_call.arguments,
            }
    encoded = json.loads(msgspec.json.encode(whole))
    message = encoded["message"]
    assert text == (message["content"] or "")
    assert (message["content"] is None) == (not text and bool(made.calls))
    assert thought == message.get("reasoning_content", "")
    told = [
        {"id": call["id"], "type": call["type"], "name": of["name"], "text": of.get("arguments", of.get("input"))}
        for call in message.get("tool_calls", ())
        for of in (call[call["type"]],)
    ]
    assert [calls[index] for index in sorted(calls)] == told
    assert legacy == message.get("function_call", {})
    assert chunks[-1] is not None
    assert chunks[-1].finish_reason == whole.finish_reason
    assert stream.warnings(FINISH) == shape.warnings(made)


@pytest.mark.parametrize("beginning", ["", None])
def test_a_stream_begins_with_the_text_that_its_dialect_has(beginning: str | None) -> None:
    first = ChatShape(begins_with=beginning).stream(0).first()
    assert first is not None
    assert msgspec.to_builtins(first.delta) == {"role": "assistant", "content": beginning}
