"""Where an answer ends for what its lines are: one that is indented too little, or the first after its time.

`feed` gives what of a text belongs to the answer; concatenated it is the same at every split. Knows nothing of tokens.
"""

from __future__ import annotations

from localllm.types import Lines

_INDENT = " \t"


class LineRules:
    """Of one answer."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._indent: int | None = None
        """Of the line that just begins behind another, so far; None: its text has begun, or it is the first."""
        self.has_ended = False

    def feed(self, text: str, elapsed_s: float) -> str:
        """What belongs to the answer, `elapsed_s` after its first token."""
        for at, character in enumerate(text):
            if self._indent is not None:
                if character in _INDENT:
                    self._indent += 1
                    continue
                if self._indent < self._lines.min_indent:
                    self.has_ended = True
                    return text[:at]
                self._indent = None
            if character == "\n":
                self._indent = 0
        if self._lines.max_s and elapsed_s > self._lines.max_s and "\n" in text:
            self.has_ended = True
        return text
