"""Text that is passed on as it arrives, except white space at its edges and those of its parts. Knows no format."""

from __future__ import annotations

from collections.abc import Callable

BETWEEN = "\n\n"
"""Separates parts of one text."""


class Flow:
    """For one text; passes it to `put`."""

    def __init__(self, put: Callable[[str], None]) -> None:
        self._put = put
        self._space: list[str] = []
        """White space after what was passed on: part of the text if more follows."""
        self._is_at_edge = False
        self.has_text = False

    def begin(self, *, is_stripped: bool = True) -> None:
        """Another part begins. `is_stripped`: drop its leading white space."""
        self._space = [BETWEEN] if self.has_text else []
        self._is_at_edge = is_stripped

    def show(self, text: str) -> None:
        """More of the part."""
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
        """The text ends, including its trailing white space."""
        if not self._is_at_edge:
            self._put("".join(self._space))
        self._space = []
