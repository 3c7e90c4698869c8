"""What is remembered of answers stays within its bounds, and goes in an order that keeps conversations whole."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from localllm.chat.meaning import digests
from localllm.engine.cache.domain import COMMON, Domain
from localllm.types import ChatFormat, Message, Rendering, Tags
from localllm.worker.prompts.answered import MOST_ANSWERS, AnsweredTurns, Key, Turn
from localllm.worker.prompts.positions import begun_with, ending_of

THINKS = ChatFormat(thought=Tags("<think>\n", "\n</think>"))
MINE = Domain.of(cache_salt="mine")
_numbers = itertools.count()


def turn(parent: Turn | None, text: str, *, size: int = 10, domain: Domain = COMMON) -> Turn:
    """One that goes on from its parent, with tokens like no other's."""
    new = (Message("user", text),)
    whole = new if parent is None else (*parent.conversation(), parent.answer, *new)
    known = digests(whole)
    made = np.full(size, next(_numbers), np.int32)
    return Turn(
        key=Key(domain, known[-1]),
        parent=parent,
        messages=new,
        digests=tuple(known[-1 - (parent is not None) :]),
        rendering=Rendering(),
        ending=ending_of(text, THINKS),
        head=parent,
        prompt=np.arange(size, dtype=np.int32),
        made=made,
        functions=(),
        answer=Message("assistant", f"to {text}"),
    )


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 400)), max_size=40))
def test_turns_stay_within_their_bytes_and_nobody_goes_before_those_that_went_on_from_it(
    made: list[tuple[int, int]],
) -> None:
    turns, all_made, late = AnsweredTurns(20_000), list[Turn](), set[int]()

    def is_kept(each: Turn) -> bool:
        return each in turns.answers_to(each.key)

    for number, (at, size) in enumerate(made):
        parent = all_made[at] if at < len(all_made) else None
        if parent is not None and not is_kept(parent):
            late.add(number)
        all_made.append(turn(parent, f"{number}", size=size))
        turns.add(all_made[-1])
        kept = [each for each in all_made if is_kept(each)]
        assert turns.num_bytes == sum(each.num_bytes for each in kept) <= 20_000
        assert len(turns) == len(kept)
        for count, each in enumerate(all_made):
            if is_kept(each) and each.parent is not None:
                assert is_kept(each.parent) or count in late


def test_a_conversation_takes_memory_once_however_long_it_is() -> None:
    turns, last = AnsweredTurns(), None
    for number in range(200):
        last = turn(last, f"{number}" * 100, size=100)
        turns.add(last)
    assert last is not None
    assert len(last.conversation()) == 399
    assert len(last.tokens()) == 200 * 200
    assert turns.num_bytes < 200 * 4000


def test_the_last_of_many_answers_to_the_same_are_known() -> None:
    turns = AnsweredTurns()
    made = [turn(None, "again") for _ in range(3 * MOST_ANSWERS)]
    for each in made:
        turns.add(each)
    assert list(turns.answers_to(made[0].key)) == made[-MOST_ANSWERS:]
    turns.add(made[-1])
    assert len(turns) == MOST_ANSWERS, "the same answer is known once"


def test_the_nearest_conversation_is_of_the_same_domain_and_has_most_in_common() -> None:
    turns = AnsweredTurns()
    first = turn(None, "a")
    second, other, foreign = turn(first, "b"), turn(None, "c"), turn(None, "d", domain=MINE)
    for each in (first, second, other, foreign):
        turns.add(each)
    both = (*first.messages, first.answer)
    assert turns.nearest(COMMON, digests((*both, Message("user", "b")))) is second
    assert turns.nearest(COMMON, digests((*both, Message("user", "x")))) is second
    assert turns.nearest(COMMON, digests((*first.messages, Message("user", "x")))) is first
    assert turns.nearest(COMMON, digests((Message("user", "x"),))) is other, "the last one that was used"
    assert turns.nearest(MINE, digests(both)) is foreign
    assert turns.nearest(Domain.of(cache_salt="yours"), digests(both)) is None


@given(st.text(max_size=60), st.lists(st.integers(0, 80), max_size=8), st.text(max_size=5))
def test_a_text_begins_with_the_prompts_that_it_begins_with(text: str, cuts: list[int], other: str) -> None:
    prompts = {text[:cut] for cut in cuts} | {text[:cut] + other for cut in cuts}
    places = {prompt: ending_of(prompt, ChatFormat()).whole for prompt in prompts}
    begun = begun_with(text, places.values())
    assert {prompt for prompt, place in places.items() if place in begun} == {
        prompt for prompt in prompts if text.startswith(prompt)
    }


def test_a_thought_that_a_prompt_opens_and_closes_is_no_part_of_its_bare_beginning() -> None:
    for prompt, bare, in_thought in (
        ("hi <think>\n", "hi <think>\n", True),
        ("hi <think>\n\n</think>\n\n", "hi ", False),
        ("hi <think></think>", "hi ", False),
        ("hi <think>\nso\n</think>\n", "hi <think>\nso\n</think>\n", False),
        ("hi", "hi", False),
    ):
        ending = ending_of(prompt, THINKS)
        assert (ending.whole.length, ending.bare.length, ending.in_thought) == (len(prompt), len(bare), in_thought)
        assert begun_with(bare, [ending.bare]) == {ending.bare}
