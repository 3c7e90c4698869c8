"""Styled text on a grid of columns: widths and line breaks. Knows no Markdown and no terminal.

A style is the part between `ESC [` and `m`, e.g. `1;36`; empty: plain. Widths are upper bounds over all terminals, so
that no line is ever longer than computed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

Style = str
Span = tuple[str, Style]

TAB_COLUMNS = 4

_ONE_COLUMN = re.compile(
    "[ -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0373\u0384-\u0386\u0388-\u038a\u0391-\u03a1\u03a3-\u0482\u048a-\u052f"
    "\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2190-\u21ff\u2200-\u22ff\u2500-\u25fc\u00a0]*"
)
"""Characters that take one column in any context; others are looked up in wcwidth, which has to be imported."""

_IDEOGRAPH = (
    "[\u1100-\u115f\u2e80-\u2fff\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff01-\uff60\U00020000-\U0003fffd]"
)
_CLOSES = "[\u3001\u3002\u300b\u300d\u300f\u3011\u3015\u30fb\u30fc\uff01\uff09\uff0c\uff0e\uff1a\uff1b\uff1f\uff5d]"
_PARTS = re.compile(f"\n| +|{_IDEOGRAPH}{_CLOSES}*|(?:(?!{_IDEOGRAPH})[^ \n])+")
"""Line ends, spaces, words, and ideographs: a line may break after each, but not before closing punctuation."""

_IS_IDEOGRAPH = re.compile(_IDEOGRAPH)
_EMOJI_STYLE = "\ufe0f"


class Line(NamedTuple):
    """One row of the screen. `soft`: the next row continues it, so that copied text has no line end between them."""

    spans: tuple[Span, ...] = ()
    soft: bool = False

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.spans)


def join(style: Style, more: Style) -> Style:
    """Both styles combined."""
    return f"{style};{more}" if style and more else style or more


def is_certain(text: str) -> bool:
    """Whether all terminals agree on the width."""
    return _ONE_COLUMN.fullmatch(text) is not None


def width(text: str) -> int:
    """The maximum number of columns that `text`, without control characters, takes."""
    if is_certain(text):
        return len(text)
    return sum(_columns(character) for character in text)


@lru_cache(maxsize=4096)
def _columns(character: str) -> int:
    from wcwidth import wcwidth

    if character == _EMOJI_STYLE:  # on some terminals it makes a narrow character wide
        return 1
    return max(0, wcwidth(character))


def merge(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same text in as few spans as possible."""
    merged: list[Span] = []
    for text, style in spans:
        if not text:
            continue
        if merged and merged[-1][1] == style:
            merged[-1] = (merged[-1][0] + text, style)
        else:
            merged.append((text, style))
    return tuple(merged)


def expand_tabs(text: str) -> str:
    """Replace tabs by spaces, as at the start of a line."""
    return text.expandtabs(TAB_COLUMNS)


def wrap(spans: Iterable[Span], columns: int) -> list[tuple[Span, ...]]:
    """Break into lines of at most `columns`, at words if they fit, without trailing spaces. At least one line."""
    return list(_wrap(tuple(spans), max(2, columns)))  # an ideograph takes two columns


@lru_cache(maxsize=512)
def _wrap(spans: tuple[Span, ...], columns: int) -> tuple[tuple[Span, ...], ...]:
    lines: list[list[Span]] = [[]]
    used = 0
    space: Span | None = None
    for kind, parts in _pieces(spans):
        if kind == "\n":
            lines.append([])
            used, space = 0, None
            continue
        if kind == " ":
            space = parts[0] if used else None
            continue
        needs = sum(width(text) for text, _ in parts)
        gap = len(space[0]) if space is not None else 0
        if used and used + gap + needs > columns:
            lines.append([])
            used, gap, space = 0, 0, None
        if space is not None and used + gap < columns:
            lines[-1].append(space)
            used += gap
        space = None
        if used + needs <= columns:
            lines[-1] += parts
            used += needs
            continue
        for number, row in enumerate(chop(parts, columns - used)):
            if number:
                lines.append([])
                used = 0
            lines[-1] += row
            used += sum(width(text) for text, _ in row)
    return tuple(merge(line) for line in lines)


def _pieces(spans: Iterable[Span]) -> Iterator[tuple[str, list[Span]]]:
    """Unbreakable pieces: words, maybe in several styles, and ideographs (both `""`); spaces and line ends."""
    word: list[Span] = []
    for text, style in spans:
        for match in _PARTS.finditer(text):
            part = match.group()
            is_space = part[0] in " \n"
            if not is_space and _IS_IDEOGRAPH.match(part) is None:
                word.append((part, style))
                continue
            if word:
                yield "", word
                word = []
            yield part[0] if is_space else "", [(part, style)]
    if word:
        yield "", word


def chop(spans: Iterable[Span], columns: int) -> list[list[Span]]:
    """Cut into rows of at most `columns`, anywhere. At least one row."""
    columns = max(2, columns)
    rows: list[list[Span]] = [[]]
    used = 0
    for text, style in spans:
        if used + width(text) <= columns:
            rows[-1].append((text, style))
            used += width(text)
            continue
        for character in text:
            needs = width(character)
            if used + needs > columns:
                rows.append([])
                used = 0
            rows[-1].append((character, style))
            used += needs
    return [list(merge(row)) for row in rows]


def pad(spans: Sequence[Span], columns: int, *, align: str = "left") -> list[Span]:
    """Pad with spaces to `columns`."""
    missing = max(0, columns - sum(width(text) for text, _ in spans))
    before = {"left": 0, "right": missing, "center": missing // 2}[align]
    return [(" " * before, ""), *spans, (" " * (missing - before), "")]


def ansi(spans: Iterable[Span]) -> str:
    """The escape sequences for a terminal; every style is reset after its text."""
    return "".join(f"\x1b[{style}m{text}\x1b[0m" if style else text for text, style in spans)
