"""A run tries some of the examples that property tests name, below any decorator; a thorough one tries all."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.each import each

TRIED: dict[str, int] = {"plain": 0, "each": 0, "machine": 0}


@settings(max_examples=50)
@given(st.integers())
def test_a_share_of_the_examples_is_tried(number: int) -> None:
    TRIED["plain"] += 1


@each("name", ["each"])
@settings(max_examples=30)
@given(st.integers())
def test_below_other_decorators_too(name: str, number: int) -> None:
    TRIED[name] += 1


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        TRIED["machine"] += 1

    @rule()
    def step(self) -> None:
        pass


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=40, stateful_step_count=2)


def test_so_many_were_tried(pytestconfig: pytest.Config) -> None:
    if not all(TRIED.values()):
        pytest.skip("the tests that try them were not selected")
    thorough = pytestconfig.getoption("--hypothesis-profile") == "thorough"
    assert TRIED["plain"] == (50 if thorough else 12)
    assert TRIED["each"] == (30 if thorough else 10)
    assert TRIED["machine"] in ((40, 41) if thorough else (10, 11))
