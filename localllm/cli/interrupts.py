"""Ctrl-C at the right moment: not in the middle of what a terminal has to get whole."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def undivided() -> Iterator[None]:
    """A Ctrl-C within becomes a `KeyboardInterrupt` at the end. Of no effect in other threads, which get none."""
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or previous is None:
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if came:
        raise KeyboardInterrupt


@contextlib.contextmanager
def stopped_by_ctrl_c(cancel: threading.Event) -> Iterator[None]:
    """Ctrl-C and SIGTERM set the flag, and everything is put down in order. A second Ctrl-C does not wait for that."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        if cancel.is_set():
            raise KeyboardInterrupt
        cancel.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
