"""Prompts to fill in the middle: as llama-server writes them, cut where it matters least."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from localllm.worker.prompts.infill import Marks, Pieces, infill_tokens

PRE, SUF, MID, REPOSITORY, FILE, BOS = 1001, 1002, 1003, 1004, 1005, 1006
PLAIN = Marks(PRE, SUF, MID, None, None, BOS)
WITH_FILES = Marks(PRE, SUF, MID, REPOSITORY, FILE, BOS)
TEXTS = Pieces([1, 2], [3], [4, 5], [90], [91], [([6], [7, 8]), ([9], [10])])


def test_other_files_stand_before_the_text_with_their_names_where_the_model_knows_files() -> None:
    tokens, is_cut = infill_tokens(WITH_FILES, TEXTS, most=100)
    assert tokens == [
        REPOSITORY, 90, FILE, 6, 7, 8, FILE, 9, 10, FILE, 91, BOS, PRE, 1, 2, 3, SUF, 4, 5, MID,
    ]  # fmt: skip
    assert not is_cut
    assert infill_tokens(PLAIN, TEXTS, most=100)[0] == [6, 7, 8, 9, 10, BOS, PRE, 1, 2, 3, SUF, 4, 5, MID]


def test_the_first_of_the_other_files_goes_first() -> None:
    tokens, is_cut = infill_tokens(PLAIN, TEXTS, most=11)
    assert tokens == [9, 10, BOS, PRE, 1, 2, 3, SUF, 4, 5, MID]
    assert is_cut


@given(
    before=st.lists(st.integers(0, 99), max_size=60),
    prompt=st.lists(st.integers(0, 99), max_size=5),
    after=st.lists(st.integers(0, 99), max_size=60),
    extra=st.lists(st.integers(0, 99), max_size=60),
    most=st.integers(20, 150),
)
def test_what_is_next_to_the_gap_stays_and_all_of_it_fits(
    before: list[int], prompt: list[int], after: list[int], extra: list[int], most: int
) -> None:
    tokens, is_cut = infill_tokens(PLAIN, Pieces(before, prompt, after, extras=[([], extra)]), most=most)
    assert len(tokens) <= most
    start, middle = tokens.index(PRE) + 1, tokens.index(SUF)
    kept_before, kept_after = tokens[start : middle - len(prompt)], tokens[middle + 1 : -1]
    assert before[len(before) - len(kept_before) :] == kept_before
    assert tokens[middle - len(prompt) : middle] == prompt
    assert after[: len(kept_after)] == kept_after
    assert tokens[-1] == MID
    whole = len(before) + len(prompt) + len(after) + len(extra) + 4
    assert is_cut == (whole > most)
    if is_cut:
        assert len(tokens) == most, "no room is wasted"
