"""The events of a response add up to it, however its text, thoughts and calls are cut into pieces."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from localllm.server.apis.responses import replies as out
from localllm.server.apis.responses.events import encode
from localllm.server.apis.responses.requests import ResponseRequest
from localllm.server.apis.responses.story import Story
from localllm.server.apis.responses.tools import Origin
from localllm.types import CallDelta, Delta, Finish, Timings, TokenLogprob, Usage
from tests.later import openai, response_event
from tests.server.fake_runtime import FINISH

LENGTH = Finish("length", Usage(7, 3), Timings(0, 0, 0))
LOGPROB = TokenLogprob(b"x", -1.0, ((b"y", -2.0),))
ORIGINS = {
    "f": Origin("function", "f"),
    "patch": Origin("custom", "patch"),
    "mcp__git__log": Origin("function", "log", "mcp__git"),
    "mcp__git__note": Origin("custom", "note", "mcp__git"),
}


class Called(NamedTuple):
    """One call of an answer."""

    name: str
    arguments: str


def story_of(deltas: list[Delta], finish: Finish, *, seals: bool = False) -> tuple[Story, list[dict[str, Any]]]:
    begun = out.begun(ResponseRequest(model="tiny", input="Hi"), "tiny", store=True)
    story = Story(begun, seals_thoughts=seals, origins=ORIGINS)
    events = [*story.begin(1), *(event for delta in deltas for event in story.feed(delta)), *story.end(finish)]
    return story, [json.loads(encode(event).partition(b"data: ")[2]) for event in events]


TEXTS = st.text(min_size=1, max_size=5)
CALLS = st.builds(
    Called, st.sampled_from(["f", "mcp__git__log"]), st.sampled_from(["{}", '{"a": "\\u00e4"}', ""])
) | st.builds(
    lambda name, text: Called(name, json.dumps({"input": text})),
    st.sampled_from(["patch", "mcp__git__note"]),
    st.text(),
)


def cut(draw: st.DrawFn, text: str) -> list[str]:
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


@st.composite
def answers(draw: st.DrawFn) -> tuple[list[str], list[str | Called], list[Delta]]:
    """Thoughts, then texts and calls; and the same in deltas."""
    thoughts = draw(st.lists(TEXTS, max_size=3))
    parts: list[str | Called] = draw(st.lists(TEXTS | CALLS, max_size=5))
    deltas = [Delta(thought=piece, num_tokens=1) for text in thoughts for piece in cut(draw, text)]
    number = 0
    for part in parts:
        if isinstance(part, str):
            deltas += [Delta(piece, 1) for piece in cut(draw, part)]
            continue
        first, *more = cut(draw, part.arguments)
        pieces = [CallDelta(number, first, part.name, f"call_{number}")] + [CallDelta(number, each) for each in more]
        number += 1
        if draw(st.booleans()):
            deltas.append(Delta(calls=tuple(pieces)))
        else:
            deltas += [Delta(calls=(piece,)) for piece in pieces]
    return thoughts, parts, deltas


def expected(thoughts: list[str], parts: list[str | Called]) -> list[tuple[Any, ...]]:
    """The items that make up such an answer."""
    items: list[tuple[Any, ...]] = [("reasoning", "".join(thoughts))] if thoughts else []
    number = 0
    for part in parts:
        if isinstance(part, Called):
            origin = ORIGINS[part.name]
            kind = "custom_tool_call" if origin.kind == "custom" else "function_call"
            given = json.loads(part.arguments)["input"] if origin.kind == "custom" else part.arguments
            items.append((kind, origin.name, origin.namespace, f"call_{number}", given))
            number += 1
        elif items and items[-1][0] == "message":
            items[-1] = ("message", items[-1][1] + part)
        else:
            items.append(("message", part))
    return items if parts else [*items, ("message", "")]


def shown(item: dict[str, Any]) -> tuple[Any, ...]:
    if item["type"] in ("reasoning", "message"):
        return item["type"], item["content"][0]["text"]
    given = item["input"] if item["type"] == "custom_tool_call" else item["arguments"]
    return item["type"], item["name"], item.get("namespace"), item["call_id"], given


@given(answers(), st.sampled_from([FINISH, LENGTH]), st.booleans())
def test_the_events_add_up_to_the_response_however_an_answer_is_cut(
    answer: tuple[list[str], list[str | Called], list[Delta]], finish: Finish, seals: bool
) -> None:
    thoughts, parts, deltas = answer
    _, events = story_of(deltas, finish, seals=seals)
    response = events[-1]["response"]
    output: list[dict[str, Any]] = response["output"]
    assert [shown(item) for item in output] == expected(thoughts, parts)
    openai.types.responses.Response.model_validate(response)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [response_event().validate_python(event).type for event in events] == [event["type"] for event in events]
    indexes = [event["output_index"] for event in events[2:-1]]
    assert indexes == sorted(indexes), "an item ends before the next begins"
    for index, item in enumerate(output):
        own = [event for event in events if event.get("output_index") == index]
        assert (own[0]["type"], own[-1]["type"]) == ("response.output_item.added", "response.output_item.done")
        assert own[0]["item"]["id"] == item["id"]
        assert own[0]["item"]["status"] == "in_progress"
        assert own[-1]["item"] == item
        assert {event["item_id"] for event in own[1:-1]} <= {item["id"]}
        assert "".join(event["delta"] for event in own if event["type"].endswith(".delta")) == shown(item)[-1]
    statuses = [item["status"] for item in output]
    is_cut = finish is LENGTH
    assert statuses[-1] == ("incomplete" if is_cut else "completed")
    assert set(statuses[: -2 if thoughts and not parts else -1]) <= {"completed"}
    assert (response["status"], events[-1]["type"]) == (
        ("incomplete", "response.incomplete") if is_cut else ("completed", "response.completed")
    )


@given(
    st.lists(st.tuples(st.text(max_size=3), st.booleans()), max_size=3),
    st.lists(st.tuples(st.text(max_size=3), st.booleans()), max_size=5),
)
def test_log_probabilities_are_the_texts_and_not_the_thoughts(
    thoughts: list[tuple[str, bool]], pieces: list[tuple[str, bool]]
) -> None:
    deltas = [Delta("", 1, None, (LOGPROB,) * has, thought=text) for text, has in thoughts]
    deltas += [Delta(text, 1, None, (LOGPROB,) * has) for text, has in pieces]
    _, events = story_of(deltas, FINISH)
    message = events[-1]["response"]["output"][-1]
    logprobs = message["content"][0]["logprobs"]
    has_thought = any(text for text, _ in thoughts)
    texts = [text for text, _ in pieces]
    first = next((number for number, text in enumerate(texts) if text), len(texts)) if has_thought else 0
    early = 0 if has_thought else sum(has for _, has in thoughts)
    assert len(logprobs) == early + sum(has for _, has in pieces[first:])
    streamed = [each for event in events if event["type"] == "response.output_text.delta" for each in event["logprobs"]]
    assert streamed == logprobs


def test_the_events_of_a_thought_a_text_and_two_calls_come_in_openais_order() -> None:
    deltas = [
        Delta(thought="Hm."),
        Delta("I look."),
        Delta(calls=(CallDelta(0, '{"a"', "f", "call_a"),)),
        Delta(calls=(CallDelta(0, ":1}"), CallDelta(1, '{"input": "*', "patch", "call_b"))),
        Delta(calls=(CallDelta(1, ' x"}'),)),
    ]
    _, events = story_of(deltas, FINISH)
    assert [(event["type"].removeprefix("response."), event.get("output_index")) for event in events] == [
        ("created", None),
        ("in_progress", None),
        ("output_item.added", 0),
        ("content_part.added", 0),
        ("reasoning_text.delta", 0),
        ("reasoning_text.done", 0),
        ("content_part.done", 0),
        ("output_item.done", 0),
        ("output_item.added", 1),
        ("content_part.added", 1),
        ("output_text.delta", 1),
        ("output_text.done", 1),
        ("content_part.done", 1),
        ("output_item.done", 1),
        ("output_item.added", 2),
        ("function_call_arguments.delta", 2),
        ("function_call_arguments.delta", 2),
        ("function_call_arguments.done", 2),
        ("output_item.done", 2),
        ("output_item.added", 3),
        ("custom_tool_call_input.delta", 3),
        ("custom_tool_call_input.delta", 3),
        ("custom_tool_call_input.done", 3),
        ("output_item.done", 3),
        ("completed", None),
    ]


def test_a_thought_that_is_to_be_sent_back_is_sealed_when_it_is_whole() -> None:
    _, events = story_of([Delta(thought="Hm "), Delta(thought="\u2713"), Delta("x")], FINISH, seals=True)
    added, done = (
        event["item"]
        for event in events
        if event["type"].startswith("response.output_item") and event["output_index"] == 0
    )
    assert "encrypted_content" not in added
    assert done["encrypted_content"].startswith("localllm.1.")
    _, unsealed = story_of([Delta(thought="Hm"), Delta("x")], FINISH)
    assert "encrypted_content" not in unsealed[-1]["response"]["output"][0]


def test_warnings_stand_beside_the_output() -> None:
    deltas = [Delta("<call>", notes=("a call of undeclared function 'g' is in the text",))]
    _, events = story_of(deltas, FINISH)
    assert "localllm" not in events[0]["response"]
    assert events[-1]["response"]["localllm"] == {"warnings": ["a call of undeclared function 'g' is in the text"]}
