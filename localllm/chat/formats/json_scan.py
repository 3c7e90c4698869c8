"""The end of a JSON value, found as the value comes. Looks at brackets and texts alone: what is between them is not
checked, but for control characters in texts, which are escaped as JSON wants it. Knows no format.
"""

from __future__ import annotations

import json
import re
from typing import Any

_STRUCTURE = re.compile(r'["{}\[\]]')
_SCALAR_END = re.compile(r"[\s,:\]}]")
_BODY = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class JsonScanner:
    """One value, which begins with the first character that is fed."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._in_scalar = False
        self._is_escaped = False

    def feed(self, text: str, start: int = 0) -> tuple[str, int | None]:
        """The value's text from there on, and where it ends if it does. A bare word or number ends before what is
        none of it.
        """
        found: list[str] = []
        at = start
        while at < len(text):
            if self._in_string:
                end, is_over = self._string(text, at)
                found.append(_CONTROL.sub(_escaped, text[at:end]))
                at = end
                if is_over and self._depth == 0:
                    return "".join(found), at
            elif self._in_scalar:
                match = _SCALAR_END.search(text, at)
                if match is not None:
                    return text[start : match.start()], match.start()
                return text[start:], None
            else:
                match = _STRUCTURE.match(text, at) if self._depth == 0 else _STRUCTURE.search(text, at)
                if match is None:
                    self._in_scalar = self._depth == 0
                    if self._in_scalar:
                        continue
                    found.append(text[at:])
                    break
                found.append(text[at : match.end()])
                at = match.end()
                if self._structure(match.group()):
                    return "".join(found), at
        return "".join(found), None

    def _structure(self, char: str) -> bool:
        """Whether the value ends with it."""
        if char == '"':
            self._in_string = True
            return False
        self._depth += 1 if char in "{[" else -1
        return self._depth <= 0

    def _string(self, text: str, at: int) -> tuple[int, bool]:
        """Where the text ends, behind its quote, or what came of it does; and whether it is over."""
        if self._is_escaped:
            self._is_escaped = False
            at += 1
        match = _BODY.match(text, at)
        end = match.end() if match is not None else at
        if end >= len(text):
            return len(text), False
        if text[end] == '"':
            self._in_string = False
            return end + 1, True
        self._is_escaped = True  # the last character is a backslash
        return len(text), False


def _escaped(match: re.Match[str]) -> str:
    return _SHORT.get(match.group(), f"\\u{ord(match.group()):04x}")


def value_of(text: str) -> Any:
    """What a JSON text says. Raises ValueError, also where it is too deep to be read."""
    try:
        return json.loads(text, strict=False, parse_constant=_refused)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


def is_object(text: str) -> bool:
    """Whether a text is a JSON object."""
    try:
        return isinstance(value_of(text), dict)
    except ValueError:
        return False


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
