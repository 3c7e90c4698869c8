"""Pictures and sounds in texts that tools returned: agents write a result's parts as JSON where an API has only text.

    [{"type": "text", "text": "Here:"}, {"type": "image", "data": "iVBORw0...", "mimeType": "image/png"}]

A model can do nothing with base64, and it would take thousands of tokens at every turn. Only what contains a file that
says itself what it is counts; every other text stays as it is, and no address in it is fetched. Knows no API's fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec import Raw

from localllm.chat.media_files import MediaReading, kind_of
from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.server.requests.content_parts import ChatPart
from localllm.types import Media

_JSON = re.compile(r'\s*[\[{](?=.{0,1000}"(?:type|content)")', re.DOTALL)
_DATA_URL = re.compile(r"\s*data:(?:image|audio|video)/[\w.+-]+;base64,[A-Za-z0-9+/=\s]+\Z")
_IN_TEXT = ("text", "input_text", "output_text")
_QUIET = frozenset({"_meta", "meta", "isError", "is_error", "structuredContent", "type"})
"""Fields of an MCP result that say nothing beside its content."""


def returned_parts(text: str, path: str, reading: MediaReading) -> list[str | Media]:
    """The text, or the texts, pictures, sounds and documents whose JSON or data URL it is."""
    found: list[str | Media] | None = None
    if text.startswith("data:") and _DATA_URL.match(text):
        found = _read([ChatPart(type="image_url", image_url=text)], [b""], path, reading)
    elif _JSON.match(text):
        try:
            found = _of_json(text.encode("utf-8", "replace"), path, reading)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            found = None
    return [text] if found is None else found


def _of_json(text: bytes, path: str, reading: MediaReading) -> list[str | Media] | None:
    given = msgspec.json.decode(text, type=list[Raw] | dict[str, Raw])
    if isinstance(given, list):
        return _read(_parts(given), given, path, reading)
    if "content" not in given:
        return _read(_parts([text]), [text], path, reading)
    content = msgspec.json.decode(given["content"], type=list[Raw])
    parts = _read(_parts(content), content, path, reading)
    rest = {name: raw for name, raw in given.items() if name != "content" and name not in _QUIET}
    if parts is None or not rest:
        return parts
    return [msgspec.json.encode(rest).decode(), *parts]


def _parts(given: list[Raw] | list[bytes]) -> list[ChatPart | None]:
    return [*map(_part, given)]


def _part(raw: Raw | bytes) -> ChatPart | None:
    try:
        return msgspec.json.decode(raw, type=ChatPart)
    except msgspec.ValidationError:
        return None


def _read(
    parts: list[ChatPart | None] | list[ChatPart], given: list[Raw] | list[bytes], path: str, reading: MediaReading
) -> list[str | Media] | None:
    """None: no part is a file."""
    made = [*_made(parts, given, path, reading)]
    return made if any(isinstance(each, Media) for each in made) else None


def _made(
    parts: list[ChatPart | None] | list[ChatPart], given: list[Raw] | list[bytes], path: str, reading: MediaReading
) -> Iterator[str | Media]:
    for part, raw in zip(parts, given, strict=True):
        if part is not None and part.type in _IN_TEXT and part.text is not None:
            yield part.text
        elif part is not None and (said := part.resource_text) is not None:
            yield said
        else:
            media = None if part is None or not part.is_media else _file(part, path, reading)
            yield bytes(raw).decode("utf-8", "replace") if media is None else media


def _file(part: ChatPart, path: str, reading: MediaReading) -> Media | None:
    """The file in a part; None: there is none, or one of no known kind."""
    tried = MediaReading()
    try:
        media = part.media(path, tried)
    except (InvalidParameter, UnsupportedParameter):
        return None
    if not any(kind_of(file.head) for file in tried.files):
        return None
    for file in tried.files:
        reading.add(file)
    return media
