"""Colours for code, a line at a time. Knows words, strings, comments and numbers, but no grammar.

A highlighter of whole files, as Pygments, would have to read the block again for each new token of the answer, on a
processor that the model needs; this one carries what is open from line to line, so every line is read once.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from localllm.cli.render.cells import Span, Style, merge
from localllm.cli.render.languages import DIFF, Language, language

KEYWORD: Style = "35"
STRING: Style = "32"
NUMBER: Style = "36"
CONSTANT: Style = "36"
COMMENT: Style = "90"
CALL: Style = "34"
TYPE: Style = "33"
NAME: Style = "34"

MAX_HIGHLIGHTED_CHARS = 2000
"""Longer lines are data."""


class Open(NamedTuple):
    """What goes on on the next line: a comment or a string, and what ends it."""

    end: str
    style: Style


class Highlighter:
    """One block of code. Immutable but for `line`."""

    def __init__(self, name: str, open_part: Open | None = None) -> None:
        self.name = name
        self._language = language(name)
        self._open = open_part

    def copy(self) -> Highlighter:
        return Highlighter(self.name, self._open)

    def line(self, text: str) -> tuple[Span, ...]:
        """The next line, without its end."""
        if self._language is DIFF:
            return _diff(text)
        if len(text) > MAX_HIGHLIGHTED_CHARS:
            return merge([(text, "")])
        spans: list[Span] = []
        at = 0
        if self._open is not None:
            end = text.find(self._open.end)
            at = len(text) if end < 0 else end + len(self._open.end)
            spans.append((text[:at], self._open.style))
            if end < 0:
                return merge(spans)
            self._open = None
        pattern = _pattern(self._language)
        while at < len(text):
            match = pattern.match(text, at)
            if match is None or match.end() == at:
                spans.append((text[at], ""))
                at += 1
                continue
            style, end_sign = _style_of(match, self._language, text)
            at = match.end()
            if end_sign is not None:
                end = text.find(end_sign, at)
                if end < 0:
                    self._open = Open(end_sign, style)
                at = len(text) if end < 0 else end + len(end_sign)
            spans.append((text[match.start() : at], style))
        return merge(spans)


@cache
def _pattern(known: Language) -> re.Pattern[str]:
    """One alternative for each kind of part; the first that fits counts."""
    openers = [opening for opening, _ in (*known.block_comments, *known.long_strings)]
    parts = []
    if openers:
        parts.append("(?P<long>" + "|".join(re.escape(opening) for opening in openers) + ")")
    if known.line_comments:
        signs = "|".join(re.escape(sign) for sign in known.line_comments)
        # `#` and `;` also stand within words, as in $# or http://a#b.
        parts.append(
            rf"(?P<comment>(?<![^\s(){{}};,])(?:{signs}).*)" if "#" in signs else f"(?P<comment>(?:{signs}).*)"
        )
    for number, quote in enumerate(known.strings):
        parts.append(rf"(?P<string{number}>{quote}(?:[^{quote}\\]|\\.)*{quote}?)")
    if known.tags:
        parts.append(r"(?P<tag></?[A-Za-z!][\w:.-]*|/?>)")
    if known.variables:
        parts.append(r"(?P<variable>\$(?:\w+|\{[^}]*\}|[@#?!*$]))")
    parts.append(r"(?P<number>\b(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\b)")
    parts.append(r"(?P<decorator>(?<!\S)@[\w.]+)")
    parts.append(
        r"(?P<word>[#@!.]?[^\W\d][\w-]*[?!]?)" if known.keys or known.tags else r"(?P<word>[#@.]?[^\W\d]\w*\??)"
    )
    parts.append(r"(?P<space>\s+)")
    return re.compile("|".join(parts))


def _style_of(match: re.Match[str], known: Language, line: str) -> tuple[Style, str | None]:
    """The style of a part, and what ends it if that is still to be found."""
    kind = str(match.lastgroup)
    text = match.group()
    if kind == "long":
        comment = dict(known.block_comments).get(text)
        return (COMMENT, comment) if comment is not None else (STRING, dict(known.long_strings)[text])
    if kind.startswith("string"):
        is_key = known.keys and re.match(r"\s*:", line[match.end() :])
        return (NAME if is_key else STRING), None
    fixed = {"comment": COMMENT, "tag": KEYWORD, "variable": NAME, "number": NUMBER, "decorator": TYPE, "space": ""}
    return (_word_style(match, known, line) if kind == "word" else fixed[kind]), None


def _word_style(match: re.Match[str], known: Language, line: str) -> Style:
    word = match.group()
    looked_up = word.lower() if known.ignores_case else word
    before, after = line[: match.start()], line[match.end() :]
    if known.keys and re.match(r"\s*[:=]", after) and not before.strip(" \t-{,"):
        return NAME
    if looked_up in known.keywords:
        return KEYWORD
    if looked_up in known.constants:
        return CONSTANT
    if not known.keywords:
        return NAME if known.tags and after.startswith("=") else ""
    if after.startswith("("):
        return CALL
    if re.search(r"\b(?:class|struct|interface|enum|trait|type)\s+$", before):
        return TYPE
    return TYPE if word[:1].isupper() and not word.isupper() and not known.ignores_case else ""


def _diff(text: str) -> tuple[Span, ...]:
    styles = {"+": STRING, "-": "31", "@": NUMBER}
    return ((text, styles.get(text[:1], "")),) if text else ()
