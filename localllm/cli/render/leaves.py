"""The blocks that hold text, as lines. Knows neither lists nor quotes: what precedes the lines is given as `Margin`."""

from __future__ import annotations

import re
from copy import copy
from functools import lru_cache
from typing import NamedTuple

from localllm.cli.render.highlight import Highlighter
from localllm.cli.render.inline import PARSER, spans_of
from localllm.cli.render.table_cells import Line, Span, chop, expand_tabs, merge, width, wrap
from localllm.cli.render.theme import Theme

MAX_PROSE_COLUMNS = 120
"""Longer lines are hard to read, however wide the window."""
LEAST_COLUMNS = 8
"""The minimum for a text, however deeply nested."""

_BAR = "\N{BOX DRAWINGS LIGHT HORIZONTAL}"


class Margin(NamedTuple):
    """The text before a block's first line, and before its other lines; equally wide."""

    first: tuple[Span, ...] = ()
    rest: tuple[Span, ...] = ()

    def room(self, columns: int) -> int:
        """The columns that remain for the text."""
        return max(LEAST_COLUMNS, columns - sum(width(text) for text, _ in self.rest))

    def put(self, lines: list[Line]) -> list[Line]:
        """`lines` with this margin."""
        return [Line(merge([*(self.rest if number else self.first), *line.spans])) for number, line in enumerate(lines)]


class Leaf(NamedTuple):
    """A block by its lines in the answer. `text`: its content, or what follows an opening fence."""

    kind: str
    lines: tuple[str, ...]
    text: str = ""
    level: int = 0
    fence: str = ""


@lru_cache(maxsize=64)
def leaves_of(lines: tuple[str, ...]) -> list[Leaf]:
    """The blocks that these lines are."""
    tokens = PARSER.block.parse("\n".join(lines), PARSER, {}, []) or []
    found = []
    for place, token in enumerate(tokens):
        if token.level == 0 and token.nesting >= 0 and token.map is not None:
            own = lines[slice(*token.map)]
            text = tokens[place + 1].content if token.nesting else token.info
            if token.type == "paragraph_open":  # with the spaces at its end, where a growing text goes on
                text = "\n".join(own).lstrip()
            level = int(token.tag[1]) if token.type == "heading_open" else 0
            found.append(Leaf(token.type, own, text, level, token.markup))
    return found


def prose_lines(leaf: Leaf, margin: Margin, columns: int, theme: Theme, *, growing: bool) -> list[Line]:
    """A paragraph, whose line ends are kept, for verses and addresses; a heading; a rule."""
    room = margin.room(min(columns, MAX_PROSE_COLUMNS))
    if leaf.kind == "hr":
        return [Line(((_BAR * room, theme.aside),))]
    base = theme.titles[min(leaf.level, len(theme.titles)) - 1] if leaf.level else None
    return [Line(spans) for spans in wrap(spans_of(leaf.text, theme, growing=growing, base=base), room)]


class Code:
    """A fenced block. Complete lines are final immediately; long ones wrap on the screen, but not when copied."""

    def __init__(self, theme: Theme, margin: Margin, fence: str, info: str, indent: int) -> None:
        self.theme = theme
        self.margin = margin
        self.fence = fence
        self.info = info.strip()
        self.indent = indent
        self.highlighter = Highlighter(re.split(r"[\s{}.,:]+", self.info.lstrip("{. "))[0])

    def copy(self) -> Code:
        twin = copy(self)
        twin.highlighter = self.highlighter.copy()
        return twin

    def rule(self, label: str, columns: int) -> list[Line]:
        """The rule above the code, with its language, or below it."""
        (first, *_) = chop([(f"{_BAR * 3} {label}".rstrip(), self.theme.aside)], self.margin.room(columns))
        lines = self.margin.put([Line(tuple(first))])
        self.margin = Margin(self.margin.rest, self.margin.rest)
        return lines

    def take(self, text: str, columns: int) -> list[Line]:
        """The next line of code, as it is in the answer."""
        blank = len(text) - len(text.lstrip(" "))
        spans = self.highlighter.line(expand_tabs(text[min(blank, self.indent) :]))
        if not self.theme.is_coloured:
            spans = tuple((part, self.theme.code) for part, _ in spans)
        rows = chop([*self.margin.rest, *spans], columns + 1)  # up to the very edge, where the terminal itself wraps
        return [Line(tuple(row), soft=number < len(rows) - 1) for number, row in enumerate(rows)]

    def closes(self, text: str) -> bool:
        """Whether `text` is the closing fence."""
        return len(text.strip()) >= len(self.fence) and set(text.strip()) == {self.fence[0]}
