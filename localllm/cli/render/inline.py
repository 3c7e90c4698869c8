r"""Emphasis, code, links: the text of one block as styled spans. Knows no blocks and no width.

Follows CommonMark 0.31 (https://spec.commonmark.org), adapted to chat models: line ends are kept; `\(`, `\[` and `$$`
open formulas, which are shown verbatim. In a text that is still growing, open emphasis and code are assumed to be
closed later.
"""

from __future__ import annotations

import html
import re
from functools import lru_cache
from typing import NamedTuple

from localllm.cli.render.cells import Span, Style, join, merge
from localllm.cli.render.theme import BOLD, ITALIC, STRIKE, Theme

MAX_LINK_DEPTH = 3

_SPECIAL = re.compile(r"[\\`*_~\[!<&$\n]|\bhttps?://")
_ASCII_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_AUTOLINK = re.compile(r"<((?:https?|ftp|mailto):[^\s<>]*|[\w.+-]+@[\w-]+(?:\.[\w-]+)+)>")
_BARE_LINK = re.compile(r"https?://[^\s<>\"`|]+")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_ADDRESS = re.compile(r"\(\s*(<[^<>\n]*>|(?:[^\s()]|\([^\s()]*\))*)(?:\s+(?:\"[^\"]*\"|'[^']*'|\([^()]*\)))?\s*\)")
_OPEN_ADDRESS = re.compile(r"\(\s*[^\s()]*(?:\([^\s()]*)?\s*\Z")
_UNFINISHED = re.compile(r"(?:[*_~`\\]+|<b?r?\s*/?|&[#\w]{0,10})\Z", re.IGNORECASE)
"""The end of a growing text that may still become markup, and is not shown yet."""
_FORMULAS = {"\\(": "\\)", "\\[": "\\]", "$$": "$$"}


class _Run:
    """Text in one style, or the unmatched rest of a run of `*`, `_` or `~`."""

    def __init__(self, text: str, style: Style = "", *, opens: bool = False, closes: bool = False) -> None:
        self.text = text
        self.styles: list[Style] = [style] if style else []
        self.opens = opens
        self.closes = closes
        self.length = len(text)

    def may_close(self, opener: _Run) -> bool:
        if not self.text or not opener.text or opener.text[0] != self.text[0]:
            return False
        if self.text[0] == "~":
            return len(self.text) == len(opener.text) == 2
        # CommonMark's rules 9 and 10, for cases like `*a**b*`.
        both_ways = (opener.opens and opener.closes) or (self.opens and self.closes)
        sums = (self.length + opener.length) % 3 == 0 and (self.length % 3 or opener.length % 3)
        return not (both_ways and sums)


class _Found(NamedTuple):
    runs: list[_Run]
    end: int


@lru_cache(maxsize=512)
def spans_of(text: str, theme: Theme, *, growing: bool, base: Style | None = None) -> tuple[Span, ...]:
    """`text` without its markup. `growing`: more text will follow."""
    if growing:
        text = _UNFINISHED.sub("", text)
    style = theme.text if base is None else base
    runs = _Reader(text, theme, growing=growing).runs()
    return merge((run.text, _all(style, run.styles)) for run in runs)


def _all(style: Style, more: list[Style]) -> Style:
    for one in dict.fromkeys(more):
        style = join(style, one)
    return style


class _Reader:
    """Reads a text from left to right, then pairs emphasis, whose ends depend on everything else."""

    def __init__(self, text: str, theme: Theme, *, growing: bool, depth: int = 0) -> None:
        self.text = text
        self.theme = theme
        self.growing = growing
        self.depth = depth
        self._closed: dict[int, int] | None = None

    def runs(self) -> list[_Run]:
        runs: list[_Run] = []
        at = 0
        while at < len(self.text):
            special = _SPECIAL.search(self.text, at)
            if special is None:
                runs.append(_Run(self.text[at:]))
                break
            if special.start() > at:
                runs.append(_Run(self.text[at : special.start()]))
            found = self._special(special.start())
            runs += found.runs
            at = found.end
        _emphasize(runs)
        if self.growing:
            _close_at_end(runs)
        return runs

    def _special(self, at: int) -> _Found:
        """The construct at `at`, or one character of text."""
        sign = self.text[at]
        found: _Found | None = None
        if sign == "`":
            return self._code(at)
        if sign in "*_~":
            return self._emphasis(at)
        if sign in "\\$":
            found = self._formula(at) or self._escape(at)
        elif sign == "[" or self.text.startswith("![", at):
            found = self._link(at)
        elif sign == "<":
            found = self._angle(at)
        elif sign == "&":
            found = self._entity(at)
        elif sign == "h":
            found = self._bare_link(at)
        elif sign == "\n":
            return _Found([_Run("\n")], at + 1)
        return found or _Found([_Run(sign)], at + 1)

    def _code(self, at: int) -> _Found:
        ticks = len(self.text[at:]) - len(self.text[at:].lstrip("`"))
        start = at + ticks
        close = re.compile(f"(?<!`){'`' * ticks}(?!`)").search(self.text, start)
        if close is not None:
            code = self.text[start : close.start()]
            if code.startswith(" ") and code.endswith(" ") and code.strip():
                code = code[1:-1]
            return _Found([_Run(code, self.theme.code)], close.end())
        if self.growing and "\n" not in self.text[start:]:
            return _Found([_Run(self.text[start:].lstrip(), self.theme.code)], len(self.text))
        return _Found([_Run(self.text[at:start])], start)

    def _formula(self, at: int) -> _Found | None:
        opening = self.text[at : at + 2]
        closing = _FORMULAS.get(opening)
        if closing is None:
            return None
        end = self.text.find(closing, at + 2)
        if end >= 0:
            return _Found([_Run(self.text[at : end + 2])], end + 2)
        if self.growing:
            return _Found([_Run(self.text[at:])], len(self.text))
        return _Found([_Run(opening)], at + 2)

    def _escape(self, at: int) -> _Found | None:
        escaped = self.text[at + 1 : at + 2]
        if self.text[at] != "\\" or not escaped:
            return None
        if escaped == "\n":
            return _Found([_Run("\n")], at + 2)
        if escaped in _ASCII_PUNCTUATION and escaped not in "()[]":
            return _Found([_Run(escaped)], at + 2)
        return None

    def _link(self, at: int) -> _Found | None:
        """`[text](URL)` or an image: the text, and the URL if it differs, since a link may mislead."""
        is_image = self.text[at] == "!"
        start = at + 1 + is_image
        if self._closed is None:
            self._closed = _brackets(self.text)
        end = self._closed.get(start - 1)
        if end is None or self.depth >= MAX_LINK_DEPTH:
            return None
        address = _ADDRESS.match(self.text, end + 1)
        if address is None and not (self.growing and _OPEN_ADDRESS.match(self.text, end + 1)):
            return None
        inner = _Reader(self.text[start:end], self.theme, growing=False, depth=self.depth + 1).runs()
        for run in inner:
            run.styles.append(self.theme.link)
        label = [_Run("image: ", self.theme.aside)] if is_image else []
        if address is None:
            return _Found([*label, *inner], len(self.text))
        target = address[1].strip("<>")
        said = "".join(run.text for run in inner)
        if not target or target in (said, f"mailto:{said}"):
            return _Found([*label, *inner], address.end())
        shown = [_Run(" (", self.theme.aside), _Run(target, self.theme.aside), _Run(")", self.theme.aside)]
        return _Found([*label, *inner, *shown], address.end())

    def _angle(self, at: int) -> _Found | None:
        if match := _BREAK.match(self.text, at):
            return _Found([_Run("\n")], match.end())
        if match := _AUTOLINK.match(self.text, at):
            return _Found([_Run(match[1], self.theme.link)], match.end())
        return None

    def _entity(self, at: int) -> _Found | None:
        match = _ENTITY.match(self.text, at)
        if match is None:
            return None
        # Numeric entities can stand for control characters, which a terminal would obey.
        text = "".join(character for character in html.unescape(match[0]) if character.isprintable())
        return _Found([_Run(text or match[0])], match.end())

    def _bare_link(self, at: int) -> _Found | None:
        match = _BARE_LINK.match(self.text, at)
        if match is None:
            return None
        address = match[0].rstrip("*_~.,;:!?'")
        if address.endswith(")") and address.count("(") < address.count(")"):
            address = address.rstrip(")")
        return _Found([_Run(address, self.theme.link)], at + len(address))

    def _emphasis(self, at: int) -> _Found:
        sign = self.text[at]
        end = at
        while end < len(self.text) and self.text[end] == sign:
            end += 1
        before, after = self.text[at - 1 : at], self.text[end : end + 1]
        left = _is_flanking(after, before)
        right = _is_flanking(before, after)
        if sign == "_":
            opens = left and (not right or _is_punctuation(before))
            closes = right and (not left or _is_punctuation(after))
        else:
            opens, closes = left, right
        return _Found([_Run(self.text[at:end], opens=opens, closes=closes)], end)


def _is_flanking(inside: str, outside: str) -> bool:
    """Whether a delimiter run flanks the character `inside`, as CommonMark defines it."""
    if not inside or inside.isspace():
        return False
    return not _is_punctuation(inside) or not outside or outside.isspace() or _is_punctuation(outside)


def _is_punctuation(character: str) -> bool:
    return bool(character) and not character.isalnum() and not character.isspace()


def _brackets(text: str) -> dict[int, int]:
    """The closing bracket of each `[`, ignoring code spans and escaped brackets."""
    closed: dict[int, int] = {}
    opened: list[int] = []
    at = 0
    while at < len(text):
        sign = text[at]
        if sign == "\\":
            at += 1
        elif sign == "`":
            ticks = len(text[at:]) - len(text[at:].lstrip("`"))
            close = text.find("`" * ticks, at + ticks)
            at = close + ticks - 1 if close >= 0 else at + ticks - 1
        elif sign == "[":
            opened.append(at)
        elif sign == "]" and opened:
            closed[opened.pop()] = at
        at += 1
    return closed


def _emphasize(runs: list[_Run]) -> None:
    """Pair openers with closers, innermost first, and style the text between them."""
    openers: list[int] = []
    for index, closer in enumerate(runs):
        while closer.closes and closer.text:
            place = next((place for place in reversed(openers) if closer.may_close(runs[place])), None)
            if place is None:
                break
            _style(runs, place, index)
            del openers[openers.index(place) + (1 if runs[place].text else 0) :]
        if closer.opens and closer.text:
            openers.append(index)


def _style(runs: list[_Run], opener: int, closer: int) -> None:
    count = 2 if min(len(runs[opener].text), len(runs[closer].text)) >= 2 else 1
    style = STRIKE if runs[opener].text[0] == "~" else (BOLD if count == 2 else ITALIC)
    for run in runs[opener + 1 : closer]:
        run.styles.append(style)
    runs[opener].text = runs[opener].text[count:]
    runs[closer].text = runs[closer].text[count:]


def _close_at_end(runs: list[_Run]) -> None:
    """Style the text after openers in the last line, as if they were closed at its end."""
    last_line = max((index for index, run in enumerate(runs) if run.text == "\n"), default=-1) + 1
    for index in range(last_line, len(runs)):
        run = runs[index]
        inside_a_word = run.opens and run.closes
        if not run.opens or not run.text or inside_a_word or len(run.text) > 3 or index == len(runs) - 1:
            continue
        if run.text[0] == "~" and len(run.text) != 2:
            continue
        styles = [STRIKE] if run.text[0] == "~" else [BOLD] * (len(run.text) > 1) + [ITALIC] * (len(run.text) % 2)
        run.text = ""
        for later in runs[index + 1 :]:
            later.styles += styles
