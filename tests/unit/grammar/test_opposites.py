"""The opposite of a pattern matches exactly those texts in which the pattern does not occur, as Python finds it."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from localllm.grammar.compose import grammar_of
from localllm.grammar.texts.opposites import example as example_of
from localllm.grammar.texts.opposites import opposite
from localllm.grammar.texts.patterns import PatternRefused
from localllm.types.structures import Structure
from tests.nonsense import accepts, compiled

ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "[^ab.]", "\\.", "(?:ab|b)", "(a|ba*)"])
PIECES = st.tuples(ATOMS, st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}"])).map("".join)
SEQUENCES = st.builds(
    "{}{}{}".format, st.sampled_from(["", "^"]), st.lists(PIECES, max_size=3).map("".join), st.sampled_from(["", "$"])
)


@settings(max_examples=40)
@given(st.lists(SEQUENCES, min_size=1, max_size=2).map("|".join), st.lists(st.text("ab.c", max_size=6), max_size=20))
@example(r"^[0-9a-f]{8}-[0-9a-f]{4}$", ["01234567-89ab", "01234567-89a", "01234567-89abc"])
@example(r"^a|[bc]$", ["ba", "ab", "ac"])
@example(r"(?i)^bk|\.\.", ["BKa", "a..b", "a.b"])
def test_a_text_matches_either_a_pattern_or_its_opposite(pattern: str, texts: list[str]) -> None:
    try:
        grammar = grammar_of(Structure.regex(opposite(pattern)))
    except PatternRefused as refusal:
        assume("every text" not in str(refusal))
        raise
    matcher = compiled(grammar)
    for text in filter(None, texts):
        assert accepts(matcher, text) is (re.search(pattern.replace("$", "\\Z"), text) is None), text


@pytest.mark.parametrize("pattern", [r"(?=a)b", r"\bword", r"(a)\1", r"[ab]{9000}", "a*"])
def test_what_has_no_opposite_is_refused(pattern: str) -> None:
    with pytest.raises(PatternRefused):
        opposite(pattern)


@pytest.mark.parametrize("pattern", [r"\d{4}-\d{2}T\d.\d", "^a|[bc]$", "^[^a-z]{3}$", r"1\.2", "(?i)^ab+"])
def test_an_example_has_the_pattern_in_it(pattern: str) -> None:
    found = example_of((pattern,))
    assert found is not None
    assert re.search(pattern, found)
    assert found.isascii()
    assert found.isprintable()
    assert example_of((pattern,), (pattern,)) is None
