"""What a custom tool is given, read from the arguments of the function that the model calls: `{"input": TEXT}`.

In pieces as they come (`feed`, `flush`), in linear time; what is no such object is given as it is. Pure.
"""

from __future__ import annotations

import json
import re
from typing import Literal

_OPENING = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_PREFIX = re.compile(r'\s*(\{\s*("(i(n(p(u(t("(\s*(:\s*)?)?)?)?)?)?)?)?)?)?')
"""Whatever an opening may have begun with."""
_MAX_OPENING_CHARS = 200
_PLAIN = re.compile(r'[^"\\]+')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_ESCAPE_CHARS = 6
"""Of `\\uXXXX`; two of them may be one character."""


class InputReader:
    """Of one call."""

    def __init__(self) -> None:
        self._rest = ""
        """That is not read yet: of the opening, or half an escape sequence."""
        self._others: list[str] = []
        """Arguments that are something else."""
        self._state: Literal["opening", "text", "over", "other"] = "opening"

    def feed(self, arguments: str) -> str:
        """The text that these pieces of JSON add."""
        if self._state == "other":
            self._others.append(arguments)
        if self._state in ("other", "over"):
            return ""
        self._rest += arguments
        if self._state == "opening":
            opening = _OPENING.match(self._rest)
            if opening:
                self._state, self._rest = "text", self._rest[opening.end() :]
            elif len(self._rest) > _MAX_OPENING_CHARS or not _PREFIX.fullmatch(self._rest):
                self._state, self._others = "other", [self._rest]
        return self._text() if self._state == "text" else ""

    def flush(self) -> str:
        """The rest of the text."""
        if self._state in ("text", "over"):
            return ""  # half an escape sequence, where the answer was cut
        return _only_text("".join(self._others) or self._rest)

    def _text(self) -> str:
        """The decoded part; an escape sequence that has not come whole waits."""
        found: list[str] = []
        position, rest = 0, self._rest
        while position < len(rest):
            plain = _PLAIN.match(rest, position)
            if plain:
                found.append(plain.group())
                position = plain.end()
            elif rest[position] == '"':
                self._state, position = "over", len(rest)
            else:
                size = _escape_size(rest, position)
                if size == 0:
                    break
                found.append(_decoded(rest[position : position + size]))
                position += size
        self._rest = rest[position:] if self._state == "text" else ""
        return "".join(found)


def _escape_size(text: str, start: int) -> int:
    """Characters of the escape sequence that begins there; 0: more have to come."""
    if start + 1 >= len(text):
        return 0
    if text[start + 1] != "u":
        return 2
    end = start + _ESCAPE_CHARS
    if len(text) < end:
        return 0
    if text[start + 2 : start + 3] not in "dD" or text[start + 3 : start + 4] not in "89abAB":
        return _ESCAPE_CHARS
    pair = text[end : end + 2]
    if len(text) < end + _ESCAPE_CHARS and r"\u".startswith(pair):
        return 0
    return 2 * _ESCAPE_CHARS if pair == r"\u" else _ESCAPE_CHARS


def _decoded(escape: str) -> str:
    if escape[1] != "u":
        return _ESCAPES.get(escape[1], escape[1])
    try:
        text: str = json.loads(f'"{escape}"')
    except ValueError:
        return escape
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _only_text(arguments: str) -> str:
    """The one text in an object under another name; else the arguments themselves."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if isinstance(given, dict):
        values = [given["input"]] if isinstance(given.get("input"), str) else list(given.values())
        if len(values) == 1 and isinstance(values[0], str):
            return values[0].encode("utf-8", "replace").decode()
    return arguments
