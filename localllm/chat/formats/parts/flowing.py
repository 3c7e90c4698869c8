"""Passes text on as it arrives, except for white space at the edges of the text and of its parts. Knows no format."""

from __future__ import annotations

from collections.abc import Callable

BETWEEN = "\n\n"
"""Separates parts of one text."""


class Flow:
    """Passes one text to `put`."""

    def __init__(self, put: Callable[[str], None]) -> None:
        self._put = put
        self._space: list[str] = []
        """White space after the text passed on, which is part of it if more follows."""
        self._is_at_edge = False
        self.has_text = False

    def begin(self, *, is_stripped: bool = True) -> None:
        """Begin another part. `is_stripped`: drop its leading white space."""
        self._space = [BETWEEN] if self.has_text else []
        self._is_at_edge = is_stripped

    def show(self, text: str) -> None:
        """Add more text to the part."""
        text = text.lstrip() if self._is_at_edge else text
        if not text:
            return
        self._is_at_edge = False
        body = text.rstrip()
        if body:
            self._put("".join(self._space) + body)
            self._space = []
            self.has_text = True
        self._space.append(text[len(body) :])

    def end(self) -> None:
        """End the text, and pass on its trailing white space."""
        if not self._is_at_edge:
            self._put("".join(self._space))
        self._space = []
