"""Which model an agent gets, and how much context."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from localllm.launch.choosing import CONTEXTS, Candidate, Size, best, size_for

GB = 10**9


def model(name: str, billions: float, trained: int | None = 131_072, kb_per_token: int = 100) -> Candidate:
    """Of 4 bits a parameter."""
    weights = int(billions * GB / 2)
    return Candidate(name, int(billions * GB), trained, lambda ctx, slots: weights + ctx * slots * kb_per_token * 1000)


def test_what_fits_easily_gets_the_most_context_and_a_slot_for_side_requests() -> None:
    assert size_for(model("4b", 4), 64 * GB) == Size(65_536, 2)


def test_less_memory_takes_the_second_slot_first_and_then_context() -> None:
    small = model("4b", 4)
    assert size_for(small, 10 * GB) == Size(65_536, 1)
    assert size_for(small, 6 * GB) == Size(32_768, 1)
    assert size_for(small, 1 * GB) == Size(CONTEXTS[-1], 1)


def test_a_model_gets_no_more_than_it_was_trained_for() -> None:
    assert size_for(model("short", 1, trained=40_960), 64 * GB).ctx == 40_960
    assert size_for(model("tiny", 0.1, trained=2048), 64 * GB).ctx == 2048


def test_a_context_that_was_asked_for_is_not_made_smaller() -> None:
    assert size_for(model("4b", 4), 1 * GB, ctx=100_000) == Size(100_000, 1)


def test_the_best_is_the_largest_that_has_a_good_context_here() -> None:
    models = [model("1b", 1), model("8b", 8), model("70b", 70), model("old-13b", 13, trained=4096)]
    chosen = best(models, 16 * GB)
    assert chosen is not None
    assert chosen.name == "8b"


def test_where_nothing_fits_the_smallest_is_the_best() -> None:
    chosen = best([model("70b", 70), model("8b", 8)], 1 * GB)
    assert chosen is not None
    assert chosen.name == "8b"
    assert best([], 16 * GB) is None


@given(
    st.floats(0.1, 400), st.none() | st.integers(512, 2**21), st.integers(1, 1000), st.none() | st.integers(0, 2**40)
)
def test_a_size_always_fits_unless_it_is_the_least_there_is(
    billions: float, trained: int | None, kb_per_token: int, room: int | None
) -> None:
    candidate = model("any", billions, trained, kb_per_token)
    size = size_for(candidate, room)
    least = min(CONTEXTS[-1], trained or CONTEXTS[-1])
    assert least <= size.ctx <= min(CONTEXTS[0], trained or CONTEXTS[0])
    assert size == Size(least, 1) or room is None or candidate.needs(*size) <= room
