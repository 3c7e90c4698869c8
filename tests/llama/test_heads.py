"""A model's own NextN layers as a source of guesses: the same answer, whatever they guess and happens to its slots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.engine.backend import Segment
from localllm.engine.requests.sequence import Sequence as Running
from localllm.llama import library
from localllm.llama.drafts.next_rows import NextRows
from localllm.llama.drafts.next_symbols import find
from localllm.types import ResolvedSampling
from tests.llama.guessing import (
    SLOTS,
    Headed,
    Run,
    check_leaving,
    check_lost_vectors,
    check_one_that_fails,
    one_answer,
    opened_heads,
    turns,
)
from tests.llama.needs import guess_functions
from tests.llama.test_drafts import SAMPLINGS, prompts
from tests.models import families
from tests.models import headed as headed_models

pytestmark = pytest.mark.pairwise

GOOD: dict[str, Any] = {"scale": 0.05, "sees_tokens": True}
ARCHITECTURES = ("qwen35", *headed_models.KEYS)


def write(path: Path, architecture: str, kind: str = "random", **how: Any) -> Path:
    how = {"n_nextn": 1, **(GOOD if kind == "good" else {}), **how}
    if architecture == "qwen35":
        return families.write_gated_delta(path, **how)
    return headed_models.write_headed(path, architecture, **how)


@pytest.fixture(scope="module", params=ARCHITECTURES)
def architecture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=["good", "random"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def path(architecture: str, kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("heads") / "model.gguf", architecture, kind)


@pytest.fixture(scope="module")
def headed(loaded_library: library.Library, path: Path) -> Iterator[Headed]:
    with opened_heads(loaded_library, path) as both:
        yield both


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_answer_with_heads_is_the_answer_without(headed: Headed, kind: str, sampling: str) -> None:
    """Turn after turn, with one that is cancelled among its guesses."""
    expected, made = headed.both(turns, sampling)
    assert made.tokens == expected.tokens
    assert made.num_guesses > 10
    if kind == "good" and sampling == "greedy":
        assert made.num_right_guesses > 40, "of 200 tokens"
        assert made.num_steps < 0.8 * expected.num_steps


def test_a_conversation_that_left_its_slot_and_came_back_is_guessed_on(headed: Headed) -> None:
    check_leaving(headed)


def test_vectors_lost_before_a_token_is_computed_are_waited_for(headed: Headed) -> None:
    check_lost_vectors(headed)


def test_answers_that_share_a_prompt_are_guessed_each_in_its_slot(headed: Headed) -> None:
    def three_at_once(run: Run) -> list[Running]:
        made = [run.begin(id, prompts()[2], 30, ResolvedSampling(seed=id, temperature=0.9)) for id in range(3)]
        run.finish()
        return made

    expected, made = headed.both(three_at_once)
    assert made.tokens == expected.tokens


def test_a_context_shorter_than_the_texts_is_begun_anew(loaded_library: library.Library, path: Path) -> None:
    with opened_heads(loaded_library, path, heads_ctx=64) as headed:
        expected, made = headed.both(one_answer, 0, 200)
    assert made.tokens == expected.tokens
    assert made.num_guesses > 10


def test_heads_that_cannot_be_computed_are_freed_and_answers_go_on(loaded_library: library.Library, path: Path) -> None:
    with opened_heads(loaded_library, path) as headed:

        def spoil() -> None:
            headed.heads._width = 5  # llama.cpp takes no such vector

        run = check_one_that_fails(headed, spoil)
        headed.vectors.stop()
        again = run.begin(1, prompts()[0])
        for _ in range(50):
            run.engine.step()
        assert headed.vectors.rows is None
        assert [again.progress.tokens] == headed.plain(one_answer, 0, 40).tokens


def test_rows_are_the_same_however_the_batch_is_cut(loaded_library: library.Library, path: Path) -> None:
    """Of prompts together, in several ubatches, beside a gap of slots, and token by token."""
    texts = [[(7 * slot + 3 * place * place) % 90 + 5 for place in range(20)] for slot in range(SLOTS)]

    def rows_of(headed: Headed, slot: int) -> np.ndarray[Any, Any]:
        assert headed.vectors.rows is not None
        found = [headed.vectors.rows.row(slot, place) for place in range(20)]
        assert all(row is not None for row in found)
        return np.stack([row for row in found if row is not None]).copy()

    with (
        opened_heads(loaded_library, path, snapshots=0) as whole,
        opened_heads(loaded_library, path, snapshots=0, ubatch=7) as cut,
    ):
        for headed in (whole, cut):
            headed.target.decoder.decode([Segment(slot, 0, texts[slot], slot % 2) for slot in (0, 1, 2)])
            headed.target.decoder.synchronize()
        together = [rows_of(headed, slot) for headed in (whole, cut) for slot in range(SLOTS)]
        for slot in (0, 2):
            whole.target.cells.truncate(slot, 0)
        for place in range(20):
            whole.target.decoder.decode([Segment(slot, place, [texts[slot][place]], 1) for slot in (0, 2)])
            whole.target.decoder.synchronize()
        for slot in (0, 2):
            for other in (together[slot], together[SLOTS + slot]):
                np.testing.assert_allclose(rows_of(whole, slot), other, rtol=0, atol=2e-2)


def test_the_heads_own_vectors_are_the_same_however_the_batch_is_cut(headed: Headed) -> None:
    """The last token's, which the next guess is made from: of several slots and lengths, and token by token."""
    tokens, heads = [(11 * place * place) % 90 + 5 for place in range(12)], headed.heads

    def own(slots: Sequence[int], step: int) -> list[np.ndarray[Any, Any]]:
        for slot in range(SLOTS):
            headed.target.cells.truncate(slot, 0)
            heads.truncate(slot, 0)
        headed.target.decoder.decode([Segment(slot, 0, tokens, 0) for slot in slots])
        headed.target.decoder.synchronize()
        for slot in slots:
            heads.begins(slot, 0)
        for start in range(0, 12, step):
            heads.decode([Segment(slot, start, tokens[start : start + step][: 12 - slot], 1) for slot in slots])
        return [heads._own[slot][1] for slot in slots]

    together, single = own(range(SLOTS), 12), own([0], 1)
    assert heads._own[0][0] == 11
    np.testing.assert_allclose(together[0], single[0], rtol=0, atol=2e-2)
    for slot in (1, 2):
        other = own([slot], 12)
        np.testing.assert_allclose(together[slot], other[0], rtol=0, atol=2e-2)
        assert np.abs(together[slot] - together[0]).max() > 0.1


@given(st.lists(st.tuples(st.sampled_from(["more", "cut", "forget", "jump"]), st.integers(0, 12)), max_size=30))
def test_a_ring_of_rows_gives_what_was_put_there_or_nothing(steps: list[tuple[str, int]]) -> None:
    rows, known, length = NextRows(2, 1, kept=8), dict[int, float](), 0
    for number, (what, count) in enumerate(steps):
        if what == "more":
            given_rows = np.array([[100.0 * number + place] for place in range(count)], np.float32).reshape(-1, 1)
            rows.computed(1, length, given_rows)
            known |= {length + place: 100.0 * number + place for place in range(count)}
            length += count
            known = {place: value for place, value in known.items() if place >= length - 8}
        elif what == "cut":
            length = min(length, count)
            rows.cut(1, length)
            known = {place: value for place, value in known.items() if place < length}
        else:
            length, known = count, {}
            rows.forget(1, length)
        for place in range(length + 3):
            row = rows.row(1, place)
            assert row is None or row[0] == known[place]
            assert rows.row(0, place) is None
        newest = [place for place in range(length) if all(other in known for other in range(place, length))]
        assert all(rows.row(1, place) is not None for place in newest), "what follows without a gap is there"


def test_a_library_without_the_functions_is_found_out(loaded_library: library.Library) -> None:
    class Bare:
        """As one from before the functions."""

        _lib = object()

    guess_functions(loaded_library)
    assert find(Bare()) is None
