"""Structured answers, whole and streamed, with their parsed value. Knows nothing about schemas."""

from __future__ import annotations

import json
from typing import Generic, TypeVar, cast

from localllm.errors import IncompleteDocument
from localllm.llm.schemas import SchemaShape
from localllm.llm.stream import AsyncStream, Caller, Stream
from localllm.runtime.runtime import Answer
from localllm.system.cancel import Cancel
from localllm.types import Chat, Finish, FinishReason

T = TypeVar("T")
_REASONS: dict[FinishReason, str] = {
    "length": "it was cut off by max_tokens; allow more tokens",
    "timeout": "it timed out; allow more time",
    "cancelled": "it was cancelled or not read to its end",
    "stop": "it was cut off by a stop string",
}
_CONTEXT_FULL = "the context is full; load the model with a larger ctx, or send a shorter prompt"

_CLOSED = (
    "it was closed early, with the shortest values, since max_tokens or the context ended; allow more tokens, or take "
    "it as it is with Structure.json(schema, close_at_limit=True)"
)


class ParsedChat(Chat, Generic[T], frozen=True, kw_only=True):
    """A whole answer with its value in `parsed`."""

    _document: Document[T]

    @property
    def parsed(self) -> T:
        """The value: an instance of the type given as `schema`; the JSON value for a JSON Schema; else the text.

        Raises `IncompleteDocument` if the answer was cut off, or closed early though nobody asked for that
        (`finish.reason` is not `stop`), or calls tools instead, and the error of pydantic or msgspec if the document
        breaks a rule that only the type has.
        """
        return self._document.value(self)


class Document(Generic[T]):
    """Parsed once, on first access and on that thread, since parsing may run the application's own code."""

    def __init__(self, shape: SchemaShape[T]) -> None:
        self._shape = shape
        self._values: list[T] = []

    def value(self, chat: Chat) -> T:
        """See `ParsedChat.parsed`."""
        if not self._values:
            if chat.finish.reason != "stop":
                raise _incomplete(chat.finish)
            if chat.calls:
                reason = "the answer calls tools and is not a document yet; send their results"
                raise IncompleteDocument(reason, param="schema", reason="stop")
            try:
                self._values.append(self._shape.read(chat.text))
            except json.JSONDecodeError as error:
                raise _incomplete(chat.finish) from error
        return self._values[0]

    def __repr__(self) -> str:
        return f"Document({', '.join(map(repr, self._values))})"


class AsyncParsedStream(AsyncStream, Generic[T]):
    """A stream whose result has `parsed`."""

    def __init__(self, owner: object, answer: Answer | None, cancel: Cancel | None, shape: SchemaShape[T]) -> None:
        super().__init__(owner, answer, cancel)
        self._shape = shape

    async def result(self) -> ParsedChat[T]:
        """Read to the end and return the whole answer, including what was read before."""
        return cast("ParsedChat[T]", await super().result())

    def so_far(self) -> ParsedChat[T]:
        """What was read so far, as an answer; its finish reason is `cancelled` if the end was not read."""
        chat = super().so_far()
        fields = {name: getattr(chat, name) for name in chat.__struct_fields__}
        return ParsedChat(**fields, _document=Document(self._shape))


class ParsedStream(Stream, Generic[T]):
    """`AsyncParsedStream` for blocking code."""

    def __init__(self, owner: Caller, stream: AsyncParsedStream[T]) -> None:
        super().__init__(owner, stream)

    def result(self) -> ParsedChat[T]:
        """Read to the end and return the whole answer, including what was read before."""
        return cast("ParsedChat[T]", super().result())


def _incomplete(finish: Finish) -> IncompleteDocument:
    why = _CLOSED if finish.is_closed else _CONTEXT_FULL if finish.is_context_full else _REASONS[finish.reason]
    return IncompleteDocument(f"the document is not complete: {why}", param="schema", reason=finish.reason)
