"""One test for many items of one kind: all that fail are told at once, and none costs a test of its own.

Where `pytest.mark.parametrize` makes a test of each item, with its set-up and its line in the report, `each` makes one
of all. For checks of a table's rows or a folder's files; fixtures are shared by the items.
"""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]


def each(names: str, items: Iterable[Any], ids: Callable[[Any], str] | None = None) -> Callable[[Test], Test]:
    """As `pytest.mark.parametrize`: `names` of the arguments, separated by commas; of several, an item is a tuple."""
    arguments = [name.strip() for name in names.split(",")]
    found = list(items)

    def fold(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failed = []
            for item in found:
                values = (item,) if len(arguments) == 1 else item
                try:
                    test(**dict(zip(arguments, values, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  all of them are told below
                    failed.append(f"{ids(item) if ids else repr(values)[:100]}: {_told(error)}")
            assert found, "there is nothing to check"
            if failed:
                pytest.fail(f"{len(failed)} of {len(found)} fail\n\n" + "\n".join(failed), pytrace=False)

        signature = inspect.signature(test)
        others = [each for name, each in signature.parameters.items() if name not in arguments]
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return run

    return fold


def _told(error: BaseException) -> str:
    """The error, and the line of the test from which it came."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename != __file__]
    place = f"line {frames[0].lineno}" if frames else ""
    return f"{place}: {''.join(traceback.format_exception_only(error)).strip()}"
