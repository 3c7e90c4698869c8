"""PPTX, through python-pptx: the texts of each slide, its tables and the speaker's notes. Pictures and charts are not
read."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import pptx

from localllm.documents.contents import Collector, Contents, Lines, Section
from localllm.documents.pages import chosen
from localllm.documents.plain import clean
from localllm.documents.readers.tables import row_of

MAX_DEPTH = 8
"""Groups within groups that are read."""


def read(data: bytes, *, pages: str, max_pages: int, max_characters: int) -> Contents:
    """Raises `Unreadable`, and what python-pptx raises on a broken file."""
    slides = list(pptx.Presentation(io.BytesIO(data)).slides)
    found = Collector(max_characters)
    for number in chosen(pages, len(slides), max_pages, "slide"):
        lines = Lines(found.room)
        slide = slides[number - 1]
        _add_shapes(lines, slide.shapes, MAX_DEPTH)
        if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) is not None and frame.text.strip():
            lines.add(f"\nNotes: {frame.text.strip()}")
        found.add(Section(clean(lines.text()), f"Slide {number}"))
    return Contents(tuple(found.sections), "PPTX", "slide", len(slides))


def _add_shapes(lines: Lines, shapes: Iterable[Any], depth: int) -> None:
    for shape in shapes:
        if shape.has_text_frame and (text := shape.text_frame.text.strip()):
            lines.add(text.replace("\v", "\n"))
        elif getattr(shape, "has_table", False):
            for row in shape.table.rows:
                lines.add(row_of(cell.text for cell in row.cells))
        elif depth and hasattr(shape, "shapes"):
            _add_shapes(lines, shape.shapes, depth - 1)
