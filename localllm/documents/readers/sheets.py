"""Spreadsheets (XLSX, XLS, XLSB, ODS), through calamine: each sheet's values as CSV. Formulas are not read, only their
last results."""

from __future__ import annotations

import csv
import datetime
import io
from typing import Any

import python_calamine

from localllm.documents.contents import Collector, Contents, Lines, Section, Unreadable
from localllm.documents.pages import chosen
from localllm.documents.plain import clean

NAME_CHARS = 60


def read(data: bytes, format: str, *, pages: str, max_pages: int, max_characters: int) -> Contents:
    """Raises `Unreadable`."""
    try:
        book = python_calamine.load_workbook(io.BytesIO(data))
        names = list(book.sheet_names)
        found = Collector(max_characters)
        for number in chosen(pages, len(names), max_pages, "sheet"):
            label = f"Sheet {number}: {' '.join(names[number - 1].split())[:NAME_CHARS]}"
            text = _csv(book.get_sheet_by_index(number - 1), found.room)
            found.add(Section(clean(text), label, "csv"))
    except python_calamine.PasswordError:
        raise Unreadable("is encrypted; send it without a password") from None
    except python_calamine.CalamineError as error:
        raise Unreadable(f"is a broken spreadsheet: {error}") from None
    return Contents(tuple(found.sections), format, "sheet", len(names))


def _csv(sheet: python_calamine.CalamineSheet, max_characters: int) -> str:
    lines = Lines(max_characters)
    waiting = 0
    for row in sheet.iter_rows():
        cells = [_shown(cell) for cell in row]
        while cells and not cells[-1]:
            cells.pop()
        if not cells:
            waiting += 1  # rows without a value behind the last one are not shown
            continue
        for _ in range(waiting):
            lines.add("")
        waiting = 0
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(cells)
        lines.add(line.getvalue())
    return lines.text()


def _shown(cell: Any) -> str:
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 1e15 else repr(cell)
    if isinstance(cell, datetime.datetime):
        return cell.isoformat(" ") if cell.time() != datetime.time() else cell.date().isoformat()
    return str(cell)
