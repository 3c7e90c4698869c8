"""A thought ends where its budget does, in the model's own way, whatever is drawn, guessed or looked ahead at."""

from __future__ import annotations

import random

import numpy as np
import pytest
from llguidance import LLMatcher, LLTokenizer
from llguidance._tokenizer import TokenizerWrapper

from localllm.engine.constraint.budget import ThoughtBudget
from localllm.engine.constraint.matcher import MatcherConstraint
from localllm.grammar.compose import composed
from localllm.grammar.texts.literals import Literals
from localllm.types.structures import Preface, Structure, Tags

END, OPEN, CLOSE = 256, 257, 258
THINK = Tags("<think>", "</think>")
BITS = Structure(kind="regex", source="[01]{2}")


class Bytes:
    """A vocabulary of all bytes, and special tokens for an end and both tags."""

    eos_token_id = END
    bos_token_id = None
    tokens = (*(bytes([byte]) for byte in range(256)), b"<end>", b"<think>", b"</think>")
    special_token_ids = (END, OPEN, CLOSE)

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


TOKENIZER = LLTokenizer(TokenizerWrapper(Bytes()), slices=[])
SPECIAL = Literals({"<think>": OPEN, "</think>": CLOSE}, ends=(END,))


def opened(num_tokens: int, *, is_special: bool, is_open: bool = True) -> tuple[MatcherConstraint, list[int]]:
    """The constraint of two bits behind a thought of so many tokens, and what closes that."""
    preface = Preface(thought=THINK, is_open=is_open, budget=num_tokens)
    grammar = composed(BITS, preface, SPECIAL if is_special else Literals()).grammar
    matcher = LLMatcher(TOKENIZER, grammar, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    closing = [CLOSE] if is_special else list(b"</think>")
    budget = ThoughtBudget(
        num_tokens,
        opening=b"" if is_open else b"<think>",
        closing=b"</think>",
        closing_tokens=tuple(closing),
        bytes_of=lambda token: Bytes.tokens[token],
    )
    return MatcherConstraint(matcher, num_tokens=len(Bytes.tokens), end_tokens=[END], budget=budget), closing


def drawn(constraint: MatcherConstraint, tokens: list[int]) -> None:
    for token in tokens:
        assert not constraint.forced
        assert constraint.allows(token, 0)
        constraint.take(token)


@pytest.mark.parametrize("is_special", [True, False])
def test_a_thought_of_as_many_tokens_as_it_may_have_is_closed(*, is_special: bool) -> None:
    constraint, closing = opened(3, is_special=is_special)
    drawn(constraint, [*b"abc"])
    assert constraint.forced == [*closing, *b"\n\n"]


@pytest.mark.parametrize("is_special", [True, False])
def test_a_thought_that_ends_earlier_is_not_closed_again(*, is_special: bool) -> None:
    constraint, closing = opened(20, is_special=is_special)
    drawn(constraint, [*b"ab", *closing])
    for token in constraint.forced:
        constraint.take(token)
    drawn(constraint, [*b"01"])
    assert constraint.is_complete


def test_an_answer_without_a_thought_has_no_budget() -> None:
    constraint, _ = opened(1, is_special=True, is_open=False)
    drawn(constraint, [*b"01"])
    assert constraint.is_complete


def test_the_tag_that_opens_a_thought_is_no_part_of_its_budget() -> None:
    constraint, closing = opened(2, is_special=False, is_open=False)
    drawn(constraint, [ord("<")])
    while constraint.forced:
        constraint.take(constraint.forced[0])
    drawn(constraint, [*b"ab"])
    assert constraint.forced == [*closing, *b"\n\n"]


def test_no_character_is_cut_in_two_by_a_budget() -> None:
    constraint, closing = opened(2, is_special=True)
    drawn(constraint, [ord("a"), *"€".encode()])
    assert constraint.forced == [*closing, *b"\n\n"]


def bits(mask: np.ndarray) -> list[int]:
    return np.unpackbits(mask.view(np.uint8), bitorder="little")[: len(Bytes.tokens)].nonzero()[0].tolist()


@pytest.mark.parametrize("is_special", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_what_is_looked_ahead_at_is_what_comes(seed: int, *, is_special: bool) -> None:
    """Masks of several rows, and how many guessed tokens may come, are those of one row after the other."""
    rng = random.Random(seed)
    constraint, _ = opened(rng.randrange(1, 6), is_special=is_special)
    taken: list[int] = []
    while not finished(constraint) and len(taken) < 40:
        guess = [rng.choice([*b"ab01\n<", CLOSE]) for _ in range(rng.randrange(6))]
        num_allowed = constraint.num_allowed([*constraint.forced, *guess]) - len(constraint.forced)
        ahead = [*constraint.forced, *guess[:num_allowed]]
        rows = [bits(mask) for mask in constraint.masks(ahead, len(ahead) + 1)]
        for place, row in enumerate(rows):
            assert bits(constraint.masks((), 1)[0]) == row
            assert row, "nothing is allowed"
            if place < len(ahead):
                assert ahead[place] in row
                assert constraint.allows(ahead[place], 0)
                constraint.take(ahead[place])
                taken.append(ahead[place])
            if finished(constraint):
                break


def finished(constraint: MatcherConstraint) -> bool:
    return constraint.is_complete
