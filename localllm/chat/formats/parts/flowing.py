"""Text that is given on as it comes, but for white space at its edges and at those of its parts. Knows no format."""

from __future__ import annotations

from collections.abc import Callable

BETWEEN = "\n\n"
"""Parts of one text."""


class Flow:
    """Of one text; `put` takes it."""

    def __init__(self, put: Callable[[str], None]) -> None:
        self._put = put
        self._space: list[str] = []
        """Behind what was given on: a part of the text if more of it follows."""
        self._is_at_edge = False
        self.has_text = False

    def begin(self, *, is_stripped: bool = True) -> None:
        """Another part begins. `is_stripped`: its first white space is none of it."""
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
        """It ends with the white space that it has."""
        if not self._is_at_edge:
            self._put("".join(self._space))
        self._space = []
