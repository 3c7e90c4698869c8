"""How many examples a property test tries by default: a share of those that it names. They are drawn anew in each run.

`pytest --hypothesis-profile=thorough` tries all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import hypothesis
import pytest

THOROUGH = "thorough"
SHARE = 0.25
FEWEST = 10
"""A test that names so many or fewer tries them all."""


def register_profiles() -> None:
    """What an example takes depends on what else runs on the machine; a test that hangs fails after `timeout`."""
    for name in ("localllm", THOROUGH):
        hypothesis.settings.register_profile(name, deadline=None)
    hypothesis.settings.load_profile("localllm")


def try_some(items: Iterable[pytest.Item]) -> None:
    """Each test once, however many cases have it."""
    if hypothesis.settings.get_current_profile_name() == THOROUGH:
        return
    seen: set[object] = set()
    for item in items:
        if isinstance(item, pytest.Function):
            for holder, name in _settings_of(item):
                if holder not in seen:
                    seen.add(holder)
                    setattr(holder, name, fewer(getattr(holder, name)))


def fewer(named: hypothesis.settings) -> hypothesis.settings:
    count = max(min(named.max_examples, FEWEST), round(named.max_examples * SHARE))
    return hypothesis.settings(named, max_examples=count)


def _settings_of(item: pytest.Function) -> Iterable[tuple[Any, str]]:
    """What holds settings of hypothesis, below other decorators, and their name."""
    if isinstance(getattr(item.cls, "settings", None), hypothesis.settings):  # of a state machine
        yield item.cls, "settings"
    function = getattr(item.obj, "__func__", item.obj)
    while function is not None:
        if "_hypothesis_internal_use_settings" in vars(function):
            yield function, "_hypothesis_internal_use_settings"
        function = getattr(function, "__wrapped__", None)
