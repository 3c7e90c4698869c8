"""The system prompt and the messages of a request, as clients write them, and their conversion to a `Conversation`.

Images and documents that are none are refused in the turn to answer; elsewhere a note stands for them. What tools of
other vendors did is shown as calls and results. Whether a model reads images is decided where it runs. Knows nothing of
templates or replies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from localllm.chat.mcp_parts import McpPart, mcp_part
from localllm.chat.media_files import MediaReading
from localllm.chat.unreadable import drop, first_refused, stand_in, texts_in
from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.server.apis.anthropic.documents import ImageSource, document_parts
from localllm.server.requests.call_ids import with_ids
from localllm.server.requests.field_rules import Fates, Nested, RefusedField
from localllm.server.requests.parse import decoded, decoding
from localllm.server.requests.returned_text import returned_parts
from localllm.server.requests.values import json_of, message_of, missing, needed, wrong_content
from localllm.types import Media, Message, ToolCall
from localllm.types.conversation import Conversation
from localllm.types.documents import PageImages

_BILLING = re.compile(r"\Ax-anthropic-billing-header:[^\n]*\n*")
"""First line of Claude Code's system prompt. It contains a checksum of the request, so it would keep prompts from
sharing a cached prefix; it means nothing to a model.
"""
_ERROR_WITHIN = 40
"""How many characters of a failed call's result are searched for the word "error" before it is added."""


_TEXT_FIELDS = ("title", "source", "context", "content", "tool_name")
"""Fields in which blocks other than `text` have theirs."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A block without calls: text, an image, or what a note or its own texts stand for."""

    fates: ClassVar[Fates] = Fates(
        {"transformations": RefusedField("images are read as they are sent; change them first")},
        {
            "cache_control": "common prefixes are always cached",
            "caller": "every call comes from the model itself",
            "citations": "answers cite nothing; of earlier ones the text is used",
            "signature": "signatures of thoughts are not verified",
            "toolset_name": "calls are identified by their tool's name",
        },
    )

    type: str
    text: str | None = None
    source: Raw | UnsetType = UNSET
    """Of an image, a document or a search result."""
    title: Raw | UnsetType = UNSET
    context: Raw | UnsetType = UNSET
    tool_name: Raw | UnsetType = UNSET
    """Set for `tool_reference`."""
    content: Raw | UnsetType = UNSET
    """Set for results of tools and of searches: a text, blocks, or what a vendor's own tool returned."""
    pages: str | None = None
    """Pages, slides or sheets to take of a document, as `1-3,7`; all by default."""
    page_images: PageImages | None = None
    """Which pages of a PDF are shown as pictures: those without text (`auto`), `always` or `never`."""
    data: Raw | UnsetType = UNSET
    """This and what follows: of parts in MCP's and others' shapes, see `mcp_parts`; `data` also of encrypted thoughts,
    which no model reads."""
    image: Raw | UnsetType = UNSET
    audio: Raw | UnsetType = UNSET
    video: Raw | UnsetType = UNSET
    url: Raw | UnsetType = UNSET
    mimeType: Raw | UnsetType = UNSET
    mediaType: Raw | UnsetType = UNSET
    resource: Raw | UnsetType = UNSET
    uri: Raw | UnsetType = UNSET
    name: str | None = None
    """Also of a call."""

    def parts(self, path: str, notes: list[str], reading: MediaReading, *, refuses: bool = False) -> list[str | Media]:
        """Its texts, image or document, and stand-ins for the rest. `refuses`: what no model reads is an error.

        Raises `InvalidParameter`, `UnsupportedParameter`.
        """
        if self.text is None and (other := self._mcp_part) is not None:
            return [_mcp(other, path, notes, reading, refuses=refuses) if other.text is None else other.text]
        if self.type == "image" and self.text is None:
            return [self._image_or_note(path, notes, reading, refuses=refuses)]
        if self.type == "document" and self.text is None:
            return self._document_or_note(path, notes, reading, refuses=refuses)
        return [*self.texts(path, notes, refuses=refuses)]

    def texts(self, path: str, notes: list[str], *, refuses: bool = False) -> list[str]:
        """Its texts, and stand-ins for the rest, images too. Raises as `parts`."""
        if self.type == "text":
            return [needed(self.text, f"{path}.text")]
        if self.text is not None and not refuses:
            return [self.text]
        fields = {name: _values(getattr(self, name), f"{path}.{name}") for name in _TEXT_FIELDS}
        inner: list[str] = []
        texts = [*texts_in({"type": self.type, **fields}, path, inner)]
        if refuses and (inner or not texts or self.type not in _WITH_TEXTS):
            raise wrong_content(self.type, path)
        notes += inner
        return texts or [stand_in(self.type, path, notes)]

    @property
    def _mcp_part(self) -> McpPart | None:
        """What it is in MCP's shape; None: it has a `source`, as this API's images and documents do, or is none."""
        return mcp_part(self) if isinstance(self.source, UnsetType) else None

    def _image_or_note(self, path: str, notes: list[str], reading: MediaReading, *, refuses: bool) -> Media | str:
        try:
            if isinstance(self.source, UnsetType):
                raise missing(f"{path}.source")
            with decoding(f"{path}.source"):
                source: ImageSource = decoded(self.source, ImageSource)
            return source.media(path, reading)
        except (InvalidParameter, UnsupportedParameter) as error:
            if refuses:
                raise
            return stand_in(self.type, path, notes, error)

    def _document_or_note(
        self, path: str, notes: list[str], reading: MediaReading, *, refuses: bool
    ) -> list[str | Media]:
        try:
            return document_parts(self, path, reading)
        except (InvalidParameter, UnsupportedParameter):
            if refuses:
                raise
            return [*self.texts(path, notes)]


def _mcp(part: McpPart, path: str, notes: list[str], reading: MediaReading, *, refuses: bool) -> Media | str:
    try:
        return part.media(path, reading)
    except InvalidParameter as error:
        if refuses:
            raise
        return stand_in(part.type, path, notes, error)


_WITH_TEXTS = ("search_result", "tool_reference")
"""Blocks that a user may send for their texts."""


class ContentBlock(Block, frozen=True, kw_only=True):
    """A text, thought, call or result block."""

    thinking: str | None = None
    id: str | None = None
    """Set for calls."""
    input: Raw | UnsetType = UNSET
    """Of a call: an object."""
    tool_use_id: str | None = None
    """For results: the id of the call."""
    is_error: bool | None = None

    @property
    def is_call(self) -> bool:
        """Also of a tool that a vendor ran, whose result follows in the same message."""
        return self.type in ("tool_use", "server_tool_use", "mcp_tool_use")

    @property
    def is_result(self) -> bool:
        return self.type.endswith("tool_result")


class InputMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message. A system message may appear anywhere."""

    fates: ClassVar[Fates] = Fates(ignored={"output_config": "the request's applies to every turn"})
    nested: ClassVar[Nested] = ("content",)

    role: Literal["user", "assistant", "system"]
    content: str | list[ContentBlock]
    clear_at: Literal["next_user_message", "never"] | None = None
    """System messages only: whether the next user message ends its effect."""

    @property
    def has_results(self) -> bool:
        return not isinstance(self.content, str) and any(block.is_result for block in self.content)


def to_conversation(system: str | list[Block] | None, said: Sequence[InputMessage]) -> Conversation:
    """A whole conversation. Raises `InvalidParameter`, `UnsupportedParameter`."""
    if not said:
        raise InvalidParameter("messages: at least one message is required", param="messages")
    notes: list[str] = []
    reading = MediaReading()
    messages = [*_system(system, reading)]
    last = max((index for index, message in enumerate(said) if message.role == "user"), default=-1)
    first = first_refused(["tool" if message.has_results else message.role for message in said])
    for index, message in enumerate(said):
        if message.clear_at != "next_user_message" or index > last:
            messages += _turn(message, f"messages[{index}]", notes, reading, refuses=index >= first)
    if not any(message.role != "system" for message in messages):
        raise InvalidParameter("messages: at least one user message is required", param="messages")
    return Conversation(with_ids(messages), tuple(notes), reading.files)


def _system(system: str | list[Block] | None, reading: MediaReading) -> Iterator[Message]:
    blocks = system if isinstance(system, list) else [Block(type="text", text=system or "")]
    kept: list[str | Media] = []
    for index, block in enumerate(blocks):
        for part in block.parts(f"system[{index}]", [], reading, refuses=True):
            said = _BILLING.sub("", part) if isinstance(part, str) else part
            kept += [said] if said else []
    if kept:
        yield message_of("system", kept)


def _turn(
    message: InputMessage, path: str, notes: list[str], reading: MediaReading, *, refuses: bool
) -> Iterator[Message]:
    """Consecutive texts, images and calls are one message, and every result is one, in their order."""
    if isinstance(message.content, str):
        yield Message(message.role, message.content)
        return
    turn = _Turn(message.role)
    for index, block in enumerate(message.content):
        where = f"{path}.content[{index}]"
        if block.is_result:
            yield from turn.taken()
            yield _result(block, where, notes, reading)
        elif message.role == "assistant":
            turn.add(block, where, notes, reading)
        else:
            turn.parts += block.parts(where, notes, reading, refuses=refuses)
    yield from turn.taken() if turn or message.content else [Message(message.role, "")]


class _Turn:
    """The part of a message since its last result."""

    def __init__(self, role: str) -> None:
        self._role = role
        self.parts: list[str | Media] = []
        self.thoughts: list[str] = []
        self.calls: list[ToolCall] = []

    def __bool__(self) -> bool:
        return bool(self.parts or self.thoughts or self.calls)

    def add(self, block: ContentBlock, path: str, notes: list[str], reading: MediaReading) -> None:
        """A block of an assistant's message."""
        if block.type == "thinking":
            self.thoughts.append(block.thinking or "")
        elif block.is_call:
            arguments = json_of(block.input) or "{}"
            self.calls.append(ToolCall(needed(block.name, f"{path}.name"), arguments, block.id or ""))
        elif block.type == "redacted_thinking":
            self.thoughts.append("")
            drop(block.type, path, notes)
        else:
            self.parts += block.parts(path, notes, reading)

    def taken(self) -> Iterator[Message]:
        """The message, if there is any."""
        if self:
            yield msgspec.structs.replace(
                message_of(self._role, self.parts),
                thought="\n\n".join(filter(None, self.thoughts)),
                tool_calls=tuple(self.calls),
            )
        self.parts, self.thoughts, self.calls = [], [], []


def _result(block: ContentBlock, path: str, notes: list[str], reading: MediaReading) -> Message:
    call_id = needed(block.tool_use_id, f"{path}.tool_use_id") if block.type == "tool_result" else block.tool_use_id
    parts = _result_parts(block, f"{path}.content", notes, reading)
    first = parts[0] if parts and isinstance(parts[0], str) else ""
    if block.is_error and "error" not in first[:_ERROR_WITHIN].lower():
        parts = [f"Error: {first}".rstrip(), *(parts[1:] if first else parts)]
    return msgspec.structs.replace(message_of("tool", parts), tool_call_id=call_id or "")


def _result_parts(block: ContentBlock, path: str, notes: list[str], reading: MediaReading) -> list[str | Media]:
    if block.type not in ("tool_result", "mcp_tool_result") or isinstance(block.content, UnsetType):
        return [*texts_in(_values(block.content, path), path, notes)]
    with decoding(path):
        content = decoded(block.content, str | list[Block] | None)
    if isinstance(content, str):
        return returned_parts(content, path, reading)
    parts: list[str | Media] = []
    for index, each in enumerate(content or ()):
        where = f"{path}[{index}]"
        for part in each.parts(where, notes, reading):
            parts += returned_parts(part, where, reading) if isinstance(part, str) else [part]
    return parts


def _values(given: Raw | UnsetType, path: str) -> Any:
    with decoding(path):
        return msgspec.json.decode(json_of(given) or "null")
