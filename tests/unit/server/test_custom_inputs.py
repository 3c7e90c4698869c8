"""A custom tool's text is read out of its arguments while they are made."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.server.answers.customs import InputReader, input_of


@given(text=st.text(), is_ascii=st.booleans(), data=st.data())
def test_a_text_comes_out_as_it_was_wherever_its_arguments_are_split(
    text: str, is_ascii: bool, data: st.DataObject
) -> None:
    written = json.dumps({"input": text}, ensure_ascii=is_ascii)
    places = sorted(data.draw(st.lists(st.integers(0, len(written)), max_size=6)))
    pieces = [written[begin:end] for begin, end in zip([0, *places], [*places, len(written)], strict=True)]
    assert input_of(pieces) == text


@given(written=st.text(alphabet='{}"\\ud83e:inpt \n', max_size=40) | st.text(max_size=30).map('{{"input": "{}'.format))
def test_arguments_of_any_kind_give_the_same_text_character_by_character(written: str) -> None:
    text = input_of(written)
    assert text == input_of([written])
    assert text.encode().decode() == text, "what is sent back has to be UTF-8"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input": "a\\nb', "a\nb"),
        ('{"input": "a\\u00', "a"),
        ('{ "inp', ""),
        ('{\n  "input"  :\t"x"\n}', "x"),
        ('{"text": "x"}', '{"text": "x"}'),
        ('{"input": "\\q"}', "\\q"),
        ('{"input": 3}', '{"input": 3}'),
    ],
)
def test_what_is_cut_or_no_such_object_is_not_lost(arguments: str, text: str) -> None:
    assert input_of([arguments]) == text


def test_a_character_is_not_held_back() -> None:
    reader = InputReader()
    assert [reader.feed(piece) for piece in ('{"input":', '"a', "\\", "n", "b")] == ["", "a", "", "\n", "b"]
