"""Literals in llguidance's Lark: special tokens by number, everything else as text.

llguidance's regular expressions never match special tokens, so a marker that is a special token must be written as one.
In free text, special tokens come between stretches of text. Knows nothing of the meaning of texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby

Segments = tuple[str | int, ...]
"""Parts of a literal: texts, and special tokens by number."""

ANY = r"/(?s:.*)/"
"""Any text, including the empty one."""
FREE = "/(?s:.+)/"
"""Any text except the empty one."""
BLANKS = r"\s*"


_DECODER = json.JSONDecoder()


class Literals:
    """Literals for one vocabulary with known special tokens; without any, everything is text."""

    def __init__(self, tokens: Mapping[str, int] | None = None, ends: Collection[int] = ()) -> None:
        """`ends`: the tokens that end an answer."""
        self._tokens = {spelling: token for spelling, token in (tokens or {}).items() if spelling}
        self._ends = frozenset(ends)
        longest_first = sorted(self._tokens, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    @classmethod
    def of_vocabulary(cls, spellings: Iterable[tuple[int, bytes]], ends: Collection[int] = ()) -> Literals:
        """From the special tokens whose spelling is valid UTF-8."""
        tokens: dict[str, int] = {}
        for token, spelling in spellings:
            with suppress(UnicodeDecodeError):
                tokens.setdefault(spelling.decode(), token)
        return cls(tokens, ends)

    def segments(self, text: str) -> Segments:
        """The text, split at its special tokens."""
        found: list[str | int] = []
        at = 0
        for match in self._pattern.finditer(text) if self._pattern is not None else ():
            found += [text[at : match.start()], self._tokens[match[0]]]
            at = match.end()
        return tuple(part for part in (*found, text[at:]) if part != "")

    def written(self, text: str) -> str:
        """An expression that matches exactly this text; empty for the empty text."""
        return self.of(self.segments(text))

    @staticmethod
    def of(segments: Segments) -> str:
        """The same for a text already split into segments."""
        return " ".join(f"<[{part}]>" if isinstance(part, int) else quoted(part) for part in segments)

    def before_end(self, text: str) -> tuple[str, bool]:
        """The text before a token that ends the answer, and whether there is such a token."""
        kept: list[str] = []
        spellings = {token: spelling for spelling, token in self._tokens.items()}
        for part in self.segments(text):
            if isinstance(part, int) and part in self._ends:
                return "".join(kept), True
            kept.append(spellings[part] if isinstance(part, int) else part)
        return "".join(kept), False

    def others(self, *but: int) -> str:
        """An expression for any special token that does not end the answer and is not one of these; empty if there is
        none."""
        return one_of({*self._tokens.values()} - self._ends - {*but})


def one_of(tokens: Iterable[int]) -> str:
    """An expression for any of these tokens; empty if there are none."""
    ranges = []
    for _, run in groupby(enumerate(sorted(tokens)), key=lambda each: each[1] - each[0]):
        numbers = [token for _, token in run]
        ranges.append(str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}")
    return f"<[{','.join(ranges)}]>" if ranges else ""


def quoted(text: str) -> str:
    """A string of Lark."""
    return json.dumps(text, ensure_ascii=False)


def joined(expressions: Sequence[str]) -> str:
    """The expressions in sequence. Adjacent texts are merged: llguidance's lexer takes the longest terminal, so no text
    may be a prefix of an alternative to it."""
    found: list[str] = []
    for expression in filter(None, expressions):
        if found and found[-1].startswith('"') and expression.startswith('"'):
            before, end = _DECODER.raw_decode(found[-1])
            if end == len(found[-1]):
                text, end = _DECODER.raw_decode(expression)
                found[-1] = quoted(before + text)
                expression = expression[end:].strip()
        if expression:
            found.append(expression)
    return " ".join(found)


def either(expressions: Sequence[str]) -> str:
    """Any one of the expressions."""
    return expressions[0] if len(expressions) == 1 else f"({' | '.join(expressions)})"


def parts_of(literal: str) -> list[str]:
    """Split a literal at white space that readers treat as optional: at its edges and around line ends."""
    return [part for part in re.split(r"^\s+|\s+$|\s*\n\s*", literal) if part]


def escaped(text: str) -> str:
    """The text, escaped for a regular expression between slashes."""
    special = set(r"\/.^$|?*+()[]{}-&~#")
    return "".join(
        {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character, f"\\{character}" if character in special else character)
        for character in text
    )
