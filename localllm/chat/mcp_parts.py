"""Parts in the shapes of MCP, which agents pass on as their tools return them, and of libraries that have their own.

    {"type": "image", "data": BASE64, "mimeType": "image/png"}                                  MCP, and audio likewise
    {"type": "resource", "resource": {"uri": URI, "text": TEXT} or {"uri": URI, "blob": BASE64}}                    MCP
    {"type": "media", "data": BASE64, "mediaType": "image/png"}                                            Vercel's SDK
    {"type": "image", "image": URL or BASE64}                                                     Vercel's SDK and Qwen
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BASE64}}                Anthropic

Nothing in them is required, since they stand in conversations that have to go on. Knows no API's messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from localllm.chat.media_files import MediaReading
from localllm.types import Media, MediaKind
from localllm.types.documents import DocumentOptions

MAX_NAME, MAX_URI = 200, 2000
"""Characters of a resource's name and address that a model reads."""
MAX_MIME = 100
_KINDS: dict[str, MediaKind] = {
    "audio": "audio",
    "document": "document",
    "file": "document",
    "file-data": "document",
    "file-url": "document",
    "image": "image",
    "image-data": "image",
    "image-url": "image",
    "input_audio": "audio",
    "input_file": "document",
    "input_image": "image",
    "media": "document",
    "video": "video",
}
"""Type of a part -> what it is if its MIME type does not say it."""
_LINK, _RESOURCE = "resource_link", "resource"
TYPES = frozenset((*_KINDS, _LINK, _RESOURCE))


class McpResource(msgspec.Struct, frozen=True):
    """What a server embeds in a result."""

    uri: str = ""
    mimeType: str | None = None
    text: str | None = None
    blob: str | None = None


class _Source(msgspec.Struct, frozen=True):
    data: str | None = None
    url: str | None = None
    media_type: str | None = None


class McpPart(msgspec.Struct, frozen=True, kw_only=True):
    """Such a part."""

    type: str
    data: str | None = None
    url: str | None = None
    image: str | None = None
    audio: str | None = None
    video: str | None = None
    source: _Source | None = None
    mimeType: str | None = None
    mediaType: str | None = None
    filename: str | None = None
    resource: McpResource | None = None
    uri: str | None = None
    """Of a link."""
    name: str | None = None

    @property
    def text(self) -> str | None:
        """What a model reads of a resource that is a text or only named; None: it is media, or none of these parts."""
        if self.type == _LINK:
            return f"[a resource: {(self.name or '')[:MAX_NAME]} at {(self.uri or '')[:MAX_URI]}]"
        return self.resource.text if self.type == _RESOURCE and self.resource is not None else None

    @property
    def is_media(self) -> bool:
        """Whether it has the bytes of a picture, video, sound or document, or their address."""
        return self._given is not None

    def media(self, path: str, reading: MediaReading) -> Media:
        """The picture, video, sound or document of one that is media. Raises `InvalidParameter`."""
        given = self._given or ""
        kind = self._kind
        if kind == "image":
            return reading.image(given, path)
        if kind == "document":
            return reading.document(given, path, DocumentOptions(name=self._name))
        return reading.video(given, path) if kind == "video" else reading.audio(given, path)

    @property
    def _given(self) -> str | None:
        if self.type == _RESOURCE:
            return None if self.resource is None or self.resource.text is not None else self.resource.blob
        if self.type not in _KINDS:
            return None
        sources = (self.source.data, self.source.url) if self.source is not None else ()
        given = (self.data, self.image, self.audio, self.video, *sources, self.url)
        return next((each for each in given if each is not None), None)

    @property
    def _kind(self) -> MediaKind:
        inner = (self.resource.mimeType if self.resource else None, self.source.media_type if self.source else None)
        named = (self.mimeType, self.mediaType, *inner)
        mime = next(filter(None, named), "")[:MAX_MIME].lower()
        for kind in ("image", "audio", "video"):
            if mime.startswith(f"{kind}/"):
                return kind
        return "document" if mime else _KINDS.get(self.type, "document")

    @property
    def _name(self) -> str:
        last = self.resource.uri.rpartition("/")[2] if self.resource else ""
        return (self.filename or self.name or last)[:MAX_NAME]


_FIELDS = tuple(name for name in McpPart.__struct_fields__ if name != "type")


def mcp_part(given: msgspec.Struct) -> McpPart | None:
    """What the part of an API is, if it has one of these shapes.

    The Structs of APIs have most of these fields as `Raw`: in other parts of theirs they have other types.
    """
    kind = getattr(given, "type", None)
    if kind not in TYPES:
        return None
    values: dict[str, Any] = {"type": kind}
    try:
        for name in _FIELDS:
            value = getattr(given, name, None)
            if isinstance(value, Raw):
                values[name] = msgspec.json.decode(value)
            elif isinstance(value, str):
                values[name] = value
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return mcp_part_of(values)


def mcp_part_of(given: Mapping[str, Any]) -> McpPart | None:
    """The same of a dict."""
    if given.get("type") not in TYPES:
        return None
    try:
        part = msgspec.convert({name: given[name] for name in ("type", *_FIELDS) if name in given}, McpPart)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return part if part.is_media or part.text is not None else None
