"""Splits a Go text/template into text and actions, and actions into tokens. Source: the package's documentation.

`{{- ` and ` -}}` trim adjacent text. Knows nothing of the meaning of actions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from localllm.errors import InvalidParameter

_ACTION = re.compile(
    r"\{\{(?P<left>-(?=\s))?\s*(?:/\*(?P<comment>.*?)\*/|(?P<body>(?:\"(?:\\.|[^\"\\\n])*\"|`[^`]*`|[^\"`])*?))"
    r"(?P<right>\s-)?\s*\}\}",
    re.DOTALL,
)
_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<string>\"(?:\\.|[^\"\\\n])*\"|`[^`]*`)|(?P<number>[+-]?\d+(?:\.\d+)?(?![\w.]))"
    r"|(?P<variable>\$\w*)|(?P<field>\.[A-Za-z_]\w*)|(?P<dot>\.)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>:=|=|\||\(|\)|,)"
)
_ESCAPE = re.compile(r"\\(?:([0-7]{3})|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_TRIMMED = " \t\r\n"


@dataclass(frozen=True)
class Token:
    """A token of an action."""

    kind: str
    """string, number, variable, field, dot, name, sign, or end."""
    text: str
    """The value of a string, with escapes resolved."""
    at: int
    """Its offset in the template."""
    glued: bool
    """Whether it follows the previous token without a space."""


@dataclass(frozen=True)
class Text:
    """Literal text."""

    text: str


@dataclass(frozen=True)
class Action:
    """The content of a pair of braces."""

    tokens: tuple[Token, ...]
    at: int


def refused(source: str, at: int, reason: str) -> InvalidParameter:
    """The error for a position in the template."""
    line, column = source.count("\n", 0, at) + 1, at - source.rfind("\n", 0, at)
    return InvalidParameter(f"the Go template, line {line}, column {column}: {reason}", param="template")


def split(source: str) -> Iterator[Text | Action]:
    """Trimmed text and actions, without comments. Raises `InvalidParameter`."""
    position, trims = 0, False
    while True:
        start = source.find("{{", position)
        text = source[position:] if start < 0 else source[position:start]
        match = None if start < 0 else _ACTION.match(source, start)
        if start >= 0 and match is None:
            raise refused(source, start, "this action does not end with }}")
        text = text.lstrip(_TRIMMED) if trims else text
        text = text.rstrip(_TRIMMED) if match is not None and match["left"] else text
        if text:
            yield Text(text)
        if match is None:
            return
        if match["comment"] is None:
            yield Action(tuple(_tokens(source, match.start("body"), match.end("body"))), start)
        position, trims = match.end(), match["right"] is not None


def _tokens(source: str, start: int, end: int) -> Iterator[Token]:
    position, glued = start, False
    while position < end:
        match = _TOKEN.match(source, position, end)
        if match is None:
            raise refused(source, position, f"{source[position]!r} is not supported")
        kind = str(match.lastgroup)
        if kind != "space":
            text = _meaning(source, match) if kind == "string" else match[0]
            yield Token(kind, text, position, glued)
        position, glued = match.end(), kind != "space"
    yield Token("end", "", end, False)


def _meaning(source: str, match: re.Match[str]) -> str:
    if match[0].startswith("`"):
        return match[0][1:-1].replace("\r", "")

    def character(escape: re.Match[str]) -> str:
        octal, *hexadecimal, letter = escape.groups()
        if octal is not None:
            return chr(int(octal, 8))
        digits = next((digits for digits in hexadecimal if digits is not None), None)
        if digits is not None and int(digits, 16) <= 0x10FFFF:
            return chr(int(digits, 16))
        if letter in ("\\", '"'):
            return str(letter)
        if letter not in _LETTERS:
            raise refused(source, match.start(), f"the escape {escape[0]!r} is not supported")
        return _LETTERS[letter]

    return _ESCAPE.sub(character, match[0][1:-1])
