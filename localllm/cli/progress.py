"""A load's progress on one line of a terminal, drawn over itself. Silent where stderr is not a terminal."""

from __future__ import annotations

import sys
import time

_PATIENCE_S = 0.4
"""A load that is over by then needs no progress."""


class LoadProgress:
    """Call it with fractions from 0 to 1, then `clear` it."""

    def __init__(self) -> None:
        self._visible = sys.stderr.isatty()
        self._started_s = time.monotonic()
        self._drawn = False

    def __call__(self, fraction: float) -> None:
        if self._visible and time.monotonic() - self._started_s > _PATIENCE_S:
            self._drawn = True
            sys.stderr.write(f"\rloading the model: {fraction:4.0%}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Leave an empty line for the answer."""
        if self._drawn:
            sys.stderr.write("\r" + " " * 30 + "\r")
            sys.stderr.flush()
            self._drawn = False
