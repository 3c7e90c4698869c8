r"""Markdown's blocks, line by line: finished lines are returned once, the open block can be previewed at any time.

markdown-it says what kind of block lines are. Lists and quotes are ours: a growing one cannot be parsed again for each
new piece, and models are careless with indentation. References (`[a]: URL`), footnotes and HTML are shown verbatim.
"""

from __future__ import annotations

import re
from copy import copy
from typing import NamedTuple

from localllm.cli.render.leaves import Code, Leaf, Margin, leaves_of, prose_lines
from localllm.cli.render.table import Grid, grid, header_lines, row_lines, split_row
from localllm.cli.render.table_cells import Line, Span, expand_tabs, merge
from localllm.cli.render.theme import ANSWER, Theme
from localllm.system.printable import printable

MAX_LIVE_CHARS = 2000
"""Longer paragraphs are split, since the open block is rendered again for each new piece of the answer."""
MAX_DEPTH = 12
"""Maximum nesting of lists and quotes; deeper ones are text."""
SETTLED_ROWS = 16
"""The rows that determine the widths of a table's columns; a longer table may not fit on the screen for a redraw."""

_PIECE = re.compile(rf".{{1,{MAX_LIVE_CHARS - 1}}}(?: |$)|.{{{MAX_LIVE_CHARS}}}")
_RULE = re.compile(r" {0,3}([-*_])(?: *\1){2,} *")
_ITEM = re.compile(r"( *)([-*+]|\d{1,9}[.)])( +|$)")
_TASK = re.compile(r"\[([ xX])\] ")
_QUOTE = re.compile(r" *> ?")
_UNDECIDED = re.compile(
    r"[\s>]*(?:(?:[-*+]|\d{1,9}[.)])\s+)*(?:\[[ xX]?\]?\s*)?(?:[-*+_=#`~|: ]*|\d{1,9}[.)]?|(?:`{3}|~{3})[^`]*)\s*"
)
"""The start of a line that may still become any kind of block, and is not shown yet."""
_BULLETS = "\N{BULLET}\N{WHITE BULLET}\N{BLACK SMALL SQUARE}"
_BAR = "\N{BOX DRAWINGS LIGHT VERTICAL} "


class Container(NamedTuple):
    """A quote, or an item of a list: what precedes its lines, in the answer and on the screen."""

    first: Span
    rest: Span
    indent: int | None = None
    """The column of an item's marker; None: a quote."""
    content: int = 0
    """The column of an item's text."""
    number: int | None = None


class Document:
    """One text. `feed` and `flush` return final lines; `preview` returns what follows them on the screen for now."""

    def __init__(self, theme: Theme = ANSWER) -> None:
        self.theme = theme
        self._partial = ""
        self._is_rest = False
        """Whether the start of the open line is already final, because the line was too long."""
        self._containers: tuple[Container, ...] = ()
        self._margin = Margin()
        self._leaf: Leaf | None = None
        self._shape: Grid | None = None
        """Of the open table, once its first lines are final."""
        self._code: Code | None = None
        self._blank = self._has_content = False
        """Whether empty lines precede the next block, and whether anything precedes those."""

    def feed(self, text: str, columns: int) -> list[Line]:
        """Add text; returns the lines finished by it, at most `columns` wide (code: one more)."""
        *lines, partial = (self._partial + text).split("\n")
        finished: list[Line] = []
        for line in lines:
            rest = self._rest(line, columns, finished)
            finished += self._line(rest, columns)
            self._is_rest = False
        self._partial = self._rest(partial, columns, finished)
        return self._placed(finished)

    def flush(self, columns: int) -> list[Line]:
        """Return the remaining lines; no more text may follow."""
        finished = self._line(self._partial, columns) if self._partial else []
        self._partial = ""
        return self._placed(finished + self._close(columns))

    def preview(self, columns: int) -> list[Line]:
        """The lines of the open block, as they will probably look."""
        twin = copy(self)
        twin._code = self._code.copy() if self._code is not None else None
        is_shown = self._partial and (self._is_rest or not self._is_undecided())
        lines = twin._line(self._partial, columns) if is_shown else []
        return self._placed(lines + twin._leaf_lines(columns, growing=True))

    def _is_undecided(self) -> bool:
        """Whether the open line may still become any kind of block."""
        if self._code is not None:
            return set(self._partial.strip()) <= {self._code.fence[0]}
        return _UNDECIDED.fullmatch(self._partial) is not None

    def _placed(self, lines: list[Line]) -> list[Line]:
        gutter = self.theme.gutter
        return [Line(merge([*gutter, *line.spans]), line.soft) for line in lines] if gutter else lines

    def _rest(self, text: str, columns: int, finished: list[Line]) -> str:
        """The end of a line; what precedes it, if the line is too long, is made final and added to `finished`."""
        rest: str
        *pieces, rest = _PIECE.findall(text) or [""]
        for piece in pieces:
            finished += self._line(piece, columns)
            finished += [] if self._code else self._close(columns)
            self._is_rest = True
        return rest

    def _line(self, text: str, columns: int) -> list[Line]:
        text = printable(text.rstrip("\r"))
        if self._code is not None:
            return self._code_line(self._code, text, columns)
        text = expand_tabs(text)
        if self._is_rest:
            return self._begin(Leaf("paragraph_open", (text.lstrip(),), text.lstrip()), columns)
        matched, rest = self._continued(text)
        if not rest.strip():
            closed = self._close(columns)
            self._blank = True
            self._containers = self._containers[:matched]
            return closed
        opened, rest = self._opened(matched, rest)
        is_inside = matched == len(self._containers) and not opened
        added = self._added(self._leaf, rest, columns, is_inside=is_inside) if self._leaf and not opened else None
        if added is not None:
            return added
        finished = self._close(columns)
        self._containers = self._containers[:matched]
        if self._blank and self._has_content:  # one empty line for any number of empty lines
            finished.append(Line(merge([container.rest for container in self._containers if container.indent is None])))
        self._blank, self._has_content = False, True
        rests = merge(container.rest for container in (*self._containers, *opened))
        self._margin = Margin(merge([*(one.rest for one in self._containers), *(one.first for one in opened)]), rests)
        self._containers += opened
        if not rest.strip():
            return finished + self._put([Line()])
        stripped = rest.lstrip(" ")
        indent = len(rest) - len(stripped) + sum(container.content for container in self._containers)
        is_lenient = self._containers or stripped.startswith(("```", "~~~"))
        (leaf,) = leaves_of((stripped if is_lenient else rest,))
        return finished + self._begin(leaf, columns, indent)

    def _continued(self, text: str) -> tuple[int, str]:
        """How many of the open containers the line continues, and the rest of the line."""
        for number, container in enumerate(self._containers):
            if container.indent is None:
                mark = _QUOTE.match(text)
                if mark is None:
                    return number, text
                text = text[mark.end() :]
            elif text.strip():
                indent = len(text) - len(text.lstrip(" "))
                if indent < min(container.content, container.indent + 2):
                    return number, text
                text = text[min(indent, container.content) :]
        return len(self._containers), text

    def _opened(self, matched: int, text: str) -> tuple[tuple[Container, ...], str]:
        """The containers that begin on this line, and the rest of the line."""
        opened: list[Container] = []
        is_in_text = self._leaf is not None and self._leaf.kind == "paragraph_open" and matched == len(self._containers)
        while matched + len(opened) < MAX_DEPTH:
            if mark := _QUOTE.match(text):
                bar = (_BAR, self.theme.aside)
                opened.append(Container(bar, bar))
                text = text[mark.end() :]
                continue
            item = _ITEM.match(text)
            if item is None or _RULE.fullmatch(text):
                break
            if is_in_text and not opened and (item.end() == len(text) or item[2][:-1] not in ("", "1")):
                break  # a number at the start of a line of text
            outer = (*self._containers[:matched], *opened)
            sibling = self._containers[matched : matched + 1] if not opened else ()
            opened.append(self._item(item, sibling, sum(one.indent is not None for one in outer)))
            text = text[opened[-1].content :] if item.end() < len(text) else ""
            if task := _TASK.match(text):
                box = "\N{BALLOT BOX}" if task[1] == " " else "\N{BALLOT BOX WITH CHECK}"
                text = f"{box} {text[task.end() :]}"
        return tuple(opened), text

    def _item(self, mark: re.Match[str], sibling: tuple[Container, ...], level: int) -> Container:
        sign, spaces = mark[2], len(mark[3])
        content = len(mark[1]) + len(sign) + (spaces if 1 <= spaces <= 4 else 1)
        number = None
        shown = _BULLETS[level % len(_BULLETS)]
        if sign[0].isdigit():
            number = max(int(sign[:-1]), *(before.number + 1 for before in sibling if before.number is not None), 0)
            shown = f"{number}{sign[-1]}"
        return Container((f"{shown} ", self.theme.marker), (" " * (len(shown) + 1), ""), len(mark[1]), content, number)

    def _added(self, leaf: Leaf, text: str, columns: int, *, is_inside: bool) -> list[Line] | None:
        """Add a line to the open block, or turn that into another kind; None: the line does not belong to it.

        `is_inside`: it continues all open containers, and is no paragraph's lazy continuation.
        """
        if leaf.kind == "table_open" and is_inside and "|" in text:
            self._leaf = leaf._replace(lines=(*leaf.lines, text))
            return self._settled(self._leaf, columns)
        if leaf.kind != "paragraph_open":
            return None
        first, *others = leaves_of((leaf.lines[-1], text))
        is_changed = first.kind in ("heading_open", "table_open")
        begins_block = others or not (is_changed or first.kind == "paragraph_open")
        if begins_block or (not is_inside and _RULE.fullmatch(text)):
            return None
        if is_changed and is_inside and text.strip() != "-":  # which is more likely the first item of a list
            return self._become(leaf, first, columns)
        self._leaf = leaf._replace(lines=(*leaf.lines, text.lstrip()), text=f"{leaf.text}\n{text.lstrip()}")
        return self._close(columns) if len(self._leaf.text) > MAX_LIVE_CHARS else []

    def _become(self, leaf: Leaf, other: Leaf, columns: int) -> list[Line]:
        """Turn the last line of the open paragraph into another block; returns the lines before it."""
        before, _, _ = leaf.text.rpartition("\n")
        self._leaf = leaf._replace(text=before) if before else None
        return self._close(columns) + self._begin(other, columns)

    def _begin(self, leaf: Leaf, columns: int, indent: int = 0) -> list[Line]:
        if leaf.kind == "fence":
            self._code = Code(self.theme, self._margin, leaf.fence, leaf.text, indent)
            return self._code.rule(self._code.info, columns)
        if leaf.kind == "code_block":
            return Code(self.theme, self._margin, "`", "", 4).take(leaf.lines[0], columns)
        self._leaf = leaf
        return self._close(columns) if leaf.kind in ("heading_open", "hr") else []

    def _settled(self, table: Leaf, columns: int) -> list[Line]:
        """The lines of the open table that are final."""
        if self._shape is None and len(table.lines) < SETTLED_ROWS + 2:
            return []
        shape = self._shape_of(table.lines, columns)
        lines = self._leaf_lines(columns, growing=False)
        self._leaf, self._shape = table._replace(lines=table.lines[:2]), shape
        return lines

    def _shape_of(self, rows: tuple[str, ...], columns: int) -> Grid:
        room = self._margin.room(columns)
        return self._shape if self._shape and self._shape.room <= room else grid(rows, room, self.theme)

    def _code_line(self, code: Code, text: str, columns: int) -> list[Line]:
        rest = text
        for container in self._containers:
            if container.indent is None:
                mark = _QUOTE.match(rest)
                if mark is None:  # the quote has ended, and with it the code
                    return self._close(columns) + self._line(text, columns)
                rest = rest[mark.end() :]
        return self._close(columns) if code.closes(rest) and not self._is_rest else code.take(rest, columns)

    def _close(self, columns: int) -> list[Line]:
        lines = self._leaf_lines(columns, growing=False)
        if self._code is not None:
            lines = self._code.rule("", columns)
        self._leaf = self._shape = self._code = None
        return lines

    def _leaf_lines(self, columns: int, *, growing: bool) -> list[Line]:
        """The lines of the open block that are not final yet."""
        leaf = self._leaf
        if leaf is None:
            return []
        if growing and leaf.kind == "paragraph_open" and leaf.lines[-1].startswith("|"):
            # Show the likely start of a table as one, before its second line confirms it.
            cells = split_row(leaf.lines[-1])
            (table, *_) = leaves_of((leaf.lines[-1], "|" + "---|" * len(cells)))
            if len(cells) > 1 and table.kind == "table_open":
                return self._become(leaf, table, columns) + self._leaf_lines(columns, growing=True)
        if leaf.kind != "table_open":
            return self._put(prose_lines(leaf, self._margin, columns, self.theme, growing=growing))
        shape = self._shape_of(leaf.lines, columns)
        lines = [] if self._shape else header_lines(leaf.lines, shape, self.theme)
        for number, row in enumerate(leaf.lines[2:], 3):
            lines += row_lines(row, shape, self.theme, growing=growing and number == len(leaf.lines))
        return self._put(lines)

    def _put(self, lines: list[Line]) -> list[Line]:
        placed = self._margin.put(lines)
        if lines:
            self._margin = Margin(self._margin.rest, self._margin.rest)
        return placed
