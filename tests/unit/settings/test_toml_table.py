"""One table of a TOML file is changed, and every other byte stays: comments, order, quotes, line ends."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from localllm.errors import InvalidParameter
from localllm.runtime.toml_table import changed, header_of

TABLE = ("models", "qwen3:0.6b")
FILE = '''# my settings
port = 8080   # behind nginx
hosts = [
  "a", # one ] of them
  "b",
]
note = """
[models."qwen3:0.6b"]
ctx = 1
"""

[models."qwen3:0.6b"]  # the small one
ctx = 2048 # long enough
system = 'no # comment'

# about the others
[models."*"]
slots = 1
'''

VALUES = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=3),
)
KEYS = st.sampled_from(["ctx", "slots", "system", "stop", "aliases"])
COMMENTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=10)


@st.composite
def files(draw: st.DrawFn) -> str:
    """A file with tables, comments, empty lines and long values, with or without the table."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    lines: list[str] = []

    def body() -> None:
        for key in draw(st.lists(KEYS, unique=True, max_size=4)):
            comment = draw(st.one_of(st.just(""), COMMENTS.map(lambda text: "  #" + text)))
            value = draw(
                st.one_of(
                    VALUES.map(lambda value: tomlkit.item(value).as_string()),
                    st.sampled_from(['"""a\n[models.x]\nb = 1"""', "'''it's'''", '[\n  "x", # ]\n]', '{ a = "}" }']),
                )
            )
            lines.append(f"{draw(st.sampled_from(['', '  ']))}{key} = {value}{comment}")
            lines.extend(draw(st.lists(st.one_of(st.just(""), COMMENTS.map(lambda text: "#" + text)), max_size=2)))

    body()
    for name in draw(st.lists(st.sampled_from(["qwen3:0.6b", "*", "a.b", 'q"t']), unique=True, max_size=4)):
        lines.append(header_of("models", name))
        body()
    text = "\n".join(lines) + draw(st.sampled_from(["", "\n"]))
    return text.replace("\n", newline)


def parsed(text: str) -> dict[str, Any]:
    return tomllib.loads(text.replace("\r\n", "\n"))


@given(files(), st.dictionaries(KEYS, st.one_of(st.none(), VALUES), min_size=1))
def test_the_table_has_what_was_set_and_everything_else_is_as_it_was(text: str, changes: dict[str, Any]) -> None:
    before, done = parsed(text), changed(text, *TABLE, changes)
    after = parsed(done)
    wanted = {**before.get("models", {}).get(TABLE[1], {}), **changes}
    assert after.get("models", {}).get(TABLE[1], {}) == {key: each for key, each in wanted.items() if each is not None}
    for tables in (before, after):
        tables.setdefault("models", {}).pop(TABLE[1], None)
    assert after == before


@given(files(), st.dictionaries(KEYS, VALUES, min_size=1))
def test_what_is_set_and_removed_again_leaves_the_file_as_it_was(text: str, changes: dict[str, Any]) -> None:
    held = parsed(text).get("models", {}).get(TABLE[1])
    if held is None or not set(held) & set(changes):
        back = changed(changed(text, *TABLE, changes), *TABLE, dict.fromkeys(changes))
        assert held == {} or back.rstrip() == text.rstrip()


@given(files(), st.dictionaries(KEYS, VALUES, min_size=1))
def test_setting_the_same_twice_changes_nothing_the_second_time(text: str, changes: dict[str, Any]) -> None:
    once = changed(text, *TABLE, changes)
    assert changed(once, *TABLE, changes) == once


def test_comments_order_and_lookalikes_stay() -> None:
    done = changed(FILE, *TABLE, {"ctx": 4096, "system": None, "slots": 2})
    assert done == FILE.replace("ctx = 2048 #", "ctx = 4096 #").replace("system = 'no # comment'", "slots = 2")
    assert changed(FILE, "models", "demo", {"ctx": 1}) == FILE + "\n[models.demo]\nctx = 1\n"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ('models."qwen3:0.6b".ctx = 1', 'models."qwen3:0.6b".ctx = 2'),
        ('models = {"qwen3:0.6b" = {ctx = 1}} # all', 'models = {"qwen3:0.6b" = {ctx = 2}} # all'),
        ("\ufeffport = 1\r\n", '\ufeffport = 1\r\n\r\n[models."qwen3:0.6b"]\r\nctx = 2\r\n'),
        ('[models."qwen3:0.6b"]\n# why\nctx = 1', '[models."qwen3:0.6b"]\n# why\nctx = 2'),
    ],
)
def test_other_spellings_and_a_mark_of_windows_stay(text: str, after: str) -> None:
    assert changed(text, *TABLE, {"ctx": 2}) == after


def test_a_section_keeps_its_comment_without_keys_and_goes_without_either() -> None:
    commented = '[models."qwen3:0.6b"]\n# mine\n'
    assert changed(f"{commented}ctx = 1\n", *TABLE, {"ctx": None}) == commented
    assert changed('port = 1\n\n[models."qwen3:0.6b"]\nctx = 1\n', *TABLE, {"ctx": None}).strip() == "port = 1"


@pytest.mark.parametrize("text", ["models = {other = {ctx = 1}}", "models = 3", '[models]\n"qwen3:0.6b" = 3\n'])
def test_a_file_without_a_place_for_the_section_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(InvalidParameter, match="write it as a section"):
        changed(text, *TABLE, {"ctx": 2})
