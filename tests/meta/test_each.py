"""What `tests.each` folds fails for all items that fail, not for the first only."""

from __future__ import annotations

import pytest

from tests.each import each


def test_all_items_that_fail_are_named_and_fixtures_are_given() -> None:
    @each("number, word", [(1, "one"), (2, "two"), (3, "three")])
    def check(number: int, word: str, limit: int) -> None:
        assert number < limit, word

    check(limit=4)
    with pytest.raises(pytest.fail.Exception, match=r"2 of 3 fail(?s:.*)\(2, 'two'\)(?s:.*)\(3, 'three'\)") as failed:
        check(limit=2)
    assert "'one'" not in str(failed.value)


def test_an_empty_table_is_no_success() -> None:
    with pytest.raises(AssertionError, match="nothing to check"):
        each("item", [])(print)()
