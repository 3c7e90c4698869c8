"""Which cases of parametrized tests run by default: all pairs of values of a file's parameters, not all combinations.

A fault mostly takes one value or two to show. Every test sees every value of each of its parameters, and some test of
the file sees every two values of two parameters together; `pytest -m exhaustive` runs the other combinations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import combinations

import pytest

Case = Mapping[str, Hashable]
"""Parameter -> value."""


def mark_the_rest_as_exhaustive(items: Iterable[pytest.Item]) -> None:
    """Of files with `pytestmark = pytest.mark.pairwise`; cases that are exhaustive anyway count for nothing."""
    files: dict[str, dict[str, list[pytest.Function]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            marks = {mark.name for mark in item.iter_markers()}
            if "pairwise" in marks and "exhaustive" not in marks:
                files[item.location[0]][item.originalname].append(item)
    for tests in files.values():
        chosen = choose([[values_of(item) for item in cases] for cases in tests.values()])
        for cases, numbers in zip(tests.values(), chosen, strict=True):
            for number, item in enumerate(cases):
                if number not in numbers:
                    item.add_marker(pytest.mark.exhaustive)


def values_of(item: pytest.Function) -> Case:
    """By identity, as not all can be hashed; the values of a parameter are the same objects for all tests. The fields
    of a `NamedTuple` are parameters of their own."""
    values: dict[str, Hashable] = {}
    for name, value in item.callspec.params.items():
        fields = value._asdict() if hasattr(value, "_asdict") else {"": value}
        values |= {f"{name}.{field}": id(each) for field, each in fields.items()}
    return values


def choose(tests: Sequence[Sequence[Case]]) -> list[set[int]]:
    """For each test, the numbers of the cases that run. Greedy: the case with most that is new, then the rarest."""
    times: Counter[object] = Counter()
    chosen = []
    for cases in tests:
        seen: set[object] = set()
        left = dict(enumerate(cases))
        numbers: set[int] = set()
        while left:
            gains = {
                number: (len(set(case.items()) - seen) + sum(not times[pair] for pair in _pairs(case)))
                for number, case in left.items()
            }
            best = max(left, key=lambda number: (gains[number], -sum(times[pair] for pair in _pairs(left[number]))))
            if not gains[best]:
                break
            case = left.pop(best)
            seen |= set(case.items())
            times.update(_pairs(case))
            numbers.add(best)
        chosen.append(numbers)
    return chosen


def _pairs(case: Case) -> list[object]:
    return list(combinations(sorted(case.items(), key=lambda item: item[0]), 2))
