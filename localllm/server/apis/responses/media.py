"""Pictures, sounds and documents of a conversation: as items refer to them here, and as clients see them.

Items name a file by its digest; the bytes are kept once beside them. Knows nothing of requests or the store.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from localllm.server.apis.responses.items import (
    NO_MEDIA,
    AnyItem,
    AudioData,
    CallOutput,
    CustomCallOutput,
    InputAudio,
    InputFile,
    InputImage,
    McpCall,
    MessageItem,
)
from localllm.types import Media, MediaFile

MediaPart = InputImage | InputAudio | InputFile
EARLIER = "previous_response_id"
"""Where the media of earlier turns stand in the request."""
Files = Mapping[str, MediaFile]
"""By digest."""
_TYPES = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
    b"%PDF": "application/pdf",
}


def part_of(media: Media) -> MediaPart:
    """The part of an item; an address stays one."""
    if media.kind == "image":
        return InputImage(image_url=media.url or None, detail=media.detail, media=media)
    if media.kind == "document":
        name = media.document.name if media.document else ""
        return InputFile(filename=name or None, file_url=media.url or None, media=media)
    return InputAudio(media=media)


def files_in(items: Iterable[AnyItem], files: Files) -> tuple[MediaFile, ...]:
    """The files that these items refer to, each once."""
    digests = {part.media.digest: None for item in items for part in _parts(item) if part.media.digest}
    return tuple(files[digest] for digest in digests)


def earlier(item: AnyItem) -> AnyItem:
    """The item of an earlier request, whose paths mean nothing in this one."""
    return _mapped(item, lambda part: replace(part, media=replace(part.media, param=EARLIER)))


def shown(item: AnyItem, files: Files) -> AnyItem:
    """The item for a client, with the pictures and sounds that are in `files`."""
    return _mapped(item, lambda part: _shown(part, files.get(part.media.digest)))


def _shown(part: MediaPart, file: MediaFile | None) -> MediaPart:
    if file is None:
        return replace(part, media=NO_MEDIA)
    encoded = base64.b64encode(file.data).decode()
    if isinstance(part, InputImage):
        return replace(part, image_url=f"data:{_type_of(file.data)};base64,{encoded}", media=NO_MEDIA)
    if isinstance(part, InputFile):
        return replace(part, file_data=f"data:{_type_of(file.data)};base64,{encoded}", media=NO_MEDIA)
    return replace(part, input_audio=AudioData(encoded, "wav" if file.data[:4] == b"RIFF" else "mp3"), media=NO_MEDIA)


def _type_of(data: bytes) -> str:
    found = (name for magic, name in _TYPES.items() if data.startswith(magic))
    return next(found, "application/octet-stream")


def _parts(item: AnyItem) -> Iterator[MediaPart]:
    given: Sequence[object] = item.content if isinstance(item, MessageItem) else ()
    if isinstance(item, CallOutput | CustomCallOutput):
        given = item.output
    elif isinstance(item, McpCall):
        given = item.content or ()
    yield from (part for part in given if isinstance(part, MediaPart))


def _mapped(item: AnyItem, change: Callable[[MediaPart], MediaPart]) -> AnyItem:
    if not any(_parts(item)):
        return item
    if isinstance(item, MessageItem):
        return replace(item, content=[change(p) if isinstance(p, MediaPart) else p for p in item.content])
    if isinstance(item, McpCall):
        return replace(item, content=[change(p) if isinstance(p, MediaPart) else p for p in item.content or ()])
    assert isinstance(item, CallOutput | CustomCallOutput)
    return replace(item, output=[change(p) if isinstance(p, MediaPart) else p for p in item.output])
