"""What a worker sends of an answer, told apart where it arrives: the same however it comes, and counted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from localllm.runtime.answer_reader import Reading, reading_for
from localllm.types import (
    Beginning,
    Calling,
    ChatFormat,
    Delta,
    Finish,
    Function,
    GenerationRequest,
    Message,
    Timings,
    ToolCall,
    Usage,
    whole_calls,
)  # fmt: skip
from localllm.types.formats import Calls, ObjectCall
from localllm.types.structures import THOUGHTS, Structure, Tags

HERMES = Calls(call=ObjectCall(before="<tool_call>\n", after="\n</tool_call>"), between="\n")
FORMAT = ChatFormat(thought=THOUGHTS[0], calls=HERMES)
CALLING = Calling(functions=(Function(name="look"),))
CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "</think> {}"}}\n</tool_call>'


def asked(**fields: Any) -> GenerationRequest:
    return GenerationRequest(messages=(Message("user", "Hi"),), **fields)


def reading(beginning: Beginning = "either", format: ChatFormat = FORMAT, **fields: Any) -> Reading:
    found = reading_for(asked(**fields), format, beginning)
    assert found is not None
    return found


def finish(num_tokens: int) -> Finish:
    return Finish("stop", Usage(3, num_tokens), Timings(0.0, 0.0, 0.0))


def read(reader: Reading, pieces: list[str]) -> tuple[Delta, tuple[ToolCall, ...]]:
    """All deltas as one; each piece is as many tokens as it has characters, the last comes with the finish."""
    pieces = pieces or [""]
    sent = [Delta(piece, len(piece), lengths=(1,) * len(piece)) for piece in pieces]
    sent[-1] = replace(sent[-1], finish=finish(sum(map(len, pieces))))
    deltas = [reader.read(delta) for delta in sent]
    whole = Delta(
        "".join(delta.text for delta in deltas),
        sum(delta.num_tokens for delta in deltas),
        deltas[-1].finish,
        thought="".join(delta.thought for delta in deltas),
        notes=tuple(note for delta in deltas for note in delta.notes),
    )
    return whole, whole_calls(call for delta in deltas for call in delta.calls)


@given(data=st.data())
def test_an_answer_is_the_same_and_counted_alike_however_it_comes(data: st.DataObject) -> None:
    text = f"<think>\nWell, so.\n</think>\n\nLet me see.\n{CALL}"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=9)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole, calls = read(reading(calling=CALLING), pieces)
    assert (whole.thought, whole.text, whole.notes) == ("Well, so.", "Let me see.", ())
    assert [(call.name, call.arguments) for call in calls] == [("look", '{"at": "</think> {}"}')]
    assert whole.finish is not None
    assert whole.finish.usage.reasoning_tokens == len("<think>\nWell, so.\n</think>")
    assert whole.finish.usage.completion_tokens == len(text)


def test_a_thought_that_the_prompt_began_is_read_from_the_first_character_on() -> None:
    whole, _ = read(reading("thought"), ["Well", ".</th", "ink>\n\nSo"])
    assert (whole.thought, whole.text) == ("Well.", "So")


def test_what_is_held_back_comes_with_the_finish() -> None:
    whole, calls = read(reading(calling=CALLING), ["Hi <tool", "_ca"])
    assert (whole.text, calls) == ("Hi <tool_ca", ())


def test_nothing_is_counted_as_thought_where_there_is_none() -> None:
    whole, _ = read(reading(), ["So it ", "is."])
    assert whole.finish is not None
    assert whole.finish.usage.reasoning_tokens == 0


def test_a_thought_is_left_in_the_text_where_that_is_asked_for() -> None:
    whole, calls = read(reading("thought", splits_thoughts=False, calling=CALLING), [f"Well.</think>\n\nSo\n{CALL}"])
    assert (whole.thought, whole.text) == ("", "Well.</think>\n\nSo")
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("beginning", "format", "fields"),
    [
        ("text", ChatFormat(calls=HERMES), {}),
        ("text", ChatFormat(calls=HERMES), {"calling": Calling(functions=CALLING.functions, choice="none")}),
        ("text", FORMAT, {"structure": Structure(kind="regex", source="<think>.*")}),
        ("either", FORMAT, {"splits_thoughts": False}),
    ],
)
def test_an_answer_in_which_nothing_can_be_told_apart_is_not_read(
    beginning: Beginning, format: ChatFormat, fields: dict[str, Any]
) -> None:
    assert reading_for(asked(**fields), format, beginning) is None


def test_calls_may_come_instead_of_a_structured_text() -> None:
    structure = Structure(kind="json_object")
    _, calls = read(reading("text", structure=structure, calling=CALLING), [CALL])
    assert [call.name for call in calls] == ["look"]
    whole, calls = read(reading("text", structure=structure, calling=CALLING), ['{"a": "<tool', '_call>"}'])
    assert (whole.text, calls) == ('{"a": "<tool_call>"}', ())


def test_a_plain_prompts_answer_is_not_read() -> None:
    assert reading_for(GenerationRequest(prompt="x", calling=CALLING), FORMAT, "thought") is None


def test_what_stands_around_a_text_is_no_part_of_it() -> None:
    tagged = ChatFormat(text=Tags("<|START_RESPONSE|>", "<|END_RESPONSE|>"))
    whole, _ = read(reading("text", tagged), ["<|START_RESP", "ONSE|>Hi!<|END_RESPONSE|>"])
    assert whole.text == "Hi!"
