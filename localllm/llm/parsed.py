"""Answers of a shape that was asked for, whole and as they come. Knows nothing of schemas."""

from __future__ import annotations

import json
from typing import Generic, TypeVar, cast

from localllm.cancel import Cancel
from localllm.errors import IncompleteDocument
from localllm.llm.schemas import Shape
from localllm.llm.stream import AsyncStream, Caller, Stream
from localllm.runtime.runtime import Answer
from localllm.types import Chat, FinishReason

T = TypeVar("T")
_REASONS: dict[FinishReason, str] = {
    "length": "max_tokens, or the end of the context, cut it; allow more tokens",
    "timeout": "its time was over; allow more",
    "cancelled": "it was cancelled, or not read to its end",
    "stop": "a stop string cut it",
}


class ParsedChat(Chat, Generic[T], frozen=True, kw_only=True):
    """A whole answer whose `parsed` is the value that was asked for."""

    _document: Document[T]

    @property
    def parsed(self) -> T:
        """The value: of the type that was given as `schema`; what JSON says, for a dict; the text, for what is no JSON.

        Raises `IncompleteDocument` where the answer was cut (`finish.reason` is not `stop`) or calls tools instead, and
        the error of pydantic or msgspec where the type has rules of its own that the document breaks.
        """
        return self._document.value(self)


class Document(Generic[T]):
    """Read once, when somebody asks, in that thread: reading runs the application's own code."""

    def __init__(self, shape: Shape[T]) -> None:
        self._shape = shape
        self._values: list[T] = []

    def value(self, chat: Chat) -> T:
        """See `ParsedChat.parsed`."""
        if not self._values:
            if chat.finish.reason != "stop":
                raise _incomplete(chat.finish.reason)
            if chat.calls:
                told = "the answer is calls of tools, and no document yet: send their results"
                raise IncompleteDocument(told, param="schema", reason="stop")
            try:
                self._values.append(self._shape.read(chat.text))
            except json.JSONDecodeError as error:
                raise _incomplete("stop") from error
        return self._values[0]

    def __repr__(self) -> str:
        return f"Document({', '.join(map(repr, self._values))})"


class AsyncParsedStream(AsyncStream, Generic[T]):
    """A stream whose result has `parsed`."""

    def __init__(self, owner: object, answer: Answer | None, cancel: Cancel | None, shape: Shape[T]) -> None:
        super().__init__(owner, answer, cancel)
        self._shape = shape

    async def result(self) -> ParsedChat[T]:
        """Read to the end; the whole answer, with what was read before."""
        return cast("ParsedChat[T]", await super().result())

    def so_far(self) -> ParsedChat[T]:
        """What was read, as an answer; `cancelled` if its end was not."""
        chat = super().so_far()
        fields = {name: getattr(chat, name) for name in chat.__struct_fields__}
        return ParsedChat(**fields, _document=Document(self._shape))


class ParsedStream(Stream, Generic[T]):
    """The same, for code that blocks."""

    def __init__(self, owner: Caller, stream: AsyncParsedStream[T]) -> None:
        super().__init__(owner, stream)

    def result(self) -> ParsedChat[T]:
        """Read to the end; the whole answer, with what was read before."""
        return cast("ParsedChat[T]", super().result())


def _incomplete(reason: FinishReason) -> IncompleteDocument:
    return IncompleteDocument(f"the document is not complete: {_REASONS[reason]}", param="schema", reason=reason)
