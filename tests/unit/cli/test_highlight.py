"""Code in colours, line by line: nothing is lost, and what is open goes on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.cli.render.highlight import CALL, COMMENT, KEYWORD, NAME, NUMBER, STRING, TYPE, Highlighter
from tests.each import each

NAMES = (
    "python pycon c cpp h java csharp objc cuda js jsx ts tsx node kotlin kt swift scala dart groovy rust go bash sh "
    "zsh fish console powershell sql postgresql sqlite ruby php lua haskell ocaml ml elm elixir fsharp json jsonc yaml "
    "toml ini conf env css scss html xml svg vue r dockerfile makefile diff patch markdown tex batch perl zig julia"
).split()
"""What models write over code blocks."""
CODE = st.text(st.sampled_from("ab1_ \"'`#/*-<>=!$@{}()[];:\\\t.é"), max_size=60)


@given(st.sampled_from(NAMES), st.lists(CODE, max_size=5))
def test_every_line_is_shown_whole_whatever_it_is(name: str, lines: list[str]) -> None:
    highlighter = Highlighter(name)
    for line in lines:
        before = highlighter.copy()
        spans = highlighter.line(line)
        assert "".join(text for text, _ in spans) == line
        assert before.line(line) == spans, "what is looked at in advance looks the same"


@pytest.mark.parametrize(
    ("name", "line", "span"),
    [
        ("python", "return x", ("return", KEYWORD)),
        ("py", "x = 'a\\'b'", ("'a\\'b'", STRING)),
        ("python", "x = 1  # why", ("# why", COMMENT)),
        ("python", "print(1)", ("print", CALL)),
        ("python", "class Foo:", ("Foo", TYPE)),
        ("c", "int x = 0x1f;", ("0x1f", NUMBER)),
        ("js", "// why", ("// why", COMMENT)),
        ("sql", "SELECT 1", ("SELECT", KEYWORD)),
        ("bash", "echo $HOME", ("$HOME", NAME)),
        ("bash", "echo $# # count", ("# count", COMMENT)),
        ("json", '{"a": 1}', ('"a"', NAME)),
        ("yaml", "name: x", ("name", NAME)),
        ("html", '<p class="x">', ("p", NAME)),
        ("diff", "+new", ("+new", STRING)),
    ],
)
def test_parts_of_code_have_their_colours(name: str, line: str, span: tuple[str, str]) -> None:
    assert span in Highlighter(name).line(line)


@pytest.mark.parametrize(
    ("name", "lines", "style"),
    [
        ("python", ['"""begin', "return", 'end"""'], STRING),
        ("c", ["/* begin", "return", "end */"], COMMENT),
        ("js", ["`begin", "return", "end`"], STRING),
        ("html", ["<!-- begin", "<p>", "end -->"], COMMENT),
        ("go", ["`begin", "return", "end`"], STRING),
        ("lua", ["--[[ begin", "return", "end ]]"], COMMENT),
    ],
)
def test_what_is_open_goes_on_over_the_lines(name: str, lines: list[str], style: str) -> None:
    highlighter = Highlighter(name)
    assert [highlighter.line(line) for line in lines] == [((line, style),) for line in lines]
    assert highlighter.line("x")[0][1] != style


@each("name", NAMES)
def test_every_label_that_models_write_has_colours(name: str) -> None:
    lines = ["# Title `code`", "<a href='x'>", 'return "1";', "-- --x", "+ new", "FROM x", "key: 1", "[a]", "% x"]
    highlighter = Highlighter(name)
    assert any(style for line in lines for _, style in highlighter.line(line))


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("x = 'it'  # a ` and a /* in a comment", ("return", KEYWORD)),
        ('x = ""', ("return", KEYWORD)),
        ('y = """whole"""', ("return", KEYWORD)),
        ('print("/*")', ("return", KEYWORD)),
    ],
)
def test_what_only_looks_like_an_opening_opens_nothing(line: str, after: tuple[str, str]) -> None:
    highlighter = Highlighter("python")
    highlighter.line(line)
    assert after in highlighter.line("return x")


def test_a_lexer_that_takes_too_long_reads_no_more_of_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localllm.cli.render.highlight.MAX_LINE_S", -1.0)
    highlighter = Highlighter("python")
    assert ("return", KEYWORD) in highlighter.line("return x")
    assert highlighter.line("return x") == (("return x", ""),)


def test_a_lexer_that_fails_leaves_the_code_as_it_is() -> None:
    highlighter = Highlighter("bibtex")
    for line in ("@book{key,", "  title = {Code}", "}"):
        assert "".join(text for text, _ in highlighter.line(line)) == line
    assert highlighter.line("@book{key}") == (("@book{key}", ""),)


def test_an_unknown_language_is_plain() -> None:
    assert Highlighter("klingon").line("return 'it'") == (("return 'it'", ""),)
