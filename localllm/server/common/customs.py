"""The text that a custom tool is called with, out of the JSON arguments `{"input": "..."}`, as these are made.

Knows nothing of tools and replies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from localllm.server.common.tools import INPUT

_OPENING = f'{{"{INPUT}":"'
_CHARACTERS = re.compile(r'(?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_PART_OF_AN_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_NUM_ESCAPE_CHARS = len(r"\ud83d")


class InputReader:
    """`feed` it the arguments' pieces; what is no such object is the text itself. The sum is the same at any split."""

    def __init__(self) -> None:
        self._buffer = ""
        self._is_within = False
        self._is_raw = False
        self._is_over = False

    def feed(self, arguments: str) -> str:
        """The text that is new."""
        self._buffer += arguments
        if not (self._is_within or self._is_raw or self._is_over):
            self._open()
        if self._is_over:
            self._buffer = ""
        if self._is_raw:
            text, self._buffer = self._buffer, ""
            return text
        return self._characters() if self._is_within else ""

    def _open(self) -> None:
        """Past the text's quote, once it is there; its buffer is as long as a model's white space."""
        place = 0
        for expected in _OPENING:
            while place < len(self._buffer) and self._buffer[place].isspace():
                place += 1
            if place == len(self._buffer):
                return
            if self._buffer[place] != expected:
                self._is_raw = True
                return
            place += 1
        self._is_within, self._buffer = True, self._buffer[place:]

    def _characters(self) -> str:
        found: list[str] = []
        place, buffer = 0, self._buffer
        while place < len(buffer):
            match = _CHARACTERS.match(buffer, place)
            end = match.end() if match is not None else place
            text = json.loads(f'"{buffer[place:end]}"', strict=False)
            ends_here = end == len(buffer) or _PART_OF_AN_ESCAPE.fullmatch(buffer, end) is not None
            if ends_here and text and "\ud800" <= text[-1] <= "\udbff":  # the other half is to come
                text, end = text[:-1], end - _NUM_ESCAPE_CHARS
            found.append(_whole(text))
            place = end
            if ends_here:
                break
            if buffer[place] == '"':
                self._is_over, self._is_within, place = True, False, len(buffer)
            else:  # an escape that JSON does not know
                found.append(buffer[place])
                place += 1
        self._buffer = buffer[place:]
        return "".join(found)


def _whole(text: str) -> str:
    """Halves of surrogate pairs become one character, or U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def input_of(arguments: Iterable[str]) -> str:
    """Of a whole call, or one that was cut."""
    reader = InputReader()
    return "".join(map(reader.feed, arguments))
