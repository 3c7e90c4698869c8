"""Sizes, times and tables, formatted the same way in every command. Knows no command."""

from __future__ import annotations

import itertools
import textwrap
import time
from collections.abc import Sequence

from localllm.system.printable import one_line


def size(num_bytes: int | None) -> str:
    """In decimal units, like disks and repositories: `1.2 GB`."""
    if num_bytes is None:
        return "?"
    for limit, unit in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if num_bytes >= limit:
            return f"{num_bytes / limit:.3g} {unit}" if num_bytes < 100 * limit else f"{num_bytes / limit:.0f} {unit}"
    return f"{num_bytes} B"


def duration(seconds: float) -> str:
    """`12 s`, `3 min 5 s`, `2 h 10 min`, `3 days`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 2 * 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} days"


def counted(number: int, what: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def ago(unix_s: int) -> str:
    """The time since then: `3 days ago`."""
    return f"{duration(time.time() - unix_s)} ago"


def wrapped(text: str, columns: int) -> str:
    """Lines of at most `columns`, broken between words; a longer word, such as a path, is left to the terminal."""
    return "\n".join("\n".join(_words_in(line, columns)) for line in text.split("\n"))


def labelled(label: str, text: str, indent: int, columns: int | None) -> str:
    """A label, and the text beside it, each line `indent` columns in, wrapped between words to `columns`, if given."""
    lines = text if columns is None else wrapped(text, max(columns - indent, 20))
    return f"{label:<{indent}}" + lines.replace("\n", "\n" + " " * indent)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None = None) -> str:
    """Columns of minimal width, two spaces apart, without trailing spaces. The cells of wide ones are wrapped between
    words, so that a line has at most `columns` if the words allow it."""
    head, rows = tuple(map(one_line, head)), [tuple(map(one_line, row)) for row in rows]
    every = [head, *rows]
    widths = [max(len(row[column]) for row in every) for column in range(len(head))]
    if columns is not None:
        _narrow(widths, every, columns - 2 * (len(head) - 1))
    lines = []
    for row in every:
        parts = [_words_in(cell, width) for cell, width in zip(row, widths, strict=True)]
        for cells in itertools.zip_longest(*parts, fillvalue=""):
            lines.append("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)))
    return "".join(line.rstrip() + "\n" for line in lines)


def _narrow(widths: list[int], rows: Sequence[Sequence[str]], columns: int) -> None:
    """Takes columns from the widest ones, down to their longest words."""
    least = [max(len(word) for row in rows for word in row[column].split(" ")) for column in range(len(widths))]
    while sum(widths) > columns:
        room, widest = max((widths[at] if widths[at] > least[at] else 0, at) for at in range(len(widths)))
        if not room:
            return
        widths[widest] -= 1


def _words_in(line: str, columns: int) -> list[str]:
    if len(line) <= columns:
        return [line]
    return textwrap.wrap(line, columns, break_long_words=False, break_on_hyphens=False) or [line]
