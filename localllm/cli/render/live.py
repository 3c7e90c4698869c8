"""Updates the end of the screen that may still change. Knows lines, and no Markdown.

The region is the last lines written, with the cursor at their end. An update rewrites it from the first difference on,
in one write. Lines that have scrolled off the screen cannot be reached and stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from localllm.cli.render.table_cells import Line, Span, ansi, is_certain, merge, width


class Size(NamedTuple):
    """The size of the terminal."""

    columns: int
    rows: int


_BEGIN_SYNC = "\x1b[?2026h"
_END_SYNC = "\x1b[?2026l"
"""Synchronized output: many terminals draw nothing between the two; the others ignore them."""
_EMPTY = Line()


class Live:
    """Writes lines narrower than `Size.columns`, or exactly as wide if the next line continues them.

    `reflows`: when the window gets narrower, the terminal rewraps long lines instead of cutting them.
    """

    def __init__(self, write: Callable[[str], object], *, reflows: bool = True) -> None:
        self._write = write
        self._reflows = reflows
        self._region: list[Line] = [_EMPTY]
        self._size: Size | None = None

    def update(self, finished: Sequence[Line], preview: Sequence[Line], size: Size) -> None:
        """Replace the region by `finished`, which leaves the region, followed by `preview`."""
        wanted = [*finished, *(preview or [_EMPTY])]
        commands = ""
        if self._size is not None and size.columns != self._size.columns:
            commands = self._clear_region(size)
        self._size = size
        commands += self._difference(wanted, size)
        if commands:
            self._write(commands)
        self._region = wanted[len(finished) :]

    def _clear_region(self, size: Size) -> str:
        """After a change of the window's width, which may have rewrapped the region."""
        rows = len(self._region)
        if self._reflows:
            rows = sum(max(1, -(-_width(line) // size.columns)) for line in self._region)
        self._region = [_EMPTY]
        above = min(rows, size.rows) - 1
        # Row by row: on clearing the whole screen at once, tmux would move it to the history first.
        return _up(above) + "\r\x1b[2K" + (_clear_below(above) if above else "")

    def _difference(self, wanted: list[Line], size: Size) -> str:
        drawn = self._region
        same = 0
        while same < min(len(drawn), len(wanted)) and drawn[same] == wanted[same]:
            same += 1
        if same == len(drawn) == len(wanted):
            return ""
        bottom = len(drawn) - 1
        first = min(max(same, len(drawn) - size.rows), bottom, len(wanted) - 1)
        commands = [_up(bottom - first)]
        if first == bottom and same >= first:
            commands.append(_extend(drawn[first], wanted[first], size.columns))
        else:
            commands.append("\r\x1b[K" + ansi(wanted[first].spans))
        for row in range(first + 1, len(wanted)):
            commands.append(_next_row(wanted[row - 1], size.columns, is_new=row >= len(drawn)))
            commands.append(ansi(wanted[row].spans))
        if len(wanted) < len(drawn):
            commands.append(_clear_below(len(drawn) - len(wanted)))
        text = "".join(commands)
        return f"{_BEGIN_SYNC}{text}{_END_SYNC}" if bottom > first else text


def _width(line: Line) -> int:
    return sum(width(text) for text, _ in line.spans)


def _up(rows: int) -> str:
    return f"\x1b[{rows}A" if rows > 0 else ""


def _clear_below(rows: int) -> str:
    """Clear the next `rows` lines, and return."""
    return "".join("\x1b[1B\x1b[2K" for _ in range(rows)) + f"\x1b[{rows}A"


def _next_row(line: Line, columns: int, *, is_new: bool) -> str:
    """Move from the end of `line` to the start of the next row, and clear that."""
    if not line.soft or _width(line) < columns:
        return "\r\n" if is_new else "\r\n\x1b[K"
    # The cursor is at the edge, where the next character wraps by itself; clearing alone has to write one to wrap.
    return "" if is_new else " \r\x1b[K"


def _extend(old: Line, new: Line, columns: int) -> str:
    """Change `old`, with the cursor at its end, to `new` on the same row."""
    dropped, added = _split(old.spans, new.spans)
    if not dropped:
        return ansi(added)
    # Terminals disagree about the width of such text, and about the cursor's column at the edge.
    if not is_certain(dropped) or _width(old) >= columns:
        return "\r\x1b[K" + ansi(new.spans)
    return f"\x1b[{len(dropped)}D\x1b[K" + ansi(added)


def _split(old: Sequence[Span], new: Sequence[Span]) -> tuple[str, tuple[Span, ...]]:
    """The text of `old` after the common prefix of both, and the rest of `new`."""
    kept = 0
    while kept < min(len(old), len(new)) and old[kept] == new[kept]:
        kept += 1
    common = 0
    if kept < min(len(old), len(new)) and old[kept][1] == new[kept][1]:
        before, after = old[kept][0], new[kept][0]
        while common < min(len(before), len(after)) and before[common] == after[common]:
            common += 1
    dropped = "".join(text for text, _ in old[kept:])[common:]
    if kept == len(new):
        return dropped, ()
    return dropped, merge([(new[kept][0][common:], new[kept][1]), *new[kept + 1 :]])
