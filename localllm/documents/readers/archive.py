"""ZIP files, as which Office writes: checked against what would unpack to too much, then given to their readers."""

from __future__ import annotations

import io
import zipfile

from localllm.documents.contents import Contents, Unreadable
from localllm.documents.plain import FORMATS

MAX_ENTRIES = 10_000
MAX_UNPACKED_BYTES = 512 * 10**6
MAX_RATIO = 1000
"""Of an entry of over a megabyte: text of Office's files shrinks to a twentieth, a bomb to a thousandth."""
MIN_BOMB_BYTES = 10**6
_MAIN = {
    "word/document.xml": "DOCX",
    "ppt/presentation.xml": "PPTX",
    "xl/workbook.xml": "XLSX",
    "xl/workbook.bin": "XLSB",
}
_OPEN_DOCUMENT = b"application/vnd.oasis.opendocument.spreadsheet"


def format_of(data: bytes) -> str:
    """`DOCX` ..., after checking what it would unpack to. Raises `Unreadable`."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            _check(entries)
            names = {entry.filename for entry in entries}
            found = next((format for main, format in _MAIN.items() if main in names), None)
            if found is not None:
                return found
            if "mimetype" in names:
                with archive.open("mimetype") as file:
                    if file.read(100).startswith(_OPEN_DOCUMENT):
                        return "ODS"
    except Unreadable:
        raise
    except Exception as error:  # noqa: BLE001  zipfile raises anything on a broken file
        raise Unreadable(f"is a broken archive: {error}") from None
    raise Unreadable(f"is an archive, and of no format that is read here ({FORMATS})")


def _check(entries: list[zipfile.ZipInfo]) -> None:
    if len(entries) > MAX_ENTRIES:
        raise Unreadable(f"is an archive of {len(entries)} files; at most {MAX_ENTRIES} are unpacked")
    total = sum(entry.file_size for entry in entries)
    if total > MAX_UNPACKED_BYTES:
        raise Unreadable(f"would unpack to {total // 10**6} MB; at most {MAX_UNPACKED_BYTES // 10**6} are unpacked")
    for entry in entries:
        if entry.flag_bits & 1:
            raise Unreadable("is encrypted; send it without a password")
        if entry.file_size > max(MIN_BOMB_BYTES, MAX_RATIO * entry.compress_size):
            raise Unreadable("would unpack to more than a thousand times its size, so it is not unpacked")


def contents(data: bytes, *, pages: str, max_pages: int, max_characters: int) -> Contents:
    """Raises `Unreadable`, and what a reader raises on a broken file."""
    format = format_of(data)
    if format == "DOCX":
        from localllm.documents.readers import docx

        return docx.read(data, max_characters=max_characters)
    if format == "PPTX":
        from localllm.documents.readers import pptx

        return pptx.read(data, pages=pages, max_pages=max_pages, max_characters=max_characters)
    from localllm.documents.readers import sheets

    return sheets.read(data, format, pages=pages, max_pages=max_pages, max_characters=max_characters)
