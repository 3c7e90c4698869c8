"""Converts single words to JSON: numbers, True and true, None and null, unquoted names, quoted strings.

Knows nothing of the text around them.
"""

from __future__ import annotations

import json
import math
import re

from localllm.chat.formats.arguments.scanning import Scanner, Steps, Unreadable

_WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_OTHER_NUMBER = re.compile(r"[+-]?(?:0[xXoObB][0-9a-fA-F_]+|[0-9_]*\.?[0-9_]*(?:[eE][+-]?[0-9]+)?)")
_SHORT = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v", "\n": "", "/": "/"}
_SHORT |= {mark: mark for mark in "\\'\""}
_DIGITS = {"x": 2, "u": 4, "U": 8}
_NO_CODE = 0x110000
"""Above all code points."""
_PLAIN = {quote: re.compile(f"[^\\\\{quote}]+") for quote in "'\""}


def json_of_word(word: str) -> str | None:
    """A constant or number in JSON or Python syntax, as JSON; None if it is neither."""
    if (known := _WORDS.get(word)) is not None:
        return known
    if _NUMBER.fullmatch(word):
        return word
    if not (_OTHER_NUMBER.fullmatch(word) and any(each.isdigit() for each in word)):
        return None
    try:
        return str(int(word, 0))
    except ValueError:
        pass  # a float, or has leading zeros
    try:
        return str(int(word))
    except ValueError:
        pass  # a float
    try:
        number = float(word)
    except ValueError:
        return None
    return json.dumps(number) if math.isfinite(number) else None


def quoted(scanner: Scanner, ends: str, *, is_raw: bool = False) -> Steps[None]:
    """Read a string in ' or " (or three of them), with Python's and JSON's escapes, and write it as JSON.

    Models forget to escape quotes, so a quote ends the string only if one of `ends` follows.
    """
    quote = yield from scanner.peek()
    scanner.skip(1)
    scanner.write('"')
    is_long = yield from scanner.takes(quote * 2)
    high = ""  # first half of a surrogate pair
    while True:
        character = yield from scanner.peek()
        if character == "\\":
            high = yield from _escape(scanner, high, is_raw=is_raw)
            continue
        if high:
            scanner.write("\\ufffd")
            high = ""
        if character != quote:
            yield from scanner.run(_PLAIN[quote], scanner.write_quoted)
        elif is_long:
            if (yield from scanner.takes(quote * 3)):
                break
            scanner.skip(1)
            scanner.write_quoted(quote)
        else:
            scanner.skip(1)
            blank = yield from scanner.blank()
            if scanner.is_empty or (yield from scanner.peek()) in ends:
                break
            scanner.write_quoted(quote + blank)
    scanner.write('"')


def _escape(scanner: Scanner, high: str, *, is_raw: bool) -> Steps[str]:
    """Read an escape and write it; returns the first half of a surrogate pair whose second half must follow."""
    scanner.skip(1)
    mark = yield from scanner.peek()
    is_low = False
    if mark == "u" and not is_raw:
        scanner.skip(1)
        digits = yield from _digits(scanner, 4)
        code = int(digits, 16) if len(digits) == 4 else -1
        is_low = 0xDC00 <= code < 0xE000
        if high:
            scanner.write(f"\\u{high}\\u{digits}" if is_low else "\\ufffd")
        if 0xD800 <= code < 0xDC00:
            return digits
        if not is_low:
            scanner.write_quoted(chr(code) if code >= 0 else f"\\u{digits}")
        elif not high:
            scanner.write("\\ufffd")
        return ""
    if high:
        scanner.write("\\ufffd")
    if is_raw:
        scanner.write_quoted("\\")
        if mark in "\\'\"":  # an escaped quote does not end a raw string, and the backslash stays
            scanner.skip(1)
            scanner.write_quoted(mark)
    elif mark in _DIGITS:
        scanner.skip(1)
        digits = yield from _digits(scanner, _DIGITS[mark])
        code = int(digits, 16) if len(digits) == _DIGITS[mark] else _NO_CODE
        if 0xD800 <= code < 0xE000:
            scanner.write("\\ufffd")  # half of a surrogate pair, which UTF-8 cannot encode
        else:
            scanner.write_quoted(chr(code) if code < _NO_CODE else f"\\{mark}{digits}")
    elif mark in "01234567":
        scanner.write_quoted(chr(int((yield from _digits(scanner, 3, "01234567")), 8)))
    elif mark in _SHORT:
        scanner.skip(1)
        scanner.write_quoted(_SHORT[mark])
    else:
        scanner.write_quoted("\\")  # kept, as in Python; often part of a regular expression
    return ""


def _digits(scanner: Scanner, count: int, which: str = "0123456789abcdefABCDEF") -> Steps[str]:
    """Read up to `count` digits."""
    digits = ""
    while len(digits) < count and (digit := (yield from scanner.peek())) in which:
        digits += digit
        scanner.skip(1)
    return digits


def json_of_text(word: str) -> str:
    """An unquoted name as a JSON string."""
    if not word:
        raise Unreadable
    return json.dumps(word, ensure_ascii=False)
