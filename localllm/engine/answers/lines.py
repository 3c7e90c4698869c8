"""Ends an answer by its lines: at one indented too little, or at the first one after a time limit.

`feed` returns the part of a text that belongs to the answer; the concatenation is the same at every split. Knows
nothing of tokens.
"""

from __future__ import annotations

from localllm.types import Lines

_INDENT = " \t"


class LineRules:
    """For one answer."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._indent: int | None = None
        """Indentation so far of a line that has just begun; None: its text has begun, or it is the first line."""
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
