"""Documents of a conversation: how one is to be read, and what of it was taken. Plain frozen data.

A part of `types`. Knows nothing of formats.
"""

from __future__ import annotations

from typing import Literal

import msgspec

PageImages = Literal["auto", "always", "never"]
"""Whether pages are shown as pictures: those without text, all, or none."""


class DocumentOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a document is read, and what it is called in the prompt."""

    name: str = ""
    """Of its file; its end says which language a plain text is in."""
    title: str = ""
    """Shown in place of the name."""
    context: str = ""
    """What the client says of it."""
    pages: str = ""
    """Pages, slides or sheets to take, from 1: `1-3,7`; empty: all."""
    page_images: PageImages = "auto"
    is_text: bool = False
    """Its bytes are UTF-8 text that the client wrote, whatever they look like."""


class DocumentTaken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What of one document is in the prompt."""

    name: str
    format: str
    """`PDF`, `DOCX`, `text` ..."""
    characters: int
    pages: int = 0
    """Pages, slides or sheets; 0: it has none."""
    pages_omitted: int = 0
    """Those that the request did not choose."""
    page_images: int = 0
    """Pages that a model which sees gets as pictures."""
