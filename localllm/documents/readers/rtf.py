"""RTF, through striprtf: its text alone."""

from __future__ import annotations

from striprtf.striprtf import rtf_to_text

from localllm.documents.contents import Contents, Section, too_long
from localllm.documents.plain import clean


def read(data: bytes, *, max_characters: int) -> Contents:
    """Raises `Unreadable`, and what striprtf raises on a broken file."""
    text = clean(str(rtf_to_text(data.decode("latin-1"), errors="ignore")))
    if len(text) > max_characters:
        raise too_long(max_characters)
    return Contents((Section(text),), "RTF")
