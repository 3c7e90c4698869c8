"""Who gets more than one row: more tokens a second, nobody much slower, no pass that does not pay."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from collections.abc import Sequence as Many

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localllm.engine.scheduling.cost import Part
from localllm.engine.scheduling.rows import (
    MAX_STREAM_SLOWDOWN,
    MOST_ROWS,
    Layout,
    Rows,
    Wish,
    assumed_cost,
    assumed_unified_cost,
    count_passes,
    share_rows,
)


def lengths(shares: Many[Rows]) -> list[int]:
    return [rows.num_rows + rows.num_padding for rows in shares]


def expected(wishes: list[Wish], shares: Many[Rows]) -> list[float]:
    return [1 + sum(wish.gains[: rows.num_rows - 1]) for wish, rows in zip(wishes, shares, strict=True)]


def rate(wishes: list[Wish], shares: Many[Rows]) -> float:
    return sum(expected(wishes, shares)) / took(wishes, lengths(shares))


def took(wishes: list[Wish], rows: Iterable[int]) -> float:
    return assumed_cost(parts([wish.slot for wish in wishes], rows))


def parts(slots: Iterable[int], rows: Iterable[int]) -> list[Part]:
    return [(slot, 0, count) for slot, count in zip(slots, rows, strict=True)]


@pytest.mark.parametrize(
    ("rows", "count"),
    [([1] * 8, 1), ([1, 1, 1, 4, 1, 1, 1, 1], 2), ([1, 2, 3, 4, 1, 2, 3, 4], 7), ([4] * 8, 1), ([2, 1, 2, 1], 3)],
)
def test_passes_are_those_that_the_library_makes(rows: list[int], count: int) -> None:
    assert count_passes(parts(range(len(rows)), rows)) == count


def test_a_gap_between_slots_is_a_pass() -> None:
    assert count_passes(parts([0, 1, 3], [1, 1, 1])) == 2


def test_the_assumed_cost_tells_the_measured_shapes_apart() -> None:
    measured = {(1,) * 8: 36, (1, 1, 1, 4, 1, 1, 1, 1): 58, (1, 2, 3, 4) * 2: 143, (4,) * 8: 105}
    cost = {rows: assumed_cost(parts(range(8), rows)) for rows in measured}
    unit_ms = sum(measured.values()) / sum(cost.values())
    for rows, took_ms in measured.items():
        assert unit_ms * cost[rows] == pytest.approx(took_ms, rel=0.15)


LAYOUTS: list[Layout] = ["partitioned", "unified", "one pass"]


@st.composite
def wish_lists(draw: st.DrawFn, most: int = 8) -> list[Wish]:
    slots = draw(st.lists(st.integers(0, 11), min_size=1, max_size=most, unique=True).map(sorted))
    chance = st.floats(0, 1)
    gains = st.lists(chance, max_size=9).map(lambda values: list(itertools.accumulate(values, min)))
    return [Wish(slot, draw(gains), draw(st.integers(1, MOST_ROWS))) for slot in slots]


@settings(max_examples=200, deadline=None)
@given(wish_lists(), st.integers(8, 40), st.booleans())
def test_no_shape_is_worse_than_one_row_each(wishes: list[Wish], most: int, is_unified: bool) -> None:
    shares = share_rows(wishes, most=most, layout="unified" if is_unified else "partitioned").rows
    given_lengths = lengths(shares)
    assert sum(given_lengths) <= max(most, len(wishes))
    for wish, rows, length in zip(wishes, shares, given_lengths, strict=True):
        assert 1 <= rows.num_rows <= 1 + len(wish.gains)
        assert length <= max(1, min(wish.room, MOST_ROWS)), "a slot has room for what it is given"
    if is_unified:
        assert not any(rows.num_padding for rows in shares)
        return
    plain_s, took_s = took(wishes, [1] * len(wishes)), took(wishes, given_lengths)
    assert rate(wishes, shares) >= len(wishes) / plain_s * (1 - 1e-9)
    assert min(expected(wishes, shares)) / took_s >= 1 / plain_s / MAX_STREAM_SLOWDOWN * (1 - 1e-9), (
        "nobody is much slower"
    )


@settings(max_examples=60, deadline=None)
@given(wish_lists(most=4))
def test_it_is_near_the_best_of_all_shapes(wishes: list[Wish]) -> None:
    """Every shape of up to four streams that slows nobody too much, each with any number of rows, padded or not."""
    plain_s = took(wishes, [1] * len(wishes))
    best = 0.0
    for shape in itertools.product(*(range(1, wish.room + 1) for wish in wishes)):
        if set(shape) - {1, *(2, 3, 4, 6, 8)} and len(wishes) > 1:
            continue
        tokens = [1 + sum(wish.gains[: length - 1]) for wish, length in zip(wishes, shape, strict=True)]
        took_s = took(wishes, shape)
        if MAX_STREAM_SLOWDOWN * min(tokens) * plain_s >= took_s:
            best = max(best, sum(tokens) / took_s)
    assert rate(wishes, share_rows(wishes, most=64).rows) >= 0.85 * best


def test_one_of_many_streams_with_guesses_waits_and_all_with_good_ones_get_them() -> None:
    guesses = [0.95, 0.9, 0.85]
    one = [Wish(slot, guesses if slot == 3 else []) for slot in range(8)]
    assert lengths(share_rows(one, most=512).rows) == [1] * 8, "a pass more costs all of them more than one gains"
    everybody = [Wish(slot, guesses) for slot in range(8)]
    assert lengths(share_rows(everybody, most=512).rows) == [4] * 8
    assert share_rows([Wish(0, guesses)], most=512).rows == [Rows(4, 0)], "alone"
    most = [Wish(slot, [] if slot == 3 else [1.0]) for slot in range(8)]
    assert share_rows(most, most=512).rows[3] in (Rows(1, 1), Rows(1, 0))
    assert len(set(lengths(share_rows(most, most=512).rows))) == 1, "padded: one pass"


@given(wish_lists(), st.integers(8, 40))
def test_equal_rows_are_equal_fit_and_are_no_worse_than_one_each(wishes: list[Wish], most: int) -> None:
    """For memories that only one pass leaves as it has to be; where slots are not consecutive there is none."""
    shares = share_rows(wishes, most=most, layout="one pass").rows
    found = set(lengths(shares))
    assert len(found) == 1
    assert found == {1} or (count_passes(parts([wish.slot for wish in wishes], lengths(shares))) == 1)
    assert sum(lengths(shares)) <= max(most, len(wishes))
    assert rate(wishes, shares) >= rate(wishes, [Rows()] * len(wishes)) - 1e-9
    for wish, rows in zip(wishes, shares, strict=True):
        assert rows.num_rows + rows.num_padding <= max(1, wish.room)
        assert rows.num_rows - 1 <= len(wish.gains)


def test_streams_that_cannot_guess_get_rows_to_throw_away_where_the_others_gain_enough() -> None:
    sure: list[float] = [0.98**number for number in range(1, 8)]
    none: list[float] = []
    shares = share_rows([Wish(0, sure), Wish(1, sure[:3]), Wish(2, sure)], most=64, layout="one pass").rows
    assert len(set(lengths(shares))) == 1
    assert lengths(shares)[0] > 2
    assert shares[1].num_rows == min(4, lengths(shares)[0])
    for wishes in ([Wish(0, sure), Wish(2, sure)], [Wish(0, none), Wish(1, none)]):
        assert share_rows(wishes, most=64, layout="one pass").rows == [Rows(), Rows()], "a gap, or nothing to guess"


@settings(max_examples=200, deadline=None)
@given(wish_lists(), st.sampled_from(LAYOUTS), st.lists(st.floats(0, 4), min_size=8, max_size=8))
def test_no_step_takes_longer_than_every_stream_is_willing_to_wait(
    wishes: list[Wish], layout: Layout, patience: list[float]
) -> None:
    wishes = [wish._replace(patience=limit) for wish, limit in zip(wishes, patience, strict=False)]
    cost = assumed_unified_cost if layout == "unified" else assumed_cost
    shape = share_rows(wishes, most=64, layout=layout, cost=cost)
    slots = [wish.slot for wish in wishes]
    plain_s, took_s = (cost(parts(slots, rows)) for rows in ([1] * len(slots), lengths(shape.rows)))
    assert shape.steps == pytest.approx(took_s / plain_s)
    for tokens, wish in zip(expected(wishes, shape.rows), wishes, strict=True):
        assert shape.steps - tokens <= wish.patience + 1e-9
