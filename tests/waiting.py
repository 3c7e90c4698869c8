"""Waiting for what another thread or process does, where it tells nobody: looks again and again, within a deadline."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

DEADLINE_S = 30.0
START_S = 120.0
"""Until a program says that it is there; a model may have to be loaded, beside other tests."""
PAUSE_S = 0.002
"""Between two looks, so that waiting takes no core from what is waited for."""


@contextmanager
def killed_after(timeout_s: float, process: subprocess.Popen[Any]) -> Iterator[None]:
    """Kills a process that keeps the block waiting for longer."""
    watchdog = threading.Timer(timeout_s, process.kill)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()


def until(is_true: Callable[[], bool]) -> None:
    """Returns once `is_true()`; fails after `DEADLINE_S`."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not is_true():
        assert time.monotonic() < deadline_s, f"not within {DEADLINE_S:g} s"
        time.sleep(PAUSE_S)


def line_with(process: subprocess.Popen[str], text: str, timeout_s: float = START_S) -> str:
    """The next line of its stderr with `text`; if none comes in time, or it ends before, the test fails with what it
    said."""
    return lines_until(process, text, timeout_s)[-1]


def lines_until(process: subprocess.Popen[str], text: str, timeout_s: float = START_S) -> list[str]:
    """That line, behind those before it."""
    assert process.stderr is not None
    said: list[str] = []
    with killed_after(timeout_s, process):
        for line in process.stderr:
            said.append(line)
            if text in line:
                return said
    code = process.wait()
    raise AssertionError(f"ended with {code}, at the latest after {timeout_s:g} s, without {text!r}: {''.join(said)}")
