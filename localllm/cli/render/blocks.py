r"""Markdown's blocks, line by line: finished lines are returned once, the open block can be previewed at any time.

Follows CommonMark 0.31 and GitHub's tables, but is more lenient about indentation, since models are careless with it.
References (`[a]: URL`), footnotes and HTML are shown verbatim. Knows no terminal.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from localllm.cli.render.cells import Line, Span, expand_tabs, merge
from localllm.cli.render.leaves import Code, Heading, Leaf, Margin, Paragraph, Table, prose_columns
from localllm.cli.render.theme import ANSWER, Theme
from localllm.printable import printable

MAX_LIVE_CHARS = 2000
"""Longer paragraphs are split, since the open block is rendered again for each new piece of the answer."""
MAX_DEPTH = 12
"""Maximum nesting of lists and quotes; deeper ones are text."""

_RULE = re.compile(r" {0,3}([-*_])(?: *\1){2,} *")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,}) *")
_FENCE = re.compile(r"( *)(`{3,}(?=[^`]*$)|~{3,})(.*)")
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
        self._containers: list[Container] = []
        self._leaf: Leaf | None = None
        self._blank = False
        """Whether empty lines precede the next block."""
        self._has_content = False

    def feed(self, text: str, columns: int) -> list[Line]:
        """Add text; returns the lines finished by it, at most `columns` wide (code: one more)."""
        *lines, self._partial = (self._partial + text).split("\n")
        finished = [shown for line in lines for shown in self._whole_line(line, columns)]
        while len(self._partial) > MAX_LIVE_CHARS:
            piece, self._partial = _cut(self._partial)
            finished += self._piece(piece, columns)
        return self._placed(finished)

    def flush(self, columns: int) -> list[Line]:
        """Return the remaining lines; no more text may follow."""
        finished = self._whole_line(self._partial, columns) if self._partial else []
        self._partial = ""
        return self._placed(finished + self._close_leaf(columns))

    def preview(self, columns: int) -> list[Line]:
        """The lines of the open block, as they will probably look."""
        if not self._partial or (self._is_undecided() and not self._is_rest):
            return self._placed(self._leaf.lines(columns, growing=True) if self._leaf else [])
        twin = self._copy()
        shown = twin._line(self._partial, columns)
        return self._placed(shown + (twin._leaf.lines(columns, growing=True) if twin._leaf else []))

    def _is_undecided(self) -> bool:
        """Whether the open line may still become any kind of block."""
        if isinstance(self._leaf, Code):
            return self._leaf.may_close(self._partial)
        return _UNDECIDED.fullmatch(self._partial) is not None

    def _placed(self, lines: list[Line]) -> list[Line]:
        gutter = self.theme.gutter
        return [Line(merge([*gutter, *line.spans]), line.soft) for line in lines] if gutter else lines

    def _copy(self) -> Document:
        twin = Document(self.theme)
        twin._is_rest = self._is_rest
        twin._containers = list(self._containers)
        twin._leaf = self._leaf.copy() if self._leaf is not None else None
        twin._blank, twin._has_content = self._blank, self._has_content
        return twin

    def _whole_line(self, text: str, columns: int) -> list[Line]:
        finished = []
        while len(text) > MAX_LIVE_CHARS:
            piece, text = _cut(text)
            finished += self._piece(piece, columns)
        finished += self._line(text, columns)
        self._is_rest = False
        return finished

    def _piece(self, text: str, columns: int) -> list[Line]:
        """The start of a line that is too long, made final."""
        finished = self._line(text, columns)
        if not isinstance(self._leaf, Code):
            finished += self._close_leaf(columns)
        self._is_rest = True
        return finished

    def _line(self, text: str, columns: int) -> list[Line]:
        text = printable(text.rstrip("\r"))
        if isinstance(self._leaf, Code):
            return self._code_line(self._leaf, text, columns)
        text = expand_tabs(text)
        if self._is_rest:
            return self._add_text(text, columns, ())
        matched, rest = self._continued(text)
        if not rest.strip():
            closed = self._close_leaf(columns)
            self._blank = True
            del self._containers[matched:]
            return closed
        return self._content(matched, rest, columns)

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

    def _content(self, matched: int, text: str, columns: int) -> list[Line]:
        """Handle a line that is not blank."""
        is_text_open = isinstance(self._leaf, Paragraph)
        opened, rest = self._opened(matched, text, is_text_open=is_text_open)
        if isinstance(self._leaf, Paragraph) and not opened:
            if matched == len(self._containers) and (changed := self._changed(self._leaf, rest, columns)) is not None:
                return changed
            if not _begins_block(rest):
                return self._add_text(rest, columns, ())
        if isinstance(self._leaf, Table) and not opened and matched == len(self._containers) and "|" in rest:
            self._leaf.rows.append(rest)
            return self._leaf.settle(columns)
        finished = self._close_leaf(columns)
        del self._containers[matched:]
        finished += self._gap()
        self._containers += opened
        self._has_content = True
        return finished + self._new_leaf(rest, columns, len(opened))

    def _opened(self, matched: int, text: str, *, is_text_open: bool) -> tuple[list[Container], str]:
        """The containers that begin on this line, and the rest of the line."""
        opened: list[Container] = []
        while len(self._containers[:matched]) + len(opened) < MAX_DEPTH:
            if mark := _QUOTE.match(text):
                bar = (_BAR, self.theme.aside)
                opened.append(Container(bar, bar))
                text = text[mark.end() :]
                continue
            item = _ITEM.match(text)
            if item is None or _RULE.fullmatch(text):
                break
            is_first = not opened and matched == len(self._containers)
            if (
                is_text_open
                and is_first
                and ((item[2][0].isdigit() and item[2][:-1] != "1") or item.end() == len(text))
            ):
                break  # a number at the start of a line of text
            opened.append(self._item(item, matched if not opened else None, len(opened) + matched))
            text = text[opened[-1].content :] if item.end() < len(text) else ""
            if task := _TASK.match(text):
                box = "\N{BALLOT BOX}" if task[1] == " " else "\N{BALLOT BOX WITH CHECK}"
                text = f"{box} {text[task.end() :]}"
        return opened, text

    def _item(self, mark: re.Match[str], sibling_place: int | None, depth: int) -> Container:
        sign, spaces = mark[2], len(mark[3])
        content = len(mark[1]) + len(sign) + (spaces if 1 <= spaces <= 4 else 1)
        number = None
        level = sum(container.indent is not None for container in self._containers[:depth])
        shown = _BULLETS[level % len(_BULLETS)]
        if sign[0].isdigit():
            number = int(sign[:-1])
            before = (
                self._containers[sibling_place]
                if sibling_place is not None and sibling_place < len(self._containers)
                else None
            )
            if before is not None and before.number is not None and number <= before.number:
                number = before.number + 1
            shown = f"{number}{sign[-1]}"
        return Container((f"{shown} ", self.theme.marker), (" " * (len(shown) + 1), ""), len(mark[1]), content, number)

    def _changed(self, leaf: Paragraph, text: str, columns: int) -> list[Line] | None:
        """Turn the open paragraph into a heading or a table; None: this line does not."""
        if underline := _UNDERLINE.fullmatch(text):
            *before, title = leaf.texts
            lines = Paragraph(leaf.theme, leaf.margin, before).lines(columns, growing=False)
            margin = Margin(leaf.margin.rest, leaf.margin.rest) if before else leaf.margin
            self._leaf = None
            level = 1 if underline[1][0] == "=" else 2
            return lines + Heading(leaf.theme, margin, level, title.strip()).lines(columns, growing=False)
        if Table.begins(leaf.texts[-1], text):
            *before, header = leaf.texts
            lines = Paragraph(leaf.theme, leaf.margin, before).lines(columns, growing=False)
            margin = Margin(leaf.margin.rest, leaf.margin.rest) if before else leaf.margin
            self._leaf = Table(leaf.theme, margin, header, text, [])
            return lines
        return None

    def _new_leaf(self, text: str, columns: int, num_opened: int) -> list[Line]:
        margin = self._margin(num_opened)
        if fence := _FENCE.fullmatch(text):
            indent = len(fence[1]) + sum(container.content for container in self._containers)
            code = Code(self.theme, margin, fence[2], fence[3], indent)
            self._leaf = code
            return code.opening(columns)
        if heading := _HEADING.fullmatch(text):
            return Heading(self.theme, margin, len(heading[1]), heading[2] or "").lines(columns, growing=False)
        if _RULE.fullmatch(text):
            rule = "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * prose_columns(margin, columns)
            return margin.put([Line(((rule, self.theme.aside),))])
        if not text.strip():
            return margin.put([Line()])
        if text.startswith("    ") and not self._containers:
            return Code(self.theme, margin, "`", "", 4).take(text, columns)
        return self._add_text(text, columns, margin)

    def _add_text(self, text: str, columns: int, margin: Margin | tuple[()]) -> list[Line]:
        """Add to the open paragraph, or begin one."""
        if isinstance(self._leaf, Paragraph):
            self._leaf.texts.append(text.lstrip())
        else:
            self._leaf = Paragraph(self.theme, margin or self._margin(0), [text.lstrip()])
        return self._close_leaf(columns) if self._leaf.size > MAX_LIVE_CHARS else []

    def _code_line(self, code: Code, text: str, columns: int) -> list[Line]:
        rest = text
        for container in self._containers:
            if container.indent is not None:
                continue
            mark = _QUOTE.match(rest)
            if mark is None:  # the quote has ended, and with it the code
                self._leaf = None
                return code.closing(columns) + self._line(text, columns)
            rest = rest[mark.end() :]
        if code.closes(rest) and not self._is_rest:
            self._leaf = None
            return code.closing(columns)
        return code.take(rest, columns)

    def _close_leaf(self, columns: int) -> list[Line]:
        leaf, self._leaf = self._leaf, None
        if isinstance(leaf, Code):
            return leaf.closing(columns)
        return leaf.lines(columns, growing=False) if leaf is not None else []

    def _gap(self) -> list[Line]:
        """One empty line for any number of empty lines."""
        blank, self._blank = self._blank and self._has_content, False
        bars = [container.rest for container in self._containers if container.indent is None]
        return [Line(merge(bars))] if blank else []

    def _margin(self, num_opened: int) -> Margin:
        old = len(self._containers) - num_opened
        rest = [container.rest for container in self._containers]
        first = rest[:old] + [container.first for container in self._containers[old:]]
        return Margin(merge(first), merge(rest))


def _begins_block(text: str) -> bool:
    return any(pattern.fullmatch(text) for pattern in (_FENCE, _HEADING, _RULE))


def _cut(text: str) -> tuple[str, str]:
    """Split after at most `MAX_LIVE_CHARS`, at a space if there is one."""
    space = text.rfind(" ", 1, MAX_LIVE_CHARS)
    return (text[:space], text[space + 1 :]) if space > 0 else (text[:MAX_LIVE_CHARS], text[MAX_LIVE_CHARS:])
