"""Extracts a custom tool's text from its JSON arguments `{"input": "..."}` while they are streamed.

Knows nothing of tools and replies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from localllm.chat.surrogates import whole_text
from localllm.server.requests.tools import INPUT

_OPENING = f'{{"{INPUT}":"'
_CHARACTERS = re.compile(r'(?:[^"\\]+|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_PART_OF_AN_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_NUM_ESCAPE_CHARS = len(r"\ud83d")


class InputReader:
    """`feed` takes the arguments in pieces; anything but such an object is the text itself.

    The result does not depend on how the arguments are split.
    """

    def __init__(self) -> None:
        self._buffer = ""
        self._is_within = False
        self._is_raw = False
        self._is_over = False

    def feed(self, arguments: str) -> str:
        """The new part of the text."""
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
        """The rest after the text's opening quote, once it has arrived; until then only whitespace is buffered."""
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
            if ends_here and text and "\ud800" <= text[-1] <= "\udbff":  # the other half is yet to come
                text, end = text[:-1], end - _NUM_ESCAPE_CHARS
            found.append(whole_text(text))
            place = end
            if ends_here:
                break
            if buffer[place] == '"':
                self._is_over, self._is_within, place = True, False, len(buffer)
            else:  # not an escape of JSON
                found.append(buffer[place])
                place += 1
        self._buffer = buffer[place:]
        return "".join(found)


def input_of(arguments: Iterable[str]) -> str:
    """The text of a complete or truncated call."""
    reader = InputReader()
    return "".join(map(reader.feed, arguments))
