"""What holds for odd formats whatever is written: it is read again, alike however it is cut, and nothing is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localllm.chat.formats import odd
from localllm.chat.formats.writer import written
from localllm.types.conversation import ToolCall
from localllm.types.formats import ChatFormat
from tests.unit.chat.formats.answers import Answer, at_some_cuts, read, without_ids

WORDS = st.lists(st.sampled_from(["Hm.", "1 < 2", "{", '"x"', "ü🎉", "to=day", "\n"]), min_size=1, max_size=4)
TEXTS = WORDS.map(" ".join).map(str.strip).filter(bool)
ARGUMENTS = st.fixed_dictionaries(
    {"city": st.sampled_from(["Ulm", 'a "b" {', "zwei\nZeilen", "ü🎉\\", ""])},
    optional={"days": st.integers(-5, 5), "deep": st.just({"a": {"b": "]}"}})},
)
CALLS = st.lists(
    ARGUMENTS.map(lambda made: ToolCall("get_weather", json.dumps(made))) | st.just(ToolCall("other", "{}")), max_size=3
)
FORMATS = pytest.mark.parametrize("format", odd.ODD, ids=lambda format: format.name)


@FORMATS
@settings(max_examples=15, deadline=None)
@given(st.one_of(st.just(""), TEXTS), st.one_of(st.just(""), TEXTS), CALLS)
def test_what_is_written_is_read_again(format: ChatFormat, thought: str, text: str, calls: list[ToolCall]) -> None:
    assert format.calls is not None
    thought = thought if format.thought is not None else ""
    calls = calls[:1] if format.calls.is_single else calls
    raw = written(format, thought, text, calls)
    found = at_some_cuts(format, raw)
    made: tuple[tuple[str, Any], ...] = tuple((call.name, json.loads(call.arguments)) for call in calls)
    assert without_ids(found) == Answer(thought, text, made)


PIECES = {
    "harmony": [
        "<|channel|>", "<|message|>", "<|start|>assistant", "<|end|>", "<|call|>", "analysis", "final", "commentary",
        " to=functions.other", " to=functions.get_weather", " <|constrain|>json", "{}", '{"city": "Ulm"}', "text\n",
    ],
    "muse": [
        " to=self", " to=user", " to=other", "<|message|>", "<|eom|>", "<|start|>assistant", "<atem:function_calls>",
        '\n<atem:invoke name="other">', '\n<atem:invoke name="get_weather">\n', "</atem:invoke>", "text\n", " ",
        "</atem:function_calls>", '<atem:parameter name="city">Ulm</atem:parameter>\n',
    ],
    "functionary-3.1": [
        "<|python_tag|>", "get_weather.call(", "city='Ulm'", ")", "<function=other>", "{}", "</function>", "text\n",
    ],
    "functionary-3.2": ["all\n", ">>>", "other", "\n", "{}", "get_weather\n", '{"city": "Ulm"}', "text ", " "],
    "llama-3": [
        "<|python_tag|>", "get_weather.call(", "city='Ulm'", ")", '{"name": "other", "parameters": {}}', "text ",
    ],
    "gemma-4": ["<|tool_call>", "call:", "other", "{}", "<tool_call|>", "{city:", '<|"|>', "}", "<channel|>", "text "],
    "minimax-m3": [
        "]<]minimax[>[", "<tool_call>\n", '<invoke name="get_weather">', "<city>", "</city>", "</invoke>\n", "text ",
        "</tool_call>", "</mm:think>", " ",
    ],
    "kimi-k3": [
        "<|open|>tools<|sep|>", '<|open|>call tool="other" index="1"<|sep|>', "<|close|>call<|sep|>", "text ", " ",
        "<|close|>tools<|sep|>", "<|open|>response<|sep|>", "<|close|>response<|sep|>",
    ],
}  # fmt: skip
ANY_ORDER = [format for format in odd.ODD if format.name in PIECES]


@pytest.mark.parametrize("format", ANY_ORDER, ids=lambda format: format.name)
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_markers_in_any_order_are_read_alike_and_no_text_is_lost(format: ChatFormat, data: st.DataObject) -> None:
    pieces = data.draw(st.lists(st.sampled_from(PIECES[format.name]), max_size=10))
    raw = "".join(pieces)
    whole = without_ids(read(format, [raw]))
    assert without_ids(read(format, raw)) == whole
    assert without_ids(read(format, pieces)) == whole
    for cut in range(0, len(raw), 3):
        assert without_ids(read(format, [raw[:cut], raw[cut:]])) == whole
    shown = whole.text + whole.thought + json.dumps(whole.calls)
    assert shown.count("text") >= raw.count("text") or whole.calls
