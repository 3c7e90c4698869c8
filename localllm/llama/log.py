"""llama.cpp's own log: the last lines are kept, `--verbose` shows them on stderr, nothing ever reaches stdout.

Its error lines are the only place where llama.cpp says why a load failed, so callers take a `mark()` before and ask
`errors_since(mark)` after. Knows nothing of what the lines mean.
"""

from __future__ import annotations

import collections
import os
from typing import NamedTuple

from localllm.system.printable import printable

DEBUG, INFO, WARN, ERROR, CONTINUED = 1, 2, 3, 4, 5
"""enum ggml_log_level; CONTINUED continues the previous line."""

NUM_KEPT_LINES = 4096
"""Including the debug lines of a model load: only these say which layer went to which device."""
MAX_LINE_CHARS = 2000
NO_REASON = "llama.cpp gave no reason"


class Line(NamedTuple):
    """One line; `number` counts all lines since the library was loaded."""

    number: int
    level: int
    text: str


class Log:
    """Receives pieces of text from native threads (which hold the GIL then), so every step here is short."""

    def __init__(self, *, echo: bool = False) -> None:
        self.echo = echo
        self._lines: collections.deque[Line] = collections.deque(maxlen=NUM_KEPT_LINES)
        self._num_lines = 0
        self._level = INFO
        self._pending = ""

    def receive(self, level: int, text: bytes | None) -> None:
        """Part of a line or several lines, as `ggml_log_callback` passes them. Never raises."""
        if level != CONTINUED:
            if self._pending:
                self._add(self._pending)
            self._level, self._pending = level, ""
        *complete, rest = (self._pending + (text or b"").decode("utf-8", "replace")).split("\n")
        self._pending = rest[:MAX_LINE_CHARS]
        for line in complete:
            self._add(line)

    def _add(self, text: str) -> None:
        if not text.strip(" ."):  # the progress dots
            return
        self._num_lines += 1
        self._lines.append(Line(self._num_lines, self._level, text[:MAX_LINE_CHARS]))
        if self.echo and self._level >= INFO:
            try:
                os.write(2, f"llama.cpp: {printable(text)}\n".encode())
            except OSError:
                self.echo = False  # stderr is gone; the ring still has the line

    def mark(self) -> int:
        """A point in time for `lines_since` and `errors_since`."""
        return self._num_lines

    def lines_since(self, mark: int, *, min_level: int = DEBUG) -> list[str]:
        """The kept lines after `mark` of this level or worse, oldest first."""
        return [line.text for line in tuple(self._lines) if line.number > mark and line.level >= min_level]

    def errors_since(self, mark: int) -> str:
        """Why something failed after `mark`, in llama.cpp's own words, as one line for an error message."""
        lines = self.lines_since(mark, min_level=ERROR) or self.lines_since(mark, min_level=WARN)
        return "; ".join(lines[-3:]) or NO_REASON
