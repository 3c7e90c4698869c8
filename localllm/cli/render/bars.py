"""A progress bar for bytes on stderr: rich's on a terminal, else one line per second. Knows no downloads."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from localllm.cli.render.units import duration, size
from localllm.cli.shared import report

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LINE_EVERY_S = 1.0
NOTE_EVERY_S = 10.0
"""Interval of lines that repeat each other: notes, and progress without new bytes."""


class Bar:
    """A progress bar; a context manager. `show` may be called from any thread."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._noted = False
        self._noted_s = 0.0
        self._said = ""
        self._printed_s = 0.0
        self._printed = ("", 0)
        """Phase and bytes done in the last printed line."""
        self._last: tuple[str, int, int | None] = ("", 0, None)

    def __enter__(self) -> Bar:
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
            from rich.progress import TransferSpeedColumn as Speed

            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                DownloadColumn(),
                Speed(),
                TimeRemainingColumn(),
            )
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.note("")
        phase, done, total = self._last
        if kind is None and self._printed[0] and self._printed != (phase, done):
            self._say(phase, done, total)
        if self._progress is not None and self._task is not None:
            self._progress.stop()

    def note(self, text: str) -> None:
        """Shows a line while there are no bytes to count; on a terminal it replaces the last one (empty: erases it)."""
        if self._progress is None:
            if text and time.monotonic() - self._noted_s >= NOTE_EVERY_S:
                self._noted_s = time.monotonic()
                report.say(f"{text} {self._what}")
        elif self._task is not None:
            if text:
                self._progress.update(self._task, description=text)
        elif text or self._noted:
            self._noted = bool(text)
            report.draw(text, before="\r\x1b[2K")

    def wait(self, host: str, seconds: float, why: str | None) -> str:
        """Reports each new reason for a wait once; returns a phrase that describes the wait."""
        if why and why != self._said:
            self._said = why
            self.note("")
            report.say(f"localllm: {why}; trying again (Ctrl-C stops)")
        return f"waiting for {host} ({seconds:.0f} s)"

    def show(self, phase: str, done: int, total: int | None, bytes_per_s: float | None = None) -> None:
        """Update the progress."""
        if self._progress is None:
            self._line(phase, done, total, bytes_per_s)
            return
        if self._task is None:
            if not total and not done:
                return  # messages may still be printed above the bar
            self._progress.start()
            self._task = self._progress.add_task(phase, total=total)
        self._progress.update(self._task, description=phase, completed=done, total=total)

    def _line(self, phase: str, done: int, total: int | None, bytes_per_s: float | None) -> None:
        if not total and not done:
            return
        now, self._last = time.monotonic(), (self._last[0] if phase == "done" else phase, done, total)
        every_s = NOTE_EVERY_S if done == self._printed[1] else LINE_EVERY_S
        if phase != "done" and now - self._printed_s >= every_s:
            self._printed_s = now
            self._say(phase, done, total, bytes_per_s)

    def _say(self, phase: str, done: int, total: int | None, bytes_per_s: float | None = None) -> None:
        self._printed = phase, done
        share = f" of {size(total)} ({done / total:.0%})" if total else ""
        speed = f", {size(int(bytes_per_s))}/s" if bytes_per_s else ""
        remaining = f", {duration((total - done) / bytes_per_s)} left" if total and bytes_per_s else ""
        report.say(f"{phase} {self._what}: {size(done)}{share}{speed}{remaining}")
