"""What a reader finds in a document. Plain data; knows nothing of readers or prompts."""

from __future__ import annotations

import msgspec


class Unreadable(Exception):
    """The document cannot be read; the message continues "the document ..."."""


class Section(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page, slide or sheet, or all of a document that has none."""

    text: str
    label: str = ""
    """What stands above it: `Page 3`; empty: nothing."""
    language: str = "text"
    """What stands behind the fence."""
    page: int = 0
    """Of a PDF, from 1: the page, which can be shown as a picture."""
    is_empty: bool = False
    """A page with nothing on it, not even a picture."""


class Contents(msgspec.Struct, frozen=True, omit_defaults=True):
    """A document that was read, or why not."""

    sections: tuple[Section, ...] = ()
    format: str = "text"
    """`PDF`, `DOCX` ..."""
    unit: str = ""
    """What `pages` counts: `page`, `slide`, `sheet`; empty: the document has none."""
    num_pages: int = 0
    """Of the whole document."""
    problem: str = ""
    """Why it cannot be read, behind "the document"."""

    @property
    def num_characters(self) -> int:
        return sum(len(section.text) for section in self.sections)


class Collector:
    """Sections within a limit of characters."""

    def __init__(self, max_characters: int) -> None:
        self._most = max_characters
        self._num_characters = 0
        self.sections: list[Section] = []

    @property
    def room(self) -> int:
        """Characters that may still come."""
        return self._most - self._num_characters

    def add(self, section: Section) -> None:
        """Raises `Unreadable` if there are too many characters."""
        self._num_characters += len(section.text)
        if self._num_characters > self._most:
            raise too_long(self._most)
        self.sections.append(section)


class Lines:
    """A text that grows line by line, within a limit of characters."""

    def __init__(self, max_characters: int) -> None:
        self._most = max_characters
        self._room = max_characters
        self._lines: list[str] = []

    def add(self, line: str) -> None:
        """Raises `Unreadable` if there are too many characters."""
        self._room -= len(line) + 1
        if self._room < -1:
            raise too_long(self._most)
        self._lines.append(line)

    def text(self) -> str:
        return "\n".join(self._lines)


def too_long(max_characters: int) -> Unreadable:
    """Of a document with more characters."""
    return Unreadable(
        f"has more than {max_characters} characters, the most that are read (setting max_document_chars); send a part "
        "of it, or name some of its pages"
    )
