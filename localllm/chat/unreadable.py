"""What stands in a conversation for contents that a text model cannot read: pictures, sounds, files, blocks of other
vendors' tools.

Decides also in which turn they are refused instead. Knows no API's JSON.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from localllm.errors import LocalLLMError, UnsupportedParameter, clipped
from localllm.types import Media, Message

SCREENSHOT = "computer_screenshot"
"""The type of what OpenAI's tool for computers returns."""
MEDIA: Mapping[str, str] = {
    "audio": "audio",
    "audio_url": "audio",
    SCREENSHOT: "image",
    "container_upload": "file",
    "document": "document",
    "document_url": "document",
    "file": "file",
    "file-data": "file",
    "file-url": "file",
    "image": "image",
    "image-data": "image",
    "image-url": "image",
    "image_file": "image",
    "image_url": "image",
    "input_audio": "audio",
    "input_file": "file",
    "input_image": "image",
    "input_video": "video",
    "media": "file",
    "output_audio": "audio",
    "output_image": "image",
    "resource": "file",
    "video": "video",
    "video_url": "video",
}
"""Type of a part in any API -> what it is."""
_ABILITIES = {"audio": "hear audio", "image": "see images", "video": "see videos", "document": "read documents"}
_WHY = {what: f"the model cannot {ability}" for what, ability in _ABILITIES.items()}
NEEDS_AV = 'what decodes them is not installed; pip install "localllm[media]" does that'
"""Why a model that sees pictures sees no videos."""
_TEXTS = (
    "title", "url", "source", "context", "text", "content", "stdout", "stderr", "output", "logs", "error_code",
    "error_message", "tool_name", "tool_references",
)  # fmt: skip
"""Fields of other vendors' blocks that are text, or contain it; other fields are ids, dates and encrypted data."""
_MAX_DEPTH = 8
"""Levels of blocks within blocks that are read; published ones have four."""


def first_refused(roles: Sequence[str]) -> int:
    """Index of the first user message whose pictures are refused: those of the turn that is to be answered.

    Earlier ones have been answered, perhaps by another model, and a client cannot take them back. The same holds for a
    turn after a tool's result, where agents send pictures that a tool took: nothing is refused there.
    """
    begins = 1 + max((index for index, role in enumerate(roles) if role == "assistant"), default=-1)
    return len(roles) if "tool" in roles[begins:] else begins


def stand_in(kind: str, path: str, notes: list[str], error: LocalLLMError | None = None) -> str:
    """The text in place of a part of this type at `path`; adds a note. `error`: why it cannot be read by any model."""
    what = MEDIA.get(kind, clipped(kind))
    if error is not None:
        notes.append(f"{path}: {what} omitted: {error.message}")
        return f"[{what} omitted: it cannot be read]"
    omission = f"{what} omitted: {_WHY.get(what, 'the model reads only text')}"
    notes.append(f"{path}: {omission}")
    return f"[{omission}]"


def readable(
    messages: Sequence[Message], kinds: Container[str], model: str, why: str
) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """The messages with notes in place of pictures and sounds that the model does not read, and these notes.

    `kinds`: what it reads; `why`: why it reads no more, and the remedy, behind a semicolon. Raises
    `UnsupportedParameter` in the turn to answer.
    """
    if not any(message.media for message in messages):
        return tuple(messages), ()
    first = first_refused([message.role for message in messages])
    notes: list[str] = []
    made = []
    for index, message in enumerate(messages):
        parts: list[str | Media] = []
        for part in message.parts:
            if isinstance(part, str) or part.kind in kinds:
                parts.append(part)
                continue
            if part.instead:
                notes.append(f"{part.param}: page {part.page} omitted: {_WHY[part.kind]}")
                parts.append(part.instead)
                continue
            if index >= first and message.role != "assistant":
                lacks = f"{part.param}: {model} cannot {_ABILITIES[part.kind]}"
                if part.kind == "video" and "image" in kinds:
                    why = NEEDS_AV
                raise UnsupportedParameter(f"{lacks}: {why}" if why else f"{lacks}; leave it out", param=part.param)
            parts.append(stand_in(part.kind, part.param, notes))
        made.append(with_parts(message, parts) if message.media else message)
    return tuple(made), tuple(notes)


def with_parts(message: Message, parts: Sequence[str | Media]) -> Message:
    """The message with this content: its texts joined as llama-server and vLLM do."""
    texts = [part for part in parts if isinstance(part, str)]
    is_plain = len(texts) == len(parts) < 2
    return replace(message, content="\n".join(texts), parts=() if is_plain else tuple(parts))


def drop(kind: str, path: str, notes: list[str]) -> None:
    """Adds a note about a part without a text, such as an encrypted thought."""
    notes.append(f"{path}: {clipped(kind)} omitted")


def texts_in(block: Any, path: str, notes: list[str], depth: int = _MAX_DEPTH) -> Iterator[str]:
    """The texts in a block of JSON values, as of a web search or a document; stand-ins for pictures in it."""
    if isinstance(block, str):
        yield from filter(None, [block])
    elif isinstance(block, list) and depth:
        for each in block:
            yield from texts_in(each, path, notes, depth - 1)
    elif isinstance(block, dict) and depth:
        source = block.get("source")
        if isinstance(source, dict) and source.get("type") in ("text", "content"):  # a document's
            block = {**block, "source": None, "text": source.get("data"), "content": source.get("content")}
        elif isinstance(kind := block.get("type"), str) and kind in MEDIA:
            yield from (text for name in ("title", "context") if isinstance(text := block.get(name), str))
            yield stand_in(kind, path, notes)
            return
        for name in _TEXTS:
            yield from texts_in(block.get(name), path, notes, depth - 1)
