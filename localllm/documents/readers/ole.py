"""Office files before 2007, and encrypted ones, which are stored alike: only spreadsheets are read."""

from __future__ import annotations

from localllm.documents.contents import Contents, Unreadable
from localllm.documents.readers import sheets


def read(data: bytes, *, pages: str, max_pages: int, max_characters: int) -> Contents:
    """Raises `Unreadable`."""
    if "EncryptedPackage".encode("utf-16-le") in data:
        raise Unreadable("is encrypted; send it without a password")
    if not any(name.encode("utf-16-le") in data for name in ("Workbook", "Book")):
        raise Unreadable("is of an old Office format (DOC, PPT); save it as DOCX, PPTX or PDF")
    return sheets.read(data, "XLS", pages=pages, max_pages=max_pages, max_characters=max_characters)
