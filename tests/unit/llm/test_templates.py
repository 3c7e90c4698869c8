"""Templates of answers: one regular expression, whose holes are read back as values of their types."""

from __future__ import annotations

import enum
import re
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llguidance import LLMatcher

from localllm import Template
from localllm.errors import InvalidParameter


class Size(enum.Enum):
    SMALL = "S"
    LARGE = "L"


WHOLE = Template(
    "Name: {name}, {{aged}} {age}.\n({size}|{mood}) {score} {is_kind} [{code}]\n\t{rest}",
    age=int,
    size=Size,
    mood=Literal["good", "so-so"],
    score=float,
    is_kind=bool,
    code=re.compile("(a|b)+", re.IGNORECASE),
)


def test_an_answer_is_read_back_as_values() -> None:
    answer = "Name: Mira M., {aged} 34.\n(L|so-so) -1.5 true [aBa]\n\tall the rest."
    assert WHOLE.read(answer.replace("M.,", "M,")) == {
        "name": "Mira M",
        "age": 34,
        "size": Size.LARGE,
        "mood": "so-so",
        "score": -1.5,
        "is_kind": True,
        "code": "aBa",
        "rest": "all the rest.",
    }
    for wrong in ("", answer.replace("34", "034"), answer.replace("(L", "(M"), answer + "\nmore"):
        with pytest.raises(ValueError, match="does not match"):
            WHOLE.read(wrong)


@given(st.text(st.characters(exclude_characters="{}\r", codec="utf-8"), max_size=12), st.integers(-(10**17), 10**17))
def test_any_text_may_stand_between_holes(text: str, number: int) -> None:
    template = Template(f"{text}{{number}}{text}", number=int)
    assert template.read(f"{text}{number}{text}") == {"number": number}
    assert not LLMatcher.validate_grammar(LLMatcher.grammar_from_regex(template.structure.source))


def test_its_grammar_is_one_for_llguidance() -> None:
    assert not LLMatcher.validate_grammar(LLMatcher.grammar_from_regex(WHOLE.structure.source))


@pytest.mark.parametrize(
    ("text", "types", "says"),
    [
        ("no hole", {}, "has no hole, such as"),
        ("{a}{b}", {}, "no text separates the hole 'a' from the next one"),
        ("{a} {a}", {}, "has the hole 'a' twice"),
        ("{a}", {"b": int}, "has no hole 'b'"),
        ("{}", {}, "is a name in braces"),
        ("{a!r}", {}, "is a name in braces"),
        ("{a.b}", {}, "is a name in braces"),
        ("{a", {}, "cannot be read"),
        ("{a}", {"a": list}, "must be str, int, float"),
        ("{a}", {"a": []}, "needs texts to choose from"),
        ("{a}", {"a": re.compile(b"x")}, "must be one for texts"),
        ("{a} {b}", {"a": re.compile("(?P<b>x)")}, "cannot be joined"),
    ],
)
def test_what_is_wrong_is_named(text: str, types: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidParameter, match=says):
        Template(text, **types)
