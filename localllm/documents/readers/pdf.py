"""PDF, through pdfium: the text layer of each page. Its build has no JavaScript and no XFA."""

from __future__ import annotations

import pypdfium2

from localllm.documents.contents import Collector, Contents, Section, Unreadable
from localllm.documents.pages import chosen
from localllm.documents.plain import clean

_HYPHEN = "\ufffe"
"""What pdfium puts in place of a hyphen at a line's end."""


def read(data: bytes, *, pages: str, max_pages: int, max_characters: int) -> Contents:
    """Raises `Unreadable`."""
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise Unreadable("is encrypted; send it without a password") from None
        raise Unreadable(f"is a broken PDF: {error}") from None
    found = Collector(max_characters)
    for number in chosen(pages, len(document), max_pages):
        found.add(_section(document, number))
    return Contents(tuple(found.sections), "PDF", "page", len(document))


def _section(document: pypdfium2.PdfDocument, number: int) -> Section:
    label = f"Page {number}"
    try:
        page = document[number - 1]
        try:
            text_page = page.get_textpage()
            text = clean(text_page.get_text_range().replace(_HYPHEN, "-"))
            text_page.close()
            has_text = any(char.isalnum() for char in text)
            is_empty = not has_text and next(iter(page.get_objects(max_depth=1)), None) is None
        finally:
            page.close()
    except (pypdfium2.PdfiumError, ValueError) as error:
        raise Unreadable(f"is broken: page {number} cannot be read ({error})") from None
    return Section(_trimmed(text) if has_text else "", label, page=number, is_empty=is_empty)


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")
