"""Where a JSON value ends, as it comes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.chat.formats.arguments.json_scan import JsonScanner, is_object, value_of

texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\{}[]\n'), max_size=10)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
)


def scanned(pieces: list[str], stop: str = "") -> tuple[str, str | None]:
    """The value, and what came behind it."""
    scanner, found = JsonScanner(stop), ""
    for number, piece in enumerate(pieces):
        text, end = scanner.feed(piece)
        found += text
        if end is not None:
            return found, piece[end:] + "".join(pieces[number + 1 :])
    return found, None


@given(values, st.sampled_from(["", ",", " x", "}", "]", "\n", ': "']), st.booleans(), st.none() | st.integers(0, 3))
def test_a_value_ends_where_json_says_however_it_is_cut(
    value: object, behind: str, is_ascii: bool, indent: int | None
) -> None:
    raw = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    if raw[0] not in '"{[' and not behind:
        behind = ","  # a number may go on
    for cut in range(len(raw + behind) + 1):
        assert scanned([(raw + behind)[:cut], (raw + behind)[cut:]]) == (raw, behind)
    assert scanned(list(raw + behind)) == (raw, behind)


def test_control_characters_in_texts_are_escaped() -> None:
    found, rest = scanned(['{"a\x00": "b\n\t', '\r\x1f\u2028"}\n'])
    assert rest == "\n"
    assert json.loads(found) == {"a\x00": "b\n\t\r\x1f\u2028"}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ('{"a": 1<x', ('{"a": 1}', "<x")),
        ('{"a": [{"b": "<"<x', ('{"a": [{"b": "<"}]}', "<x")),
        ('{"a": "b<x', ('{"a": "b<x', None)),
        ('{"a": "<"}<x', ('{"a": "<"}', "<x")),
    ],
)
def test_brackets_that_are_missing_before_what_is_no_json_are_added(raw: str, expected: tuple[str, str | None]) -> None:
    assert scanned([raw], "<") == expected
    assert scanned(list(raw), "<") == expected


def test_what_is_no_json_or_too_deep_is_an_error_of_its_value() -> None:
    for text in ("", "{", "NaN", "[-Infinity]", "[" * 100_000, "{'a': 1}"):
        with pytest.raises(ValueError, match=r"."):
            value_of(text)
        assert not is_object(text)
    assert not is_object("[]")
    assert is_object('{"a": "\n"}')
