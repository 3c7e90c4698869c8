"""A table of GitHub's Markdown, in columns that fit the screen. Knows cells, not the table's position."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from localllm.cli.render.inline import spans_of
from localllm.cli.render.table_cells import Line, Span, Style, join, merge, pad, width, wrap
from localllm.cli.render.theme import BOLD, Theme

LEAST_COLUMN = 4
"""With less room per column, the rows are shown verbatim."""

_SEPARATOR = re.compile(r"(\\\||`[^`]*`)|\|")
_GAP = 3
_RULE = "\N{BOX DRAWINGS LIGHT HORIZONTAL}"
Cells = list[tuple[Span, ...]]


@lru_cache(maxsize=256)
def split_row(text: str) -> tuple[str, ...]:
    """The cells of a row; a `|` in code or after a backslash is no separator."""
    text = text.strip().removeprefix("|")
    cells = _SEPARATOR.sub(lambda match: match[1].replace("\\|", "|") if match[1] else "\0", text).split("\0")
    return tuple(cell.strip() for cell in (cells[:-1] if len(cells) > 1 and not cells[-1].strip() else cells))


class Grid(NamedTuple):
    """The columns of a table on a screen with `room` for them. Empty `widths`: too little, rows are shown verbatim."""

    aligned: tuple[str, ...]
    widths: tuple[int, ...]
    room: int


def grid(rows: tuple[str, ...], room: int, theme: Theme) -> Grid:
    """The columns for these rows, of which the second is like `|---|:-:|`."""
    sides = [(cell.startswith(":"), cell.endswith(":")) for cell in split_row(rows[1])]
    aligned = tuple({(True, True): "center", (False, True): "right"}.get(side, "left") for side in sides)
    if room < len(sides) * (LEAST_COLUMN + _GAP):
        return Grid(aligned, (), room)
    cells = [_cells(row, len(sides), theme) for row in (rows[0], *rows[2:])]
    return Grid(aligned, tuple(_widths(cells, room - _GAP * (len(sides) - 1))), room)


def header_lines(rows: tuple[str, ...], shape: Grid, theme: Theme) -> list[Line]:
    """The header, and the rule below it."""
    if not shape.widths:
        return [line for row in rows[:2] for line in row_lines(row, shape, theme)]
    crossing = f"{_RULE}\N{BOX DRAWINGS LIGHT VERTICAL AND HORIZONTAL}{_RULE}"
    rule = crossing.join(_RULE * size for size in shape.widths)
    return [*row_lines(rows[0], shape, theme, base=join(theme.text, BOLD)), Line(((rule, theme.aside),))]


def row_lines(row: str, shape: Grid, theme: Theme, *, growing: bool = False, base: Style | None = None) -> list[Line]:
    """The lines of one row. `growing`: it is still incomplete."""
    if not shape.widths:
        return [Line(spans) for spans in wrap([(row.strip(), theme.text)], shape.room)]
    cells = _cells(row, len(shape.widths), theme, growing=growing, base=base)
    wrapped = [wrap(cell, size) for cell, size in zip(cells, shape.widths, strict=True)]
    lines = []
    for number in range(max(len(cell) for cell in wrapped)):
        spans: list[Span] = []
        for place, cell in enumerate(wrapped):
            part = cell[number] if number < len(cell) else ()
            spans += [(" \N{BOX DRAWINGS LIGHT VERTICAL} ", theme.aside)] if place else []
            spans += pad(part, shape.widths[place], align=shape.aligned[place])
        *before, (text, style) = merge(spans)
        lines.append(
            Line(merge([*before, (text.rstrip(" "), style)]))
        )  # trailing spaces would wrap in a narrower window
    return lines


def _cells(row: str, count: int, theme: Theme, *, growing: bool = False, base: Style | None = None) -> Cells:
    """Exactly `count` cells; excess cells are joined to the last one."""
    texts = list(split_row(row))
    texts[count - 1 :] = [" | ".join(texts[count - 1 :])] if len(texts) >= count else []
    last = len(texts) - 1
    cells = [spans_of(text, theme, growing=growing and place == last, base=base) for place, text in enumerate(texts)]
    return cells + [()] * (count - len(cells))


def _widths(cells: list[Cells], room: int) -> list[int]:
    """The width of each column; if they need too much, the widest shrink until all fit."""
    needs = [max(1, *(_needs(cell) for cell in column)) for column in zip(*cells, strict=True)]
    limit = max(needs)
    while limit > LEAST_COLUMN and sum(min(need, limit) for need in needs) > room:
        limit -= 1
    widths = [min(need, limit) for need in needs]
    for place, need in enumerate(needs):  # hand out what the last step took too much
        widths[place] += sum(widths) < room and widths[place] < need
    return widths


def _needs(cell: tuple[Span, ...]) -> int:
    return max(width(line) for line in "".join(text for text, _ in cell).split("\n"))
