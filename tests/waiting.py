"""Waiting for what another thread or process does, where it tells nobody: looks again and again, within a deadline."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable

DEADLINE_S = 30.0
START_S = 120.0
"""Until a program says that it is there; a model may have to be loaded, beside other tests."""
PAUSE_S = 0.002
"""Between two looks, so that waiting takes no core from what is waited for."""


def until(is_true: Callable[[], bool]) -> None:
    """Returns once `is_true()`; fails after `DEADLINE_S`."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not is_true():
        assert time.monotonic() < deadline_s, f"not within {DEADLINE_S:g} s"
        time.sleep(PAUSE_S)


def line_with(process: subprocess.Popen[str], text: str, timeout_s: float = START_S) -> str:
    """The next line of its stderr with `text`; if none comes in time, or it ends before, the test fails with what it
    said."""
    assert process.stderr is not None
    said: list[str] = []
    watchdog = threading.Timer(timeout_s, process.kill)
    watchdog.start()
    try:
        for line in process.stderr:
            said.append(line)
            if text in line:
                return line
    finally:
        watchdog.cancel()
    code = process.wait()
    raise AssertionError(f"ended with {code}, at the latest after {timeout_s:g} s, without {text!r}: {''.join(said)}")
