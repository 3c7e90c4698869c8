"""Marks for pictures and sounds in rendered conversations: texts that no client can write, since each process draws its
own random ones.

    rendered text   [text)[mark of a picture)[text)[mark of a quoted text)[text)

A quoted text is one that a client wrote and a template uses as its placeholder for pictures; it must stay text. Knows
nothing of templates or tokens.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from localllm.types import Media, Message

BETWEEN_PARTS = "\n"
"""Joins the parts of a message, as llama-server and vLLM do."""
_QUOTED = "text"


class MediaMark(NamedTuple):
    """A picture or sound at its place in a text. Equal for equal media of one detail."""

    kind: str
    digest: str
    detail: str


class QuotedText(NamedTuple):
    """A text that must not be read as control tokens."""

    text: str


Piece = str | MediaMark | QuotedText


def new_marker() -> str:
    """A random beginning of marks. Letters and digits only, so that no template trims or escapes it."""
    return f"qz{secrets.token_hex(16)}"


class Marks:
    """The marks that begin with one marker; see `new_marker`."""

    def __init__(self, marker: str) -> None:
        self._marker = marker
        self._pattern = re.compile(rf"{marker}\.([a-z]+)\.([0-9a-f]*)\.([a-z]*);")

    def mark(self, media: Media | MediaMark) -> str:
        """The text that stands for it."""
        content = media.content if isinstance(media, Media) else media.digest
        return f"{self._marker}.{media.kind}.{content}.{media.detail};"

    def quoted(self, value: Any, pattern: re.Pattern[str]) -> Any:
        """JSON values, with marks in place of texts that match the pattern."""
        if isinstance(value, str):
            return pattern.sub(lambda match: f"{self._marker}.{_QUOTED}.{match[0].encode().hex()}.;", value)
        if isinstance(value, dict):
            return {self.quoted(key, pattern): self.quoted(each, pattern) for key, each in value.items()}
        return [self.quoted(each, pattern) for each in value] if isinstance(value, list) else value

    def split(self, text: str) -> Iterator[Piece]:
        """The pieces of a text, in order; none is empty."""
        at = 0
        for match in self._pattern.finditer(text):
            if match.start() > at:
                yield text[at : match.start()]
            kind, content, detail = match.groups()
            yield QuotedText(bytes.fromhex(content).decode()) if kind == _QUOTED else MediaMark(kind, content, detail)
            at = match.end()
        if at < len(text):
            yield text[at:]

    def shown(self, text: str, marker: str = "") -> str:
        """The text for people. `marker`: what stands for each picture and sound; empty: what it is."""
        return "".join(
            piece
            if isinstance(piece, str)
            else piece.text
            if isinstance(piece, QuotedText)
            else marker or f"[{piece.kind}]"
            for piece in self.split(text)
        )

    def in_text(self, message: Message, *, media_first: bool) -> Message:
        """The message with marks in its texts. `media_first`: those that no text follows go before all text, where
        models whose template does not place them expect them."""
        if not any(isinstance(part, Media) for part in message.parts):
            return message
        parts: Sequence[str | Media] = message.parts
        texts = [at for at, part in enumerate(parts) if isinstance(part, str)]
        begin = texts[-1] + 1 if texts else len(parts)
        if media_first and not any(isinstance(part, Media) for part in parts[:begin]):
            parts = (*parts[begin:], *parts[:begin])
        marked = tuple(self.mark(part) if isinstance(part, Media) else part for part in parts)
        return replace(message, content=BETWEEN_PARTS.join(filter(None, marked)), parts=marked)
