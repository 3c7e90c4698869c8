"""A key of a JSON file with comments is put in and taken out, and no other byte changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.launch import jsonc

KEYS = st.sampled_from(["a", "b", "agent", "models", 'with "quotes"', "ä//*", ""])
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
BLANKS = st.sampled_from(["", " ", "\n", "\r\n\t", "// a } comment, {\n", "/* two\n * lines */", " /**/ "])
PATHS = st.lists(KEYS, min_size=1, max_size=3).map(tuple)


@st.composite
def written(draw: st.DrawFn, value: Any) -> str:
    """As a person might write it: comments, blanks and trailing commas anywhere."""

    def blank() -> str:
        return draw(BLANKS)

    if isinstance(value, dict | list):
        pairs = (
            [f"{json.dumps(key)}{blank()}:{blank()}{draw(written(item))}" for key, item in value.items()]
            if isinstance(value, dict)
            else [draw(written(item)) for item in value]
        )
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        inner = f"{blank()},{blank()}".join(pairs)
        comma = draw(st.sampled_from(["", ","])) if pairs else ""
        return f"{opening}{blank()}{inner}{blank()}{comma}{blank()}{closing}"
    return json.dumps(value)


def put(value: Any, path: tuple[str, ...], new: Any) -> Any:
    """What the whole is afterwards. Raises `ValueError` where something on the way is no object."""
    if not path:
        return new
    if not isinstance(value, dict):
        raise ValueError
    return {**value, path[0]: put(value.get(path[0], {}), path[1:], new)}


@given(st.data(), OBJECTS, PATHS, VALUES)
def test_a_value_is_there_afterwards_and_all_others_are_as_before(
    data: st.DataObject, before: dict[str, Any], path: tuple[str, ...], value: Any
) -> None:
    text = data.draw(BLANKS) + data.draw(written(before)) + data.draw(BLANKS)
    assert jsonc.read(text) == before
    try:
        wanted = put(before, path, value)
    except ValueError:
        with pytest.raises(ValueError, match="is not an object"):
            jsonc.put(text, path, value)
        return
    after = jsonc.put(text, path, value)
    assert jsonc.read(after) == wanted
    raw = jsonc.raw(after, path)
    assert raw is not None
    assert jsonc.read(raw) == value


@given(st.data(), OBJECTS, KEYS, VALUES)
def test_what_is_put_in_and_taken_out_leaves_every_byte_as_it_was(
    data: st.DataObject, before: dict[str, Any], key: str, value: Any
) -> None:
    text = data.draw(BLANKS) + data.draw(written(before)) + data.draw(BLANKS)
    if key in before or not before:
        without = jsonc.read(jsonc.drop(jsonc.put(text, [key], value), [key]))
        assert without == {name: each for name, each in before.items() if name != key}
    else:
        assert jsonc.drop(jsonc.put(text, [key], value), [key]) == text


@given(st.data(), OBJECTS, PATHS)
def test_a_key_is_taken_out_with_its_comma_wherever_it_stands(
    data: st.DataObject, before: dict[str, Any], path: tuple[str, ...]
) -> None:
    def without(value: Any, path: tuple[str, ...]) -> Any:
        if not isinstance(value, dict) or path[0] not in value:
            return value
        if len(path) == 1:
            return {name: each for name, each in value.items() if name != path[0]}
        return {**value, path[0]: without(value[path[0]], path[1:])}

    assert jsonc.read(jsonc.drop(data.draw(written(before)), path)) == without(before, path)


@pytest.mark.parametrize("text", ["", "\n", "// nothing yet\n", "\ufeff"])
def test_an_empty_file_is_an_empty_object(text: str) -> None:
    after = jsonc.put(text, ["a", "b"], 1)
    assert after.startswith(text)
    assert jsonc.read(after) == {"a": {"b": 1}}
    assert jsonc.raw(text, ["a"]) is None
    assert jsonc.drop(text, ["a"]) == text


def test_a_new_key_stands_in_a_line_of_its_own_indented_as_the_others() -> None:
    text = '{\n    // mine\n    "theme": "One",\n    "agent": {},\n}\n'
    assert jsonc.put(text, ["agent", "model"], {"name": "x"}) == (
        '{\n    // mine\n    "theme": "One",\n'
        '    "agent": {\n      "model": {\n        "name": "x"\n      }\n    },\n}\n'
    )
    assert jsonc.put(text, ["new"], 1).splitlines()[1] == '    "new": 1,'


@pytest.mark.parametrize(
    "text",
    ["{", '{"a"}', '{"a": }', '{"a": 1 "b": 2}', "[1,", "{} {}", "nothing", "{a: 1}", '{"a": 1, "a": 2}', "[" * 99999],
)
def test_what_is_no_json_is_refused_and_nothing_is_guessed(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        jsonc.put(text, ["a"], 1)
