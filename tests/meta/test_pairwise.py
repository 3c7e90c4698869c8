"""The cases that run by default have every pair of values in them."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

from tests.pairwise import choose

THREE = [dict(zip("abc", values, strict=True)) for values in product(range(6), range(2), range(3))]
TWO = [dict(zip("ab", values, strict=True)) for values in product(range(6), range(2))]


def pairs(case: dict[str, Any]) -> set[object]:
    return set(combinations(case.items(), 2))


def test_every_pair_runs_in_few_cases() -> None:
    (chosen,) = choose([THREE])
    assert set().union(*(pairs(THREE[number]) for number in chosen)) == set().union(*map(pairs, THREE))
    assert len(chosen) <= 20, "of 36; 18 have them all at best"


def test_another_test_has_each_value_once_with_what_came_less_often() -> None:
    _, second, third = choose([THREE, TWO, TWO])
    for chosen in (second, third):
        assert sorted(TWO[number]["a"] for number in chosen) == [*range(6)]
        assert {TWO[number]["b"] for number in chosen} == {0, 1}
    assert second != third


def test_one_parameter_runs_with_all_its_values() -> None:
    assert choose([[{"a": value} for value in range(5)]]) == [{0, 1, 2, 3, 4}]
