"""Finds the end of a JSON value as it arrives. Looks at brackets and strings only and checks nothing else, but escapes
control characters in strings, as JSON requires. Knows no format."""

from __future__ import annotations

import json
import re
from typing import Any

_STRUCTURE = r'["{}\[\]]'
_CLOSING = {"{": "}", "[": "]"}
_SCALAR_END = re.compile(r"[\s,:\]}]")
_BODY = re.compile(r'(?:[^"\\]+|\\.)*', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class JsonScanner:
    """Scans one value, which begins with the first character fed. `stop`: a character that JSON has only in strings;
    elsewhere it ends a value whose closing brackets are missing."""

    def __init__(self, stop: str = "") -> None:
        self._open: list[str] = []
        """Expected closing brackets, the next one last."""
        self._stop = stop
        self._structure = re.compile(f"{_STRUCTURE}|{re.escape(stop)}" if stop else _STRUCTURE)
        self._in_string = False
        self._in_scalar = False
        self._is_escaped = False

    def feed(self, text: str) -> tuple[str, int | None]:
        """The text of the value, and the offset of its end, if it ends. A bare word or number ends at a separator."""
        if self._in_scalar:
            match = _SCALAR_END.search(text)
            end = None if match is None else match.start()
            return text[:end], end
        found: list[str] = []
        at = 0
        while at < len(text):
            if self._in_string:
                end, is_over = self._string(text, at)
                found.append(_CONTROL.sub(_escaped, text[at:end]))
                at = end
                if is_over and not self._open:
                    return "".join(found), at
                continue
            if not self._open and text[at] not in '"{[':
                self._in_scalar = True
                return self.feed(text)
            match = self._structure.search(text, at)
            if match is None:
                found.append(text[at:])
                break
            if match.group() == self._stop:
                return "".join([*found, text[at : match.start()], *reversed(self._open)]), match.start()
            found.append(text[at : match.end()])
            at = match.end()
            if self._is_last(match.group()):
                return "".join(found), at
        return "".join(found), None

    def _is_last(self, char: str) -> bool:
        """Whether the value ends with this character."""
        if char == '"':
            self._in_string = True
        elif char in _CLOSING:
            self._open.append(_CLOSING[char])
        elif self._open:
            self._open.pop()
            return not self._open
        return False

    def _string(self, text: str, at: int) -> tuple[int, bool]:
        """Offset after the string's closing quote, or of the end of the text; and whether the string is complete."""
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
    """The value of a JSON text. Raises ValueError, also for text nested too deeply."""
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
