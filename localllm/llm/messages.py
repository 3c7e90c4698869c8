"""Conversations of the Python API: dicts in the format of OpenAI's chat API, or `Message` objects.

Pictures, sounds and documents are paths, bytes, PIL's images or NumPy's arrays among the texts of a content, or parts
as in OpenAI's API or of MCP servers. A note stands for what no model reads, except in the turn to answer. Knows nothing
about rendering.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast, get_args

import msgspec

from localllm.chat.mcp_parts import mcp_part_of
from localllm.chat.media_files import MediaReading, is_text
from localllm.chat.surrogates import REPLACED, whole_struct
from localllm.chat.unreadable import first_refused, stand_in, with_parts
from localllm.errors import InvalidParameter, clipped
from localllm.llm.pictures import bytes_of
from localllm.types import Media, MediaKind, Message, ToolCall
from localllm.types.conversation import HEAD_BYTES, Conversation
from localllm.types.documents import DocumentOptions, PageImages

AnyMessage = Message | Mapping[str, Any]
Messages = Sequence[AnyMessage]

THOUGHTS = ("reasoning_content", "reasoning")
_FILE_KEYS = ("file_data", "filename", "title", "context", "pages", "page_images")
_OWN_KEYS = ("image_url", "input_audio", "audio_url", "input_video", "video_url", "file_data")
_KEYS = ("role", "content", "name", "tool_calls", "tool_call_id", *THOUGHTS)


def to_conversation(messages: Messages) -> Conversation:
    """The conversation as `Message` objects. Raises `InvalidParameter`."""
    if isinstance(messages, str | bytes | Mapping | Message) or not isinstance(messages, Iterable):
        raise InvalidParameter(
            'messages must be a list like [{"role": "user", "content": "Hello"}]; complete() takes plain text',
            param="messages",
        )
    given, notes, reading = tuple(messages), list[str](), MediaReading()
    first = first_refused([*map(_role, given)])
    turns = tuple(
        _whole(_message(message, path, notes, reading, refuses=number >= first), path, notes)
        for number, message in enumerate(given)
        for path in [f"messages[{number}]"]
    )
    if not turns:
        raise InvalidParameter("messages is empty; give at least one", param="messages")
    return Conversation(turns, tuple(notes), reading.files)


def _whole(message: Message, path: str, notes: list[str]) -> Message:
    whole = whole_struct(message)
    if whole is not message:
        notes.append(f"{path}: {REPLACED}")
    return whole


def _role(message: object) -> str:
    role = message.get("role") if isinstance(message, Mapping) else getattr(message, "role", "")
    return role if isinstance(role, str) else ""


def _message(message: object, path: str, notes: list[str], reading: MediaReading, *, refuses: bool) -> Message:
    if isinstance(message, Message):
        if message.media:
            raise InvalidParameter("a Message has no bytes of its pictures; give them in a dict's content", param=path)
        try:
            return msgspec.convert(msgspec.to_builtins(message), Message)
        except (msgspec.ValidationError, TypeError):
            raise _incomplete(path) from None
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise _incomplete(path)
    for key, value in message.items():
        if key not in _KEYS and value is not None:
            known = ", ".join(_KEYS)
            raise InvalidParameter(f"{clipped(repr(key))} is not a key of a message; known: {known}", param=path)
    role, content = message["role"], message.get("content")
    parts: list[str | Media] = []
    calls = tuple(
        _call(call, f"{path}.tool_calls[{number}]") for number, call in enumerate(message.get("tool_calls") or ())
    )
    thought = next((text for name in THOUGHTS if (text := _text(message, name, path))), "")
    if calls and role != "assistant":
        raise InvalidParameter("only messages of the role assistant may have tool_calls", param=f"{path}.tool_calls")
    if isinstance(content, Sequence) and not isinstance(content, str | bytes):
        parts = [
            _part(part, f"{path}.content[{number}]", notes, reading, refuses=refuses)
            for number, part in enumerate(content)
        ]
    elif isinstance(content, str):
        parts = [content]
    elif content is not None or not (calls or thought):
        raise _incomplete(path)
    return with_parts(
        Message(
            role,
            "",
            thought=thought,
            tool_calls=calls,
            tool_call_id=_text(message, "tool_call_id", path),
            name=_text(message, "name", path),
        ),
        parts,
    )


def _part(part: object, path: str, notes: list[str], reading: MediaReading, *, refuses: bool) -> str | Media:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        data = bytes_of(part, path)
        name = os.path.basename(os.fspath(part)) if isinstance(part, os.PathLike) else ""
        return reading.of(data, path, _kind_of(data), options=DocumentOptions(name=name))
    kind = part.get("type")
    if not isinstance(kind, str):
        raise InvalidParameter('a part that is a dict is one such as {"type": "text", "text": ...}', param=path)
    text = part.get("text")
    media, unreadable = None, None
    other = None if _has_own(part, kind) else mcp_part_of(part)
    if other is not None and other.text is not None:
        return other.text
    try:
        media = (
            _openai_media(part, kind, path, reading) if other is None else _fetched(other.media(path, reading), path)
        )
    except InvalidParameter as error:
        if refuses:
            raise
        unreadable = error
    if media is not None:
        return media
    if isinstance(text, str) and (kind == "text" or not refuses):
        return text
    if kind == "text" or refuses:
        raise InvalidParameter(
            "a part of type text needs a text"
            if kind == "text"
            else f"content of type {clipped(kind)!r} is not supported",
            param=path,
        )
    return stand_in(kind, path, notes, unreadable)


def _has_own(part: Mapping[str, Any], kind: str) -> bool:
    """Whether it has a field of OpenAI's API, or of a document here."""
    return any(name in part for name in _OWN_KEYS) or (kind in ("file", "document") and kind in part)


def _fetched(media: Media, path: str) -> Media:
    """Raises `InvalidParameter` for an address."""
    if media.url:
        raise _address(path)
    return media


def _openai_media(part: Mapping[str, Any], kind: str, path: str, reading: MediaReading) -> Media | None:
    """A picture, video or sound as in OpenAI's API; None for other parts."""
    if kind in ("file", "input_file", "document"):
        return _document(part, kind, path, reading)
    if kind not in ("image_url", "input_image", "input_audio", "audio_url", "input_video", "video_url"):
        return None
    given = part.get("image_url" if kind == "input_image" else kind)
    inner = given if isinstance(given, Mapping) else {"url": given, "data": given}
    source = inner.get("data" if kind in ("input_audio", "input_video") else "url")
    detail = inner.get("detail", part.get("detail"))
    if not isinstance(source, str) or not isinstance(detail, str | None):
        raise InvalidParameter(f"a part of type {kind} needs a text: a data URL or base64", param=path)
    if "image" in kind:
        media = reading.image(source, path, detail)
    else:
        media = (reading.audio if "audio" in kind else reading.video)(source, path)
    return _fetched(media, path)


def _document(part: Mapping[str, Any], kind: str, path: str, reading: MediaReading) -> Media:
    """As in OpenAI's APIs; `file_data` may also be bytes or a path."""
    inner = part.get(kind)
    given = inner if isinstance(inner, Mapping) else part
    unknown = given.keys() - {"type", *_FILE_KEYS}
    if unknown:
        known = ", ".join(_FILE_KEYS)
        raise InvalidParameter(f"{clipped(repr(min(unknown)))} is not a key of a file; known: {known}", param=path)
    source = given.get("file_data")
    name = _text(given, "filename", path)
    if not name and isinstance(source, os.PathLike):
        name = os.path.basename(os.fspath(source))
    page_images = given.get("page_images") or "auto"
    if page_images not in get_args(PageImages):
        raise InvalidParameter(f"page_images must be one of {', '.join(get_args(PageImages))}", param=path)
    options = DocumentOptions(
        name=name,
        title=_text(given, "title", path),
        context=_text(given, "context", path),
        pages=_text(given, "pages", path),
        page_images=cast(PageImages, page_images),
    )
    if source is None:
        raise InvalidParameter("a file needs file_data: a path, bytes, a data URL or base64", param=path)
    if not isinstance(source, str):
        return reading.of(bytes_of(source, path), path, "document", options=options)
    return _fetched(reading.document(source, path, options), path)


def _kind_of(data: bytes) -> MediaKind:
    """What bytes are that do not say it: a text, or a picture in a format without a mark."""
    is_pnm = data[:1] == b"P" and data[1:2] in b"123456" and data[2:3].isspace()
    return "document" if data and is_text(data[:HEAD_BYTES]) and not is_pnm else "image"


def _address(path: str) -> InvalidParameter:
    return InvalidParameter("addresses are not fetched here; give a path, bytes, or a data URL", param=path)


def _call(call: object, path: str) -> ToolCall:
    if isinstance(call, ToolCall):
        return call
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise InvalidParameter(
            'a call is a ToolCall, or {"id": ..., "type": "function", "function": {"name": ..., "arguments": ...}}',
            param=path,
        )
    arguments = function.get("arguments", "{}")
    if not isinstance(arguments, str):
        try:
            arguments = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidParameter(
                f"the arguments cannot be written as JSON: {error}", param=f"{path}.function"
            ) from error
    return ToolCall(function["name"], arguments or "{}", _text(call, "id", path))


def _text(given: Mapping[str, Any], name: str, path: str) -> str:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidParameter(f"{name} must be a string, got {clipped(repr(value))}", param=f"{path}.{name}")
    return value or ""


def _incomplete(path: str) -> InvalidParameter:
    return InvalidParameter("each message needs role and content, both strings", param=path)
