"""The blocks that hold text: paragraphs, headings, code, tables. Each renders itself as lines, also while it grows.

Knows neither lists nor quotes: the text before the lines is given as `Margin`.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

from localllm.cli.render.cells import Line, Span, chop, expand_tabs, merge, width, wrap
from localllm.cli.render.highlight import Highlighter
from localllm.cli.render.inline import spans_of
from localllm.cli.render.table import Grid, grid, header_lines, is_delimiter_row, row_lines, split_row
from localllm.cli.render.theme import Theme

MAX_PROSE_COLUMNS = 120
"""Longer lines are hard to read, however wide the window."""
SETTLED_ROWS = 16
"""The rows that determine the widths of a table's columns; a longer table may not fit on the screen for a redraw."""
LEAST_COLUMNS = 8
"""The minimum for a text, however deeply nested."""


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


class Leaf(Protocol):
    """An open block."""

    def copy(self) -> Leaf: ...

    def lines(self, columns: int, *, growing: bool) -> list[Line]:
        """All lines. `growing`: the last one may be incomplete, and more may follow."""


def prose_columns(margin: Margin, columns: int) -> int:
    return margin.room(min(columns, MAX_PROSE_COLUMNS))


class Paragraph:
    """Lines of text. Line ends are kept, for verses and addresses."""

    def __init__(self, theme: Theme, margin: Margin, texts: list[str]) -> None:
        self.theme = theme
        self.margin = margin
        self.texts = texts

    def copy(self) -> Paragraph:
        return Paragraph(self.theme, self.margin, list(self.texts))

    @property
    def size(self) -> int:
        return sum(len(text) for text in self.texts)

    def lines(self, columns: int, *, growing: bool) -> list[Line]:
        if growing and self.texts[-1].startswith("|") and len(split_row(self.texts[-1])) > 1:
            # Show the likely start of a table as one, before its second line confirms it.
            before = Paragraph(self.theme, self.margin, self.texts[:-1]).lines(columns, growing=False)
            margin = Margin(self.margin.rest, self.margin.rest) if before else self.margin
            delimiters = "|" + "---|" * len(split_row(self.texts[-1]))
            return before + Table(self.theme, margin, self.texts[-1], delimiters, []).lines(columns, growing=True)
        if not self.texts:
            return []
        text = "\n".join(one.rstrip(" ") for one in self.texts[:-1])
        text += ("\n" if len(self.texts) > 1 else "") + self.texts[-1]
        spans = spans_of(text, self.theme, growing=growing)
        return self.margin.put([Line(spans) for spans in wrap(spans, prose_columns(self.margin, columns))])


class Heading:
    """A heading."""

    def __init__(self, theme: Theme, margin: Margin, level: int, text: str) -> None:
        self.theme = theme
        self.margin = margin
        self.level = level
        self.text = text

    def copy(self) -> Heading:
        return self

    def lines(self, columns: int, *, growing: bool) -> list[Line]:
        style = self.theme.titles[min(self.level, len(self.theme.titles)) - 1]
        spans = spans_of(self.text, self.theme, growing=growing, base=style)
        return self.margin.put([Line(spans) for spans in wrap(spans, prose_columns(self.margin, columns))])


class Table:
    """A table. The first rows determine the widths of its columns; from then on each row is final at once."""

    def __init__(self, theme: Theme, margin: Margin, header: str, delimiters: str, rows: list[str]) -> None:
        self.theme = theme
        self.margin = margin
        self.header = header
        self.delimiters = delimiters
        self.rows = rows
        self._settled: Grid | None = None

    def copy(self) -> Table:
        twin = Table(self.theme, self.margin, self.header, self.delimiters, list(self.rows))
        twin._settled = self._settled
        return twin

    @staticmethod
    def begins(header: str, delimiters: str) -> bool:
        """Whether these two lines begin a table."""
        return "|" in header and is_delimiter_row(delimiters) and len(split_row(header)) == len(split_row(delimiters))

    def settle(self, columns: int) -> list[Line]:
        """The lines that are final now, and no longer part of `lines`."""
        if self._settled is None and len(self.rows) < SETTLED_ROWS:
            return []
        lines = self.lines(columns, growing=False)
        self._settled = self._grid(columns)
        self.margin = Margin(self.margin.rest, self.margin.rest)
        self.rows = []
        return lines

    def lines(self, columns: int, *, growing: bool) -> list[Line]:
        room = self.margin.room(columns)
        shape = self._grid(columns)
        lines = [] if self._settled else header_lines(self.header, self.delimiters, room, shape, self.theme)
        for number, row in enumerate(self.rows):
            is_open = growing and number == len(self.rows) - 1
            lines += row_lines(row, room, shape, self.theme, growing=is_open)
        return self.margin.put(lines)

    def _grid(self, columns: int) -> Grid:
        room = self.margin.room(columns)
        if self._settled is not None and self._settled.columns <= room:
            return self._settled
        return grid(self.header, self.delimiters, self.rows, room, self.theme)


class Code:
    """A fenced block. Complete lines are final at once; long ones wrap on the screen, but not when copied."""

    def __init__(self, theme: Theme, margin: Margin, fence: str, info: str, indent: int) -> None:
        self.theme = theme
        self.margin = margin
        self.fence = fence
        self.info = info.strip()
        self.indent = indent
        self._highlighter = Highlighter(re.split(r"[\s{}.,:]+", self.info.lstrip("{. "))[0])

    def copy(self) -> Code:
        twin = Code(self.theme, self.margin, self.fence, self.info, self.indent)
        twin._highlighter = self._highlighter.copy()
        return twin

    def opening(self, columns: int) -> list[Line]:
        """The rule above the code, with its language."""
        lines = self._rule(self.info, columns)
        self.margin = Margin(self.margin.rest, self.margin.rest)
        return lines

    def closing(self, columns: int) -> list[Line]:
        """The rule below the code."""
        return self._rule("", columns)

    def take(self, text: str, columns: int) -> list[Line]:
        """The next line of code, as it is in the answer."""
        blank = len(text) - len(text.lstrip(" "))
        spans = self._highlighter.line(expand_tabs(text[min(blank, self.indent) :]))
        if not self.theme.is_coloured:
            spans = tuple((part, self.theme.code) for part, _ in spans)
        rows = chop([*self.margin.rest, *spans], columns + 1)  # up to the very edge, where the terminal itself wraps
        return [Line(tuple(row), soft=number < len(rows) - 1) for number, row in enumerate(rows)]

    def closes(self, text: str) -> bool:
        """Whether `text` is the closing fence."""
        return len(text.strip()) >= len(self.fence) and set(text.strip()) == {self.fence[0]}

    def may_close(self, text: str) -> bool:
        """Whether `text` may still become the closing fence."""
        return set(text.strip()) <= {self.fence[0]}

    def lines(self, columns: int, *, growing: bool) -> list[Line]:  # noqa: ARG002
        return []

    def _rule(self, label: str, columns: int) -> list[Line]:
        bar = "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * 3
        (first, *_) = chop([(f"{bar} {label}" if label else bar, self.theme.aside)], self.margin.room(columns))
        return self.margin.put([Line(tuple(first))])
