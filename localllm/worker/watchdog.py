"""Ends what takes too long. Knows nothing of what that is."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable


class Watchdog:
    """For one thing at a time, used by one thread.

    Its own thread sleeps until the deadline that was the next one when it looked last, so that a deadline that is met
    costs no wake-up: a timer for each would cost more than most of what is watched. Without work it ends.
    """

    def __init__(self, overrun: Callable[[], None]) -> None:
        """`overrun` is called on another thread, at most once for each `begin`."""
        self._overrun = overrun
        self._changed = threading.Condition()
        self._due_s = math.inf
        self._looks_s = math.inf
        """When the thread looks next."""
        self._has_thread = False
        self._has_overrun = False

    def begin(self, within_s: float) -> None:
        """Calls `overrun` after that many seconds, unless `end` comes before."""
        with self._changed:
            self._due_s, self._has_overrun = time.monotonic() + within_s, False
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
            elif self._due_s < self._looks_s:
                self._changed.notify()

    def end(self) -> bool:
        """Whether `overrun` was called. From here on it is not."""
        with self._changed:
            self._due_s = math.inf
            return self._has_overrun

    def _watch(self) -> None:
        with self._changed:
            while self._due_s < math.inf:
                now_s = time.monotonic()
                if now_s >= self._due_s:
                    self._due_s, self._has_overrun = math.inf, True
                    self._overrun()
                else:
                    self._looks_s = self._due_s
                    self._changed.wait(self._due_s - now_s)
            self._has_thread = False
