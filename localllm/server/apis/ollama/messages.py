"""Messages and tools as Ollama's clients send them, converted to a `Conversation`. Knows nothing of templates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from localllm.chat.media_files import MediaReading
from localllm.chat.unreadable import first_refused, stand_in, with_parts
from localllm.errors import InvalidParameter, UnsupportedParameter, clipped
from localllm.server.requests.call_ids import with_ids
from localllm.server.requests.field_rules import Fates, RefusedField
from localllm.server.requests.returned_text import returned_parts
from localllm.server.requests.tools import NO_ARGUMENTS, DeclaredTool, of_objects, told_tools
from localllm.server.requests.values import ObjectField, json_as
from localllm.types import Calling, Function, Media, Message, ToolCall
from localllm.types.conversation import Conversation

ROLES = ("system", "developer", "user", "assistant", "tool")


class CalledFunction(msgspec.Struct, frozen=True, kw_only=True):
    """The function of a call in an earlier answer."""

    fates: ClassVar[Fates] = Fates(ignored={"index": "calls are in order"})

    name: str
    arguments: ObjectField | UnsetType = UNSET
    """An object."""
    index: int | None = None


class MessageCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call in an earlier answer."""

    function: CalledFunction
    id: str | None = None

    def to_call(self, path: str) -> ToolCall:
        """Raises `InvalidParameter`."""
        arguments = json_as(self.function.arguments, f"{path}.function.arguments", "{", "an object")
        return ToolCall(self.function.name, arguments or "{}", self.id or "")


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the client sent it."""

    role: str
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    """Base64 or data URLs of pictures, and of sounds where the model hears; shown before the content."""
    tool_calls: list[MessageCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None

    def to_message(self, path: str, notes: list[str], reading: MediaReading, *, refuses: bool) -> Message:
        """`path`: of this message. `refuses`: images that are none are an error, not a note.

        Raises `InvalidParameter`, `UnsupportedParameter`.
        """
        role = self.role.lower()
        if role not in ROLES:
            raise InvalidParameter(
                f"{path}.role must be one of {', '.join(ROLES)}, got {clipped(self.role)!r}", param=f"{path}.role"
            )
        images = images_of(self.images, f"{path}.images", notes, reading, refuses=refuses)
        calls = [call.to_call(f"{path}.tool_calls[{index}]") for index, call in enumerate(self.tool_calls or ())]
        if calls and role != "assistant":
            where = f"{path}.tool_calls"
            raise InvalidParameter(f"{where}: only assistant messages have calls", param=where)
        return with_parts(
            Message(
                role,
                "",
                thought=(self.thinking or "") if role == "assistant" else "",
                tool_calls=tuple(calls),
                tool_call_id=self.tool_call_id or "",
                name=self.tool_name or "",
            ),
            [*images, *self._texts(role, path, reading)],
        )

    def _texts(self, role: str, path: str, reading: MediaReading) -> list[str | Media]:
        if not self.content:
            return []
        return returned_parts(self.content, f"{path}.content", reading) if role == "tool" else [self.content]


class OwnMessage(ChatMessage, frozen=True, kw_only=True):
    """A message of a model that is made."""

    fates: ClassVar[Fates] = Fates({"images": RefusedField("a model's own messages have no images", ([],))})


class ToolFunction(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str | None = None
    parameters: ObjectField | UnsetType = UNSET


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A function that may be called."""

    fates: ClassVar[Fates] = Fates(ignored={"type": "every tool is a function"})

    function: ToolFunction
    type: str | None = None


def to_conversation(messages: Sequence[ChatMessage]) -> Conversation:
    """Raises `InvalidParameter`, `UnsupportedParameter`."""
    first = first_refused([message.role.lower() for message in messages])
    return _converted(messages, first)


def to_messages(messages: Sequence[ChatMessage]) -> tuple[Message, ...]:
    """The messages of a model that is made, all without images. Raises `InvalidParameter`, `UnsupportedParameter`."""
    for index, message in enumerate(messages):
        if message.images:
            where = f"messages[{index}].images"
            raise UnsupportedParameter(f"{where}: a model's own messages have no images; leave it out", param=where)
    return _converted(messages, 0).messages


def _converted(messages: Sequence[ChatMessage], first_refused: int) -> Conversation:
    notes: list[str] = []
    reading = MediaReading()
    converted = [
        message.to_message(f"messages[{index}]", notes, reading, refuses=index >= first_refused)
        for index, message in enumerate(messages)
    ]
    return Conversation(with_ids(converted), tuple(notes), reading.files)


def tooling(tools: Sequence[Tool]) -> tuple[str, Calling | None]:
    """The tools for the template, and the callable ones. Raises `InvalidParameter`."""
    declared: dict[str, DeclaredTool] = {}
    for index, tool in enumerate(tools):
        function, path = tool.function, f"tools[{index}].function"
        if not function.name or function.name in declared:
            raise InvalidParameter(f"{path}.name is empty or used by another tool", param=f"{path}.name")
        where = f"{path}.parameters"
        schema = of_objects(json_as(function.parameters, where, "{", "an object"))
        parameters = Raw(schema.encode()) if schema else NO_ARGUMENTS
        called = Function(name=function.name, parameters=schema, param=where)
        declared[function.name] = DeclaredTool(called, path, function.description or "", parameters)
    functions = tuple(each.function for each in declared.values())
    return told_tools([*declared.values()]), Calling(functions=functions) if functions else None


def images_of(
    images: Sequence[str] | None, path: str, notes: list[str], reading: MediaReading, *, refuses: bool
) -> list[str | Media]:
    """Pictures, or notes in place of those that are none. `refuses`: these raise `InvalidParameter`."""
    found: list[str | Media] = []
    for index, image in enumerate(images or ()):
        where = f"{path}[{index}]"
        try:
            found.append(reading.image(image, where))
        except InvalidParameter as error:
            if refuses:
                raise
            found.append(stand_in("image", where, notes, error))
    return found
