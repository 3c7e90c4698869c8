"""Where an answer ends for what its lines are: the same wherever its text is cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.engine.answers.lines import LineRules
from localllm.types import Lines


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("x\n    y\n    z", None),
        ("x\n    y\nend", "x\n    y\n"),
        ("x\n  y", "x\n  "),
        ("x\n\t\t  y", None),
        ("x\n\n    y", "x\n"),
        ("no line ends", None),
    ],
)
def test_an_answer_ends_where_a_line_behind_the_first_is_indented_too_little(text: str, kept: str | None) -> None:
    rules = LineRules(Lines(min_indent=4))
    assert rules.feed(text, 0) == (text if kept is None else kept)
    assert rules.has_ended is (kept is not None)


@given(text=st.text("ab \t\n", max_size=40), least=st.integers(0, 5), cuts=st.sets(st.integers(0, 40)))
def test_what_belongs_to_an_answer_does_not_depend_on_where_its_text_is_cut(
    text: str, least: int, cuts: set[int]
) -> None:
    whole, pieces, made = LineRules(Lines(min_indent=least)), LineRules(Lines(min_indent=least)), ""
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    for start, end in itertools.pairwise(places):
        if not pieces.has_ended:
            made += pieces.feed(text[start:end], 0)
    assert made == whole.feed(text, 0)
    assert pieces.has_ended == whole.has_ended


def test_the_first_line_that_is_whole_after_its_time_is_the_last() -> None:
    rules = LineRules(Lines(max_s=1.0))
    assert [rules.feed("a\n", 0.5), rules.feed("b", 2.0)] == ["a\n", "b"]
    assert not rules.has_ended
    assert rules.feed("c\n", 2.1) == "c\n"
    assert rules.has_ended
