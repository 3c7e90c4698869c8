"""Special tokens in a text, found in one pass as llama.cpp finds them in many."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.llama.tokens.special_tokens import (
    MAX_NESTING,
    MAX_PASSES,
    WINDOW_CHARACTERS,
    SpecialToken,
    SpecialTokens,
)

CHAT = ("<|im_start|>", "<|im_end|>", "<|im|>", "<|", "|>", "<s>", "[A]", "[AB]", "[B]", "  ", "   ", "     ", "\n\n")
OVERLAPPING = ("<<end>>", ">>title<<", "<|x|>>", "ab", "bca")


def as_llama_cpp_does(text: str, tokens: Sequence[SpecialToken]) -> list[str | int]:
    """`tokenizer_st_partition`: the longest token first, over all fragments."""
    parts: list[str | int] = [text] if text else []
    for token in sorted(tokens, key=lambda token: -len(token.text.encode())):
        found: list[str | int] = []
        for part in parts:
            while isinstance(part, str) and (at := part.find(token.text)) >= 0:
                before, part = part[:at], part[at + len(token.text) :]
                before = before.rstrip(" \t\n\v\f\r") if token.strips_left else before
                part = part.lstrip(" \t\n\v\f\r") if token.strips_right else part
                found += [before, token.id] if before else [token.id]
            if part != "":
                found.append(part)
        parts = found
    return parts


def made(texts: Sequence[str], *, left: bool = False, right: bool = False) -> list[SpecialToken]:
    return [SpecialToken(number, text, left, right) for number, text in enumerate(texts)]


def cut(special: SpecialTokens, text: str) -> list[str | int]:
    return [part for part in special.cut(text) if part != ""]


@pytest.mark.parametrize("texts", [CHAT, OVERLAPPING, ("a",), ("aa", "aaa", "aaaaa"), ("é", "日本", "日")])
@given(data=st.data())
def test_any_text_is_cut_as_llama_cpp_cuts_it(texts: tuple[str, ...], data: st.DataObject) -> None:
    tokens = made(texts)
    parts = [*texts, *(text[:-1] for text in texts), *(text[1:] for text in texts), "x", " ", "\n"]
    text = "".join(data.draw(st.lists(st.sampled_from(parts), max_size=25)))
    assert cut(SpecialTokens(tokens), text) == as_llama_cpp_does(text, tokens)


@given(st.lists(st.sampled_from(["<a>", "<b>", " ", "\n", "\t ", "x", "<a", "é"]), max_size=20), st.booleans())
def test_white_space_beside_a_token_that_strips_it_is_dropped(parts: list[str], left: bool) -> None:
    tokens = [*made(["<a>"], left=left, right=not left), SpecialToken(7, "<b>")]
    assert cut(SpecialTokens(tokens), "".join(parts)) == as_llama_cpp_does("".join(parts), tokens)


def test_a_token_across_two_windows_is_found() -> None:
    special = SpecialTokens(made(["<|x|>"]))
    for begins in range(WINDOW_CHARACTERS - 6, WINDOW_CHARACTERS + 2):
        before = "a" * begins
        assert cut(special, before + "<|x|>b") == [before, 0, "b"]


def test_a_long_text_without_any_gives_others_their_turn() -> None:
    parts = list(SpecialTokens(made(["<|x|>"])).cut("<" * (10 * WINDOW_CHARACTERS)))
    assert parts.count("") == 10
    assert parts[-1] == "<" * (10 * WINDOW_CHARACTERS)


def test_no_vocabulary_is_too_large_or_too_deep() -> None:
    runs = [" " * length for length in range(2, 2 * MAX_NESTING)]
    special = SpecialTokens(made([*runs, *(f"<unused{number}>" for number in range(6000))]))
    text = "<unused5999>" + " " * (2 * MAX_NESTING) + "x<unused"
    assert cut(special, text) == [len(runs) + 5999, len(runs) - 1, " x<unused"]


def test_what_only_llama_cpp_knows_the_order_of_is_left_to_it() -> None:
    with pytest.raises(ValueError, match="overlap"):
        SpecialTokens(made([*OVERLAPPING, *(f"<{number}>" for number in range(MAX_PASSES))]))
    with pytest.raises(ValueError, match="too many"):
        SpecialTokens(made(["a" * length for length in range(1, 100)]))
    with pytest.raises(ValueError, match="white space"):
        SpecialTokens(made(["  ", "<a>"], left=True))
