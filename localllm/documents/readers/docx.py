"""DOCX, through python-docx: paragraphs and tables in their order, headings and lists as in Markdown.

Headers, footers, notes, comments and pictures are not read.
"""

from __future__ import annotations

import io
import re

import docx
from docx.table import Table
from docx.text.paragraph import Paragraph

from localllm.documents.contents import Contents, Lines, Section
from localllm.documents.plain import clean
from localllm.documents.readers.tables import row_of

_HEADING = re.compile(r"Heading (\d)")


def read(data: bytes, *, max_characters: int) -> Contents:
    """Raises `Unreadable`, and what python-docx raises on a broken file."""
    document = docx.Document(io.BytesIO(data))
    lines = Lines(max_characters)
    was_list = False
    for block in document.iter_inner_content():
        text, is_list = ("", False) if isinstance(block, Table) else _paragraph(block)
        if was_list and not is_list:
            lines.add("")
        was_list = is_list
        if isinstance(block, Table):
            _add_table(lines, block)
        elif text:
            lines.add(text)
        if not is_list and (text or isinstance(block, Table)):
            lines.add("")
    return Contents((Section(clean(lines.text()), language="markdown"),), "DOCX")


def _paragraph(paragraph: Paragraph) -> tuple[str, bool]:
    """Its line, and whether it is of a list."""
    text = paragraph.text.strip()
    style = (paragraph.style.name if paragraph.style is not None else "") or ""
    if not text:
        return "", False
    if style == "Title":
        return f"# {text}", False
    if heading := _HEADING.match(style):
        return f"{'#' * int(heading[1])} {text}", False
    properties = paragraph._p.pPr
    is_list = style.startswith("List") or (properties is not None and properties.numPr is not None)
    return f"- {text}" if is_list else text, is_list


def _add_table(lines: Lines, table: Table) -> None:
    for row in table.rows:
        cells, last = [], None
        for cell in row.cells:
            if cell._tc is not last:  # merged cells are there several times
                cells.append(cell.text)
            last = cell._tc
        lines.add(row_of(cells))
