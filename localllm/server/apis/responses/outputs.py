"""What tools returned, as clients send it back: a text, or parts with pictures, sounds and documents in any shape.

What no model can read becomes a note; nothing is refused, since the turn has been answered. Knows nothing of items.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Raw, UnsetType
from msgspec.structs import replace

from localllm.chat.media_files import MediaReading
from localllm.chat.unreadable import MEDIA, SCREENSHOT, stand_in
from localllm.errors import InvalidParameter
from localllm.server.apis.responses.items import AnyItem, InputPart, InputText, McpCall
from localllm.server.apis.responses.media import part_of
from localllm.server.requests.content_parts import ChatPart, media_or_note
from localllm.server.requests.parse import fields_of, small
from localllm.server.requests.returned_text import returned_parts
from localllm.server.requests.values import json_of, json_or_text
from localllm.types import Media


def output_of(given: Raw | UnsetType, path: str, notes: list[str], reading: MediaReading) -> str | list[InputPart]:
    """A text, or parts; parts that no model can read become a note. Raises `InvalidParameter`."""
    raw = b"" if isinstance(given, UnsetType) else bytes(given).strip()
    if raw.startswith(b"{") and small(fields_of(raw).get("type")) == SCREENSHOT:
        raw = b"[%b]" % raw
    if not raw.startswith(b"["):
        return _of_text(json_or_text(given, path), path, reading)
    try:
        parts = msgspec.json.decode(raw, type=list[ChatPart])
    except msgspec.ValidationError:
        return _of_text(json_of(given), path, reading)  # a list of something else: the tool's own result
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidParameter(f"{path} is not valid JSON: {error}", param=path) from error
    return [made for index, part in enumerate(parts) for made in _parts(part, f"{path}[{index}]", notes, reading)]


def with_content(item: AnyItem, reading: MediaReading) -> AnyItem:
    """The item with the parts of its output, if it is a call that this server made and that returned files."""
    if not isinstance(item, McpCall) or item.content or not item.output:
        return item
    output = _of_text(item.output, "input", reading)
    return item if isinstance(output, str) else replace(item, content=output)


def texts_of(parts: Iterable[InputPart]) -> str:
    """The texts among the parts."""
    return "\n".join(part.text for part in parts if isinstance(part, InputText))


def _of_text(text: str, path: str, reading: MediaReading) -> str | list[InputPart]:
    """A text, or the parts whose JSON it is."""
    parts = returned_parts(text, path, reading)
    return [*map(_input_part, parts)] if any(isinstance(part, Media) for part in parts) else text


def _parts(part: ChatPart, path: str, notes: list[str], reading: MediaReading) -> Iterator[InputPart]:
    """What a model reads of a part of what a tool returned."""
    if part.type == SCREENSHOT:
        part = msgspec.structs.replace(part, type="input_image")
    if part.is_media:
        yield _input_part(media_or_note(part, path, notes, reading, refuses=False))
    elif (said := part.resource_text) is not None:
        yield InputText(said)
    elif part.type in MEDIA:
        yield InputText(stand_in(part.type, path, notes))
    else:
        yield from map(_input_part, returned_parts(part.text or "", path, reading))


def _input_part(part: str | Media) -> InputPart:
    return InputText(part) if isinstance(part, str) else part_of(part)
