"""Plain text from bytes: UTF-8, UTF-16 and UTF-32 with their marks, else Windows-1252. Knows no formats."""

from __future__ import annotations

import codecs

from localllm.documents.contents import Unreadable

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BINARY = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b\b")) + b"\x7f"
"""Bytes that no text has, in any encoding of one byte a character."""
FORMATS = "PDF, DOCX, PPTX, XLSX, XLS, ODS, RTF, HTML, and text such as Markdown, CSV and source code"


def text_of(data: bytes) -> str:
    """The text. Raises `Unreadable` for what is none."""
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        if encoding != "utf-8" or data.translate(None, _BINARY) != data:
            raise Unreadable(f"is of no format that is read here ({FORMATS})") from None
        text = data.decode("cp1252", "replace")
    if "\0" in text:
        raise Unreadable(f"is of no format that is read here ({FORMATS})")
    return clean(text)


def clean(text: str) -> str:
    """With one kind of line end, no empty lines around it, and nothing that UTF-8 cannot encode."""
    whole = text.encode("utf-8", "replace").decode()
    return whole.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "").strip("\n")
