"""Puts the texts of documents into conversations, in place of the documents, and says what was taken.

In the turn to answer, a document that cannot be read is an error; in tools' results and earlier turns a note says why,
so that a client that sends it with every turn goes on. Knows no API's fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from localllm.chat.unreadable import first_refused, with_parts
from localllm.documents import pages
from localllm.documents.contents import Contents
from localllm.documents.prompt_text import name_of, num_pictures, one_line, parts_of
from localllm.documents.reading import DocumentReader
from localllm.errors import InvalidParameter
from localllm.types import Media, MediaFile, Message
from localllm.types.documents import DocumentOptions, DocumentTaken


class WithTexts(NamedTuple):
    """Messages without documents."""

    messages: tuple[Message, ...]
    files: tuple[MediaFile, ...]
    """Those that are still referred to: pictures, sounds, and PDFs of which pages are shown."""
    notes: tuple[str, ...] = ()
    taken: tuple[DocumentTaken, ...] = ()


class _NotTaken(Exception):
    """Why a document is not in the prompt."""


async def with_texts(reader: DocumentReader, messages: Sequence[Message], files: Sequence[MediaFile]) -> WithTexts:
    """The messages with documents' texts and pages. Raises `InvalidParameter`, `QueueFull`."""
    places = [medium for message in messages for medium in message.media if medium.kind == "document"]
    if not places:
        return WithTexts(tuple(messages), tuple(files))
    limits = reader.limits
    if len(places) > limits.max_count:
        raise InvalidParameter(
            f"the request has {len(places)} documents; at most {limits.max_count} are read (max_documents)",
            param=places[limits.max_count].param,
        )
    data = {file.digest: file.data for file in files}
    work = _Work(reader, data)
    first = first_refused([message.role for message in messages])
    made = []
    for index, message in enumerate(messages):
        if not any(medium.kind == "document" for medium in message.media):
            made.append(message)
            continue
        refuses = index >= first and message.role != "tool"
        parts: list[str | Media] = []
        for part in message.parts:
            is_document = isinstance(part, Media) and part.kind == "document"
            parts += await work.read(part, refuses=refuses) if is_document else [part]  # type: ignore[arg-type]
        made.append(with_parts(message, parts))
    used = {medium.digest for message in made for medium in message.media}
    kept = tuple(file for file in files if file.digest in used)
    return WithTexts(tuple(made), kept, tuple(work.notes), tuple(work.taken))


class _Work:
    """One conversation's documents."""

    def __init__(self, reader: DocumentReader, data: Mapping[str, bytes]) -> None:
        self._reader = reader
        self._data = data
        self._num_characters = 0
        self.notes: list[str] = []
        self.taken: list[DocumentTaken] = []

    async def read(self, media: Media, *, refuses: bool) -> list[str | Media]:
        """What stands in its place. Raises `InvalidParameter` if `refuses`."""
        options = media.document or DocumentOptions()
        name = name_of(options)
        try:
            contents = await self._contents(media, options)
        except _NotTaken as error:
            if refuses:
                raise InvalidParameter(f"{media.param} {error}", param=media.param) from None
            omission = f"document omitted: {name} {error}"
            self.notes.append(f"{media.param}: {omission}")
            context = one_line(options.context)
            return [f"[{omission}]", *([f"Context: {context}"] if context else [])]
        num_pages = sum(bool(section.label) for section in contents.sections)
        self.taken.append(
            DocumentTaken(
                name=name,
                format=contents.format,
                pages=num_pages,
                pages_omitted=contents.num_pages - num_pages,
                characters=contents.num_characters,
                page_images=num_pictures(contents, options),
            )
        )
        return parts_of(contents, media)

    async def _contents(self, media: Media, options: DocumentOptions) -> Contents:
        limits = self._reader.limits
        if not pages.is_valid(options.pages):
            raise _NotTaken(f"has no pages {options.pages[:100]!r}; they are given as in 1-3,7")
        data = self._data.get(media.digest)
        if data is None:
            raise _NotTaken("has no bytes")
        if len(data) > limits.max_bytes:
            raise _NotTaken(f"has {len(data)} bytes; at most {limits.max_bytes} are read (max_document_bytes)")
        contents = await self._reader.read(media.digest, data, options)
        if contents.problem:
            raise _NotTaken(contents.problem)
        if options.pages and not contents.unit:
            raise _NotTaken(f"has no pages ({contents.format}), so none can be chosen")
        self._num_characters += contents.num_characters
        if self._num_characters > limits.max_request_characters:
            raise InvalidParameter(
                f"the request's documents have more than {limits.max_request_characters} characters "
                "(max_request_document_chars); leave some out, or name some of their pages",
                param=media.param,
            )
        return contents
