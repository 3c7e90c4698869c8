"""A call is told as soon as its function is known, and its arguments as they come: what a client shows meanwhile."""

from __future__ import annotations

import re

import pytest

from localllm.chat.formats.reader import reader_of
from localllm.chat.formats.reading import NewParts
from localllm.chat.formats.writer import written, written_calls
from localllm.types.conversation import Function, ToolCall
from localllm.types.formats import ChatFormat
from tests.unit.chat.formats.answers import COHERE, FORMATS, FUNCTIONS, HERMES, KIMI, LLAMA, QWEN_CODER, read


def streamed(format: ChatFormat, raw: str) -> list[tuple[str, NewParts]]:
    """Each character, and what was read by it."""
    reader = reader_of(format, FUNCTIONS)
    return [(char, reader.feed(char)) for char in raw]


def test_the_first_piece_of_a_call_has_its_name_and_id_and_the_others_have_arguments_only() -> None:
    made = [ToolCall("get_weather", '{"city": "Ulm"}'), ToolCall("other", '{"a": 1}')]
    deltas = [delta for _, each in streamed(HERMES, written(HERMES, "Well.", "I look.", made)) for delta in each.calls]
    for index, (call, arguments) in enumerate(zip(("get_weather", "other"), ("Ulm", "1"), strict=True)):
        first, *others = [each for each in deltas if each.index == index]
        assert first.name == call
        assert re.fullmatch("call_[0-9a-f]{24}", first.id)
        assert all(not each.name and not each.id and each.arguments for each in others)
        assert arguments in "".join(each.arguments for each in others)
    assert [each.index for each in deltas] == sorted(each.index for each in deltas)


def test_arguments_that_are_json_come_character_by_character() -> None:
    arguments = '{"city": "Ulm </tool", "deep": {"a": [1]}}'
    raw = f'<tool_call>\n{{"name": "get_weather", "arguments": {arguments}}}\n</tool_call>'
    assert "".join(each.arguments for _, found in streamed(HERMES, raw) for each in found.calls) == arguments
    assert all(char == call.arguments for char, found in streamed(HERMES, raw) for call in found.calls)


def test_a_text_between_literals_comes_as_it_is_written_but_for_what_may_close_it() -> None:
    raw = "<tool_call>\n<function=get_weather>\n<parameter=city>\nUlm, <Donau>\nand more"
    reader = reader_of(QWEN_CODER, FUNCTIONS)
    shown = ""
    for at, char in enumerate(raw):
        shown += "".join(each.arguments for each in reader.feed(char).calls)
        come = raw[: at + 1].partition("<parameter=city>\n")[2]
        if come and not come.endswith(("<", "\n")):
            assert shown == '{"city": "' + come.replace("\n", "\\n")


@pytest.mark.parametrize(
    ("in_thought", "pieces", "expected"),
    [
        (True, ["Well.\n</think", ">", "\n<think>"], [True, True, False, True]),
        (False, ["<think", ">"], [False, False, True]),
    ],
)
def test_whether_it_thinks_is_known_at_once(in_thought: bool, pieces: list[str], expected: list[bool]) -> None:
    reader = reader_of(HERMES, FUNCTIONS, in_thought=in_thought)
    found = [reader.is_thinking]
    for piece in pieces:
        reader.feed(piece)
        found.append(reader.is_thinking)
    assert found == expected


def test_ids_of_a_format_are_kept_and_others_are_made_up_each_once() -> None:
    made = [ToolCall("other", id="abcDEF123"), ToolCall("other", id="abcDEF123"), ToolCall("other", id="no id!")]
    found = read(COHERE, [written(COHERE, "", "", made)])
    assert found.ids[0] == "abcDEF123"
    assert all(re.fullmatch("call_[0-9a-f]{24}", each) for each in found.ids[1:])
    assert len(set(found.ids)) == 3
    assert read(KIMI, [written(KIMI, "", "", made[:1])]).ids == ("functions.other:0",)


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
def test_no_function_is_ever_called_that_was_not_declared(format: ChatFormat) -> None:
    assert format.calls is not None
    raw = written_calls(format.calls, [ToolCall("get_weather", '{"city": "Ulm"}')])
    others = (Function(name="get_weathe"), Function(name="get_weather2"))
    for pieces in ([raw], list(raw)):
        found = read(format, pieces, others)
        assert not found.calls
        assert found.text == raw
        assert format is LLAMA or found.notes == ("a call of undeclared function 'get_weather' is in the text",)


def test_a_flood_of_broken_calls_is_a_handful_of_notes() -> None:
    raw = "".join(f'<tool_call>{{"name": "{"x" * 200}{at}", "arguments": {{}}}}</tool_call>' for at in range(100))
    found = read(HERMES, [raw])
    assert found.text == raw
    assert len(found.notes) <= 20
    assert max(map(len, found.notes)) < 200


def test_what_cannot_be_written_is_said() -> None:
    with pytest.raises(ValueError, match="no thoughts"):
        written(LLAMA, "Well.", "")
    with pytest.raises(ValueError, match="no calls"):
        written(ChatFormat(), "", "", [ToolCall("other")])
    with pytest.raises(ValueError, match="not an object"):
        written(HERMES, "", "", [ToolCall("other", "[]")])
