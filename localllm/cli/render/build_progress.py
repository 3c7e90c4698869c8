"""The progress of a compilation: a line redrawn in place on a terminal, else one every few seconds.

Does not know what is compiled.
"""

from __future__ import annotations

import sys
import time

from localllm.cli.render.units import duration
from localllm.cli.shared import report

LINE_EVERY_S = 5.0
"""Interval of lines without a terminal."""


class BuildProgress:
    """Call it with the numbers of completed and of all steps."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._began_s = time.monotonic()
        self._shown_s = 0.0
        self._is_drawn = False

    def __call__(self, done: int, total: int) -> None:
        now_s = time.monotonic()
        if now_s - self._shown_s < (0.2 if self._is_terminal else LINE_EVERY_S) or not done:
            return
        self._shown_s = now_s
        remaining_s = (now_s - self._began_s) / done * (total - done)
        text = f"compiling: {done} of {total} files, about {duration(remaining_s)} left"
        if self._is_terminal:
            report.draw(text, before="\r\x1b[K")
            self._is_drawn = True
        else:
            report.say(text)

    def clear(self) -> None:
        """Erase the line."""
        if self._is_drawn:
            report.draw("", before="\r\x1b[K")
