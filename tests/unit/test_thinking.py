"""Thoughts and answers are told apart, wherever the stream is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.cli.thinking import TAGS, Part, ThoughtSplitter, _merged, without_thoughts

FRAGMENTS = [
    *(tag for pair in TAGS[:3] for tag in pair),
    "\n",
    "\n\n",
    " ",
    "<",
    "</",
    "think",
    ">",
    "word",
    "`",
    "```\n",
]


def split(pieces: list[str], *, starts_inside: bool = False) -> list[Part]:
    splitter = ThoughtSplitter(starts_inside=starts_inside)
    return _merged([part for piece in pieces for part in splitter.feed(piece)] + splitter.flush())


@pytest.mark.parametrize(
    ("text", "thoughts", "answer"),
    [
        ("Hello", "", "Hello"),
        ("<think>\nHm.\n</think>\n\nHello", "Hm.", "Hello"),
        ("\n<think>Hm.</think>Hello", "Hm.", "Hello"),
        ("<think>\n\n</think>\n\nHello", "", "Hello"),
        ("<think>never closed", "never closed", ""),
        ("<think>a</think>\n<think>b</think>\nHello", "a\n\nb", "Hello"),
        ("<thinking>a</thinking> b", "a", "b"),
        ("[THINK]a[/THINK]b", "a", "b"),
        ("Hm.\n</think>\n\nHello", "Hm.", "Hello"),
        ("The tags are <think> and </think>.", "", "The tags are <think> and </think>."),
        ("Like this:\n<think> is a tag", "", "Like this:\n<think> is a tag"),
        ("<thin ice>", "", "<thin ice>"),
        ("  indented", "", "  indented"),
        ("", "", ""),
    ],
)
def test_thoughts_are_told_from_the_answer_at_every_split_point(text: str, thoughts: str, answer: str) -> None:
    assert without_thoughts(text) == (thoughts, answer)
    whole = split([text])
    for cut in range(len(text) + 1):
        assert split([text[:cut], text[cut:]]) == whole, cut
    assert split(list(text)) == whole


def test_where_the_template_opened_the_thoughts_they_come_first() -> None:
    assert without_thoughts("Hm.\n</think>\n\nHello", starts_inside=True) == ("Hm.", "Hello")


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=20), st.booleans())
def test_pieces_make_no_difference(fragments: list[str], inside: bool) -> None:
    text = "".join(fragments)
    whole = split([text], starts_inside=inside)
    assert split(fragments, starts_inside=inside) == whole
    assert split(list(text), starts_inside=inside) == whole


@given(st.text("ab <", max_size=30))
def test_a_text_without_thoughts_is_not_touched(text: str) -> None:
    assert without_thoughts(text) == ("", text)


def test_nothing_is_held_back_that_can_be_no_tag() -> None:
    splitter = ThoughtSplitter()
    assert splitter.feed("Hel") == [Part("answer", "Hel")]
    assert splitter.feed("lo") == [Part("answer", "lo")]
    thinking = ThoughtSplitter()
    assert thinking.feed("<think>\nI wonder") == [Part("thought", "I wonder")]
    assert thinking.feed(", well") == [Part("thought", ", well")]
