"""What is shown while there is no output yet: loading progress, time waited. Silent without a terminal."""

from __future__ import annotations

import shutil
import sys
import threading
import time

from localllm.system.printable import printable

_PATIENCE_S = 0.4
"""A load that takes less shows no progress."""
_WAIT_PATIENCE_S = 1.0
_TICK_S = 0.1
_CLEAR = "\r\x1b[K"


class LoadProgress:
    """Call it with fractions from 0 to 1, then call `clear`."""

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
        """Erase the progress, so that the answer starts on an empty line."""
        if self._drawn:
            sys.stderr.write("\r" + " " * 30 + "\r")
            sys.stderr.flush()
            self._drawn = False


class PartProgress:
    """How far something long is, on a line of stderr: `talk.mp3: 00:12:30`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._visible = sys.stderr.isatty()
        self._drawn = False

    def draw(self, text: str) -> None:
        """In place of what is there."""
        if self._visible:
            columns = shutil.get_terminal_size().columns
            self._drawn = True
            sys.stderr.write(f"{_CLEAR}{printable(f'{self._name}: {text}')[-columns + 1 :]}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Leave the line empty."""
        if self._drawn:
            self._drawn = False
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()


class Waiting:
    """A context manager that counts the seconds until `end`, on an empty line of stdout, after the first second."""

    def __init__(self, *, visible: bool, patience_s: float = _WAIT_PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True, name="waiting") if visible else None

    def __enter__(self) -> Waiting:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Stop, and leave the line empty. Idempotent."""
        from localllm.cli.chat.interrupts import undivided

        if self._thread is None or self._over.is_set():
            return
        with undivided():
            self._over.set()
            self._thread.join()

    def _draw(self) -> None:
        from localllm.cli.chat.answer_views import spinner

        started_s = time.monotonic()
        if self._over.wait(self._patience_s):
            return
        while not self._over.wait(_TICK_S):
            sys.stdout.write(f"{_CLEAR}\x1b[2m{spinner()} {time.monotonic() - started_s:.0f} s\x1b[0m")
            sys.stdout.flush()
        sys.stdout.write(_CLEAR)
        sys.stdout.flush()
