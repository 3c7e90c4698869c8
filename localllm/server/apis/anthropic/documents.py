"""Document blocks: texts, base64, addresses, and contents of several blocks. Knows nothing of messages."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec
from msgspec import Raw, UnsetType
from msgspec.structs import replace

from localllm.chat.media_files import MediaReading
from localllm.errors import InvalidParameter, UnsupportedParameter, clipped
from localllm.server.requests.content_parts import NO_IDS
from localllm.server.requests.parse import decoded, decoding
from localllm.server.requests.values import missing, needed
from localllm.types import Media
from localllm.types.documents import DocumentOptions, PageImages


class ImageSource(msgspec.Struct, frozen=True):
    """Where an image is. `media_type` is not read: the content says what it is."""

    type: str
    data: str | None = None
    url: str | None = None

    def media(self, path: str, reading: MediaReading) -> Media:
        """Raises `InvalidParameter`, `UnsupportedParameter`."""
        if self.type == "base64":
            return reading.image(needed(self.data, f"{path}.source.data"), path)
        if self.type == "url":
            return reading.image(needed(self.url, f"{path}.source.url"), path)
        raise UnsupportedParameter(
            f"{path}.source: images of type {clipped(self.type)!r} are not supported: {NO_IDS.format('base64')}",
            param=f"{path}.source.type",
        )


class _Inner(msgspec.Struct, frozen=True):
    """A block of a content."""

    type: str = "text"
    text: str | None = None
    source: ImageSource | None = None


class DocumentSource(msgspec.Struct, frozen=True):
    """Where a document is. `media_type` is not read: the content says what it is."""

    type: str
    data: str | None = None
    url: str | None = None
    content: str | list[_Inner] | None = None

    def parts(self, path: str, reading: MediaReading, options: DocumentOptions) -> list[str | Media]:
        """The document, or those that its content consists of. Raises `InvalidParameter`, `UnsupportedParameter`."""
        where = f"{path}.source"
        if self.type == "text":
            return [reading.text(needed(self.data, f"{where}.data"), path, options)]
        if self.type == "base64":
            return [reading.document(needed(self.data, f"{where}.data"), path, options)]
        if self.type == "url":
            return [reading.document(needed(self.url, f"{where}.url"), path, options)]
        if self.type == "content":
            if self.content is None:
                raise missing(f"{where}.content")
            return _within(self.content, path, reading, options)
        raise UnsupportedParameter(
            f"{where}: documents of type {clipped(self.type)!r} are not supported: {NO_IDS.format('base64')}",
            param=f"{where}.type",
        )


class DocumentBlock(Protocol):
    """The fields of a block that concern its document."""

    @property
    def source(self) -> Raw | UnsetType: ...

    @property
    def title(self) -> Raw | UnsetType: ...

    @property
    def context(self) -> Raw | UnsetType: ...

    @property
    def pages(self) -> str | None: ...

    @property
    def page_images(self) -> PageImages | None: ...


def document_parts(block: DocumentBlock, path: str, reading: MediaReading) -> list[str | Media]:
    """Raises `InvalidParameter`, `UnsupportedParameter`."""
    if isinstance(block.source, UnsetType):
        raise missing(f"{path}.source")
    with decoding(f"{path}.source"):
        source: DocumentSource = decoded(block.source, DocumentSource)
    options = DocumentOptions(
        title=_text(block.title, f"{path}.title"),
        context=_text(block.context, f"{path}.context"),
        pages=block.pages or "",
        page_images=block.page_images or "auto",
    )
    return source.parts(path, reading, options)


def _text(given: Raw | UnsetType, path: str) -> str:
    if isinstance(given, UnsetType):
        return ""
    with decoding(path):
        text: Any = decoded(given, str | None)
    return text or ""


def _within(
    content: str | list[_Inner], path: str, reading: MediaReading, options: DocumentOptions
) -> list[str | Media]:
    """Adjacent texts are one document; title and context stand with the first."""
    blocks = [_Inner(text=content)] if isinstance(content, str) else content
    made: list[str | Media] = []
    texts: list[str] = []

    def flush() -> None:
        if texts:
            first = options if not any(isinstance(each, Media) and each.document for each in made) else rest
            made.append(reading.text("\n\n".join(texts), path, first))
            texts.clear()

    rest = replace(options, context="")
    for index, block in enumerate(blocks):
        where = f"{path}.source.content[{index}]"
        if block.type == "text":
            texts.append(needed(block.text, f"{where}.text"))
        elif block.type == "image" and block.source is not None:
            flush()
            made.append(block.source.media(where, reading))
        else:
            raise InvalidParameter(f"{where}: a document's content is texts and images", param=where)
    flush()
    if not made:
        raise InvalidParameter(f"{path}.source.content is empty", param=f"{path}.source.content")
    return made
