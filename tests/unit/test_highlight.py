"""Code in colours, line by line: nothing is lost, and what is open goes on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.cli.render.highlight import CALL, COMMENT, KEYWORD, NAME, NUMBER, STRING, TYPE, Highlighter
from localllm.cli.render.languages import _NAMES, PLAIN, language

NAMES = sorted(name for names in _NAMES for name in names.split())
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
        ("html", '<p class="x">', ("<p", KEYWORD)),
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
    ],
)
def test_what_is_open_goes_on_over_the_lines(name: str, lines: list[str], style: str) -> None:
    highlighter = Highlighter(name)
    assert [highlighter.line(line) for line in lines] == [((line, style),) for line in lines]
    assert highlighter.line("x")[0][1] != style


def test_an_unknown_language_is_plain() -> None:
    assert language("klingon") is PLAIN
    assert Highlighter("klingon").line("return 'it'") == (("return 'it'", ""),)
