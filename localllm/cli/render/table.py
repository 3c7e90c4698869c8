"""A table of GitHub's Markdown, in columns that fit the screen. Knows cells, not the table's position."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from localllm.cli.render.cells import Line, Span, Style, join, merge, pad, width, wrap
from localllm.cli.render.inline import spans_of
from localllm.cli.render.theme import BOLD, Theme

LEAST_COLUMN = 4
"""With less room per column, the rows are shown verbatim."""

_DELIMITERS = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*")
_GAP = 3
_RULE = "\N{BOX DRAWINGS LIGHT HORIZONTAL}"
Cells = list[tuple[Span, ...]]


def is_delimiter_row(text: str) -> bool:
    """Whether it is a row like `|---|:-:|`."""
    return "-" in text and ("|" in text or ":" in text) and _DELIMITERS.fullmatch(text) is not None


@lru_cache(maxsize=256)
def split_row(text: str) -> tuple[str, ...]:
    """The cells of a row; a `|` in code or after a backslash is no separator."""
    text = text.strip()
    text = text[1:] if text.startswith("|") else text
    cells = [""]
    in_code = False
    at = 0
    while at < len(text):
        sign = text[at]
        if sign == "\\" and text[at + 1 : at + 2] == "|":
            cells[-1] += "|"
            at += 1
        elif sign == "|" and not in_code:
            cells.append("")
        else:
            if sign == "`":
                in_code = not in_code and "`" in text[at + 1 :]
            cells[-1] += sign
        at += 1
    if len(cells) > 1 and not cells[-1].strip():
        cells.pop()
    return tuple(cell.strip() for cell in cells)


def alignments(delimiters: str) -> list[str]:
    """`left`, `right` or `center`, per column."""
    sides = [(cell.startswith(":"), cell.endswith(":")) for cell in split_row(delimiters)]
    return [{(True, True): "center", (False, True): "right"}.get(side, "left") for side in sides]


class Grid(NamedTuple):
    """The columns of a table. Empty `widths`: there is no room for columns, so rows are shown verbatim."""

    aligned: tuple[str, ...]
    widths: tuple[int, ...]

    @property
    def columns(self) -> int:
        return sum(self.widths) + _GAP * (len(self.widths) - 1)


def grid(header: str, delimiters: str, rows: list[str], columns: int, theme: Theme) -> Grid:
    """The columns for these rows, on a screen of `columns`."""
    aligned = alignments(delimiters)
    count = len(aligned)
    if columns < count * (LEAST_COLUMN + _GAP):
        return Grid(tuple(aligned), ())
    cells = [_cells(row, count, theme, growing=False) for row in (header, *rows)]
    return Grid(tuple(aligned), tuple(_widths(cells, columns - _GAP * (count - 1))))


def header_lines(header: str, delimiters: str, columns: int, shape: Grid, theme: Theme) -> list[Line]:
    """The header, and the rule below it."""
    if not shape.widths:
        return _raw(header, columns, theme) + _raw(delimiters, columns, theme)
    crossing = f"{_RULE}\N{BOX DRAWINGS LIGHT VERTICAL AND HORIZONTAL}{_RULE}"
    rule = crossing.join(_RULE * size for size in shape.widths)
    cells = _cells(header, len(shape.widths), theme, growing=False, base=join(theme.text, BOLD))
    return [*_row_lines(cells, shape, theme), Line(((rule, theme.aside),))]


def row_lines(row: str, columns: int, shape: Grid, theme: Theme, *, growing: bool = False) -> list[Line]:
    """The lines of one row. `growing`: it is still incomplete."""
    if not shape.widths:
        return _raw(row, columns, theme)
    return _row_lines(_cells(row, len(shape.widths), theme, growing=growing), shape, theme)


def _raw(row: str, columns: int, theme: Theme) -> list[Line]:
    return [Line(spans) for spans in wrap([(row.strip(), theme.text)], columns)]


def _cells(row: str, count: int, theme: Theme, *, growing: bool, base: Style | None = None) -> Cells:
    """Exactly `count` cells; excess cells are joined to the last one."""
    texts = list(split_row(row))
    texts[count - 1 :] = [" | ".join(texts[count - 1 :])] if len(texts) >= count else []
    last = len(texts) - 1
    cells = [spans_of(text, theme, growing=growing and place == last, base=base) for place, text in enumerate(texts)]
    return cells + [()] * (count - len(cells))


def _widths(cells: list[Cells], room: int) -> list[int]:
    """The width of each column; if they need too much, the widest shrink until all fit."""
    needs = [max(1, *(_needs(row[place]) for row in cells)) for place in range(len(cells[0]))]
    if sum(needs) <= room:
        return needs
    limit = max(needs)
    while limit > LEAST_COLUMN and sum(min(need, limit) for need in needs) > room:
        limit -= 1
    widths = [min(need, limit) for need in needs]
    for place, need in enumerate(needs):  # hand out what the last step took too much
        if sum(widths) < room and widths[place] < need:
            widths[place] += 1
    return widths


def _needs(cell: tuple[Span, ...]) -> int:
    lines = "".join(text for text, _ in cell).split("\n")
    return max(width(line) for line in lines)


def _row_lines(cells: Cells, shape: Grid, theme: Theme) -> list[Line]:
    wrapped = [wrap(cell, size) for cell, size in zip(cells, shape.widths, strict=True)]
    lines = []
    for number in range(max(len(cell) for cell in wrapped)):
        spans: list[Span] = []
        for place, cell in enumerate(wrapped):
            if place:
                spans.append((" \N{BOX DRAWINGS LIGHT VERTICAL} ", theme.aside))
            part = cell[number] if number < len(cell) else ()
            spans += pad(part, shape.widths[place], align=shape.aligned[place])
        lines.append(Line(_stripped(merge(spans))))
    return lines


def _stripped(spans: tuple[Span, ...]) -> tuple[Span, ...]:
    """Without trailing spaces, which would wrap when the window gets narrower."""
    if not spans:
        return spans
    text, style = spans[-1]
    return merge([*spans[:-1], (text.rstrip(" "), style)])
