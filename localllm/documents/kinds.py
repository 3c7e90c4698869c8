"""What kind of document a file is, by its bytes; the end of its name tells only kinds of text apart.

Reads the first bytes only: archives are opened in the child.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Literal

DocumentKind = Literal["pdf", "archive", "ole", "rtf", "html", "text"]
"""`archive`: a ZIP file, as those of Office are; `ole`: an older or encrypted Office file."""

PDF_HEAD_BYTES = 1024
"""How far its mark may be from the beginning of a PDF (ISO 32000, annex H)."""
HTML_HEAD_BYTES = 512
_HTML = (b"<!doctype html", b"<html", b"<head", b"<body")
_XHTML = (b"<?xml", b"<!--")
LANGUAGES = {
    "bash": "sh bash zsh",
    "c": "c h",
    "cpp": "cc cpp cxx hpp",
    "csharp": "cs",
    "css": "css",
    "csv": "csv",
    "diff": "diff patch",
    "go": "go",
    "html": "html htm xhtml",
    "ini": "ini cfg conf",
    "java": "java",
    "javascript": "js mjs cjs jsx",
    "json": "json jsonl ndjson ipynb",
    "kotlin": "kt kts",
    "lua": "lua",
    "markdown": "md markdown",
    "perl": "pl pm",
    "php": "php",
    "python": "py pyi",
    "r": "r",
    "ruby": "rb",
    "rust": "rs",
    "scala": "scala",
    "sql": "sql",
    "swift": "swift",
    "tex": "tex",
    "toml": "toml",
    "tsv": "tsv tab",
    "typescript": "ts tsx",
    "xml": "xml svg",
    "yaml": "yaml yml",
}
"""Word behind a fence -> ends of names."""
_LANGUAGE_OF = {end: language for language, ends in LANGUAGES.items() for end in ends.split()}


def kind_of(data: bytes) -> DocumentKind:
    """`text` if nothing else is recognized."""
    if b"%PDF-" in data[:PDF_HEAD_BYTES]:
        return "pdf"
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "archive"
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        return "ole"
    if data.startswith(b"{\\rtf"):
        return "rtf"
    head = data[:HTML_HEAD_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if head.startswith(_HTML) or (head.startswith(_XHTML) and any(tag in head for tag in _HTML[:2])):
        return "html"
    return "text"


def language_of(name: str) -> str:
    """What stands behind the fence of such a text."""
    return _LANGUAGE_OF.get(PurePosixPath(name).suffix.lower().removeprefix("."), "text")
