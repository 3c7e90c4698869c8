"""Ctrl-C at the right moment: never in the middle of a write to the terminal."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def undivided() -> Iterator[None]:
    """Delays `KeyboardInterrupt` to the end of the block. No effect outside the main thread, which alone gets it."""
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or previous is None:
        yield
        return
    received: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if received:
        raise KeyboardInterrupt


@contextlib.contextmanager
def stopped_by_ctrl_c(cancel: threading.Event) -> Iterator[None]:
    """Ctrl-C and SIGTERM set `cancel`, for an orderly stop. A second one raises `KeyboardInterrupt` immediately."""

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
