"""Waiting for what another thread or process does, where it tells nobody: looks again and again, within a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

DEADLINE_S = 30.0
PAUSE_S = 0.002
"""Between two looks, so that waiting takes no core from what is waited for."""


def until(is_true: Callable[[], bool]) -> None:
    """Returns once `is_true()`; fails after `DEADLINE_S`."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not is_true():
        assert time.monotonic() < deadline_s, f"not within {DEADLINE_S:g} s"
        time.sleep(PAUSE_S)
