"""The messages of a chat request, as clients write them, converted to a `Conversation`.

Accepts what agents send back: results of unknown calls, arguments that are not JSON, null contents, rewritten ids,
and contents that no model reads, except in the turn to answer. Whether a model reads pictures is decided where it runs.
Raises `RequestError`s that name the field at fault as a JSON path. Knows nothing of chat templates.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from localllm.chat.media_files import MediaReading
from localllm.chat.unreadable import drop, first_refused, stand_in
from localllm.errors import InvalidParameter, clipped
from localllm.server.requests.call_ids import with_ids
from localllm.server.requests.content_parts import ChatPart, media_or_note
from localllm.server.requests.field_rules import Fates
from localllm.server.requests.returned_text import returned_parts
from localllm.server.requests.values import json_or_text, message_of, missing, needed, wrong_content
from localllm.types import Media, Message, ToolCall
from localllm.types.conversation import Conversation

ROLES = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
"""Role in a request -> role in a `Message`."""

Arguments = Annotated[Raw, Meta(extra_json_schema={"type": ["string", "object", "null"]})]

_ENCRYPTED = ("redacted_thinking", "reasoning.encrypted")
"""Types of thoughts that only another vendor can read."""


class EarlierAudio(msgspec.Struct, frozen=True):
    """A spoken answer of another model."""

    fates: ClassVar[Fates] = Fates(
        ignored=dict.fromkeys(("id", "data", "expires_at"), "the transcript is shown to the model")
    )

    transcript: str | None = None


class CalledFunction(msgspec.Struct, frozen=True):
    name: str
    arguments: Arguments | UnsetType = UNSET
    """A string with JSON; some clients send the object itself."""

    def to_call(self, path: str, id: str | None = None) -> ToolCall:
        """Arguments as JSON. Raises `InvalidParameter`."""
        text = json_or_text(self.arguments, f"{path}.arguments")
        return ToolCall(self.name, "{}" if text in ("", "null") else text, id or "")


class CalledCustom(msgspec.Struct, frozen=True):
    name: str
    input: str = ""


class MessageCall(msgspec.Struct, frozen=True):
    """A call in an earlier answer."""

    id: str | None = None
    type: str | None = None
    function: CalledFunction | None = None
    custom: CalledCustom | None = None

    def to_call(self, path: str) -> ToolCall:
        """Raises `InvalidParameter`."""
        if self.function is not None:
            return self.function.to_call(f"{path}.function", self.id)
        if self.custom is not None:
            arguments = json.dumps({"input": self.custom.input}, ensure_ascii=False)
            return ToolCall(self.custom.name, arguments, self.id or "")
        raise missing(f"{path}.function")


class ChatMessage(msgspec.Struct, frozen=True):
    """A message as the client sent it."""

    role: str
    content: str | list[ChatPart] | None = None
    name: str | None = None
    tool_calls: list[MessageCall] | None = None
    tool_call_id: str | None = None
    function_call: CalledFunction | None = None
    """The deprecated form of `tool_calls`."""
    reasoning_content: str | None = None
    """The thought of an earlier answer."""
    reasoning: str | None = None
    """The same, as vLLM and OpenRouter call it."""
    refusal: str | None = None
    audio: EarlierAudio | str | None = None
    """An earlier answer that was spoken."""

    def to_message(self, path: str, notes: list[str], reading: MediaReading, *, refuses: bool) -> Message:
        """Converts the message at `path`. `refuses`: what no model reads is an error, not a note.

        Raises `InvalidParameter`, `UnsupportedParameter`.
        """
        if self.role not in ROLES:
            known, given = ", ".join(ROLES), clipped(self.role)
            raise InvalidParameter(f"{path}.role must be one of {known}, got {given!r}", param=f"{path}.role")
        role = ROLES[self.role]
        if self.content is None and role not in ("assistant", "tool"):
            raise missing(f"{path}.content")
        parts, thoughts = self._parts(f"{path}.content", notes, reading, refuses=refuses)
        if isinstance(self.audio, EarlierAudio) and not any(parts):
            parts = [self.audio.transcript or stand_in("audio", f"{path}.audio", notes)]
        calls = [call.to_call(f"{path}.tool_calls[{index}]") for index, call in enumerate(self.tool_calls or ())]
        if self.function_call is not None:
            calls.append(self.function_call.to_call(f"{path}.function_call"))
        if calls and role != "assistant":
            where = f"{path}.tool_calls"
            raise InvalidParameter(f"{where}: only assistant messages have calls", param=where)
        thought = self.reasoning_content or self.reasoning or "\n".join(thoughts)
        message = message_of(role, parts)
        return msgspec.structs.replace(
            message,
            content=message.content or (self.refusal or "" if role == "assistant" else ""),
            thought=thought if role == "assistant" else "",
            tool_calls=tuple(calls),
            tool_call_id=self.tool_call_id or "",
            name=self.name or "",
        )

    def _parts(
        self, path: str, notes: list[str], reading: MediaReading, *, refuses: bool
    ) -> tuple[list[str | Media], list[str]]:
        """The texts, pictures, videos and sounds of the content, and its thoughts."""
        is_result = ROLES[self.role] == "tool"
        if not isinstance(self.content, list):
            text = self.content or ""
            return returned_parts(text, path, reading) if is_result else [text], []
        texts: list[str | Media] = []
        thoughts: list[str] = []
        for index, part in enumerate(self.content):
            where = f"{path}[{index}]"
            if part.type == "thinking":
                thoughts.append(needed(part.thought, f"{where}.thinking"))
            elif part.type == "text" and is_result:
                texts += returned_parts(needed(part.text, f"{where}.text"), where, reading)
            elif part.type in ("text", "refusal"):
                texts.append(needed(part.text if part.type == "text" else part.refusal, f"{where}.{part.type}"))
            elif part.is_media:
                texts.append(media_or_note(part, where, notes, reading, refuses=refuses))
            elif (said := part.resource_text) is not None:
                texts.append(said)
            elif refuses:
                raise wrong_content(part.type, where)
            elif part.type in _ENCRYPTED:
                drop(part.type, where, notes)
            else:
                texts.append(stand_in(part.type, where, notes) if part.text is None else part.text)
        return texts, thoughts


def to_conversation(messages: Sequence[ChatMessage]) -> Conversation:
    """A whole conversation, in the field `messages`. Raises `InvalidParameter`, `UnsupportedParameter`."""
    if not messages:
        raise InvalidParameter("messages must not be empty", param="messages")
    notes: list[str] = []
    first = first_refused([ROLES.get(message.role, "") for message in messages])
    reading = MediaReading()
    converted = [
        message.to_message(f"messages[{index}]", notes, reading, refuses=index >= first)
        for index, message in enumerate(messages)
    ]
    return Conversation(with_ids(converted), tuple(notes), reading.files)
