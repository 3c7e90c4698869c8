"""A response as a stream of events: deltas in, typed and numbered events out; at last `end()` or `fail()`.

Knows nothing of HTTP and of what is kept. That the events add up to the whole response is tested at every split.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from localllm.errors import LocalLLMError
from localllm.server import sse
from localllm.server.errors import error_object
from localllm.server.openai.choices import Whole
from localllm.server.openai.logprobs import ChatLogprob, chat_logprobs
from localllm.server.responses import replies as out
from localllm.server.responses.items import Item, OutputText, new_id
from localllm.types import Delta, Finish, TokenLogprob


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """One step of the response's life."""

    sequence_number: int


class _OfResponse(Event, frozen=True, kw_only=True):
    response: out.ResponseObject


class Created(_OfResponse, frozen=True, kw_only=True, tag="response.created"):
    pass


class InProgress(_OfResponse, frozen=True, kw_only=True, tag="response.in_progress"):
    pass


class Completed(_OfResponse, frozen=True, kw_only=True, tag="response.completed"):
    pass


class Incomplete(_OfResponse, frozen=True, kw_only=True, tag="response.incomplete"):
    pass


class Failed(_OfResponse, frozen=True, kw_only=True, tag="response.failed"):
    pass


class _OfItem(Event, frozen=True, kw_only=True):
    output_index: int = 0
    item: Item


class ItemAdded(_OfItem, frozen=True, kw_only=True, tag="response.output_item.added"):
    pass


class ItemDone(_OfItem, frozen=True, kw_only=True, tag="response.output_item.done"):
    pass


class _OfPart(Event, frozen=True, kw_only=True):
    item_id: str
    output_index: int = 0
    content_index: int = 0


class PartAdded(_OfPart, frozen=True, kw_only=True, tag="response.content_part.added"):
    part: OutputText


class PartDone(_OfPart, frozen=True, kw_only=True, tag="response.content_part.done"):
    part: OutputText


class TextDelta(_OfPart, frozen=True, kw_only=True, tag="response.output_text.delta"):
    delta: str
    logprobs: list[ChatLogprob]


class TextDone(_OfPart, frozen=True, kw_only=True, tag="response.output_text.done"):
    text: str
    logprobs: list[ChatLogprob]


class ErrorEvent(Event, frozen=True, kw_only=True, tag="error"):
    """With our own code, where `response.failed` has one of OpenAI's."""

    code: str
    message: str
    param: str | None


AnyEvent = (
    Created | InProgress | Completed | Incomplete | Failed | ItemAdded | ItemDone | PartAdded | PartDone | TextDelta
    | TextDone | ErrorEvent
)  # fmt: skip


class Story:
    """The events of one response, in order; numbers them."""

    def __init__(self, response: out.ResponseObject, *, timings: bool) -> None:
        self.response = response
        """As the client knows it."""
        self._timings = timings
        self._item_id = new_id("msg")
        self._texts: list[str] = []
        self._logprobs: list[TokenLogprob] = []
        self._num_events = 0

    def begin(self) -> Iterator[Event]:
        """Before the first token."""
        yield Created(sequence_number=self._next(), response=self.response)
        yield InProgress(sequence_number=self._next(), response=self.response)
        item = Item(id=self._item_id, role="assistant", status="in_progress", content=[])
        yield ItemAdded(sequence_number=self._next(), item=item)
        yield PartAdded(sequence_number=self._next(), item_id=self._item_id, part=OutputText(""))

    def feed(self, delta: Delta) -> Iterator[Event]:
        """What came: its text, not its finish."""
        self._texts.append(delta.text)
        self._logprobs += delta.logprobs
        if delta.text or delta.logprobs:
            yield TextDelta(
                sequence_number=self._next(),
                item_id=self._item_id,
                delta=delta.text,
                logprobs=chat_logprobs(delta.logprobs).content,
            )

    def end(self, finish: Finish) -> list[Event]:
        """All the rest; from now on `response` is whole. Raises `Draining` if it was cut short from our side."""
        whole = Whole("".join(self._texts), finish, self._logprobs)
        item = out.message(self._item_id, whole)
        part = out.output_text(whole)
        self.response = out.ended(self.response, item, whole, timings=self._timings)
        last = Completed if self.response.status == "completed" else Incomplete
        return [
            TextDone(sequence_number=self._next(), item_id=item.id, text=part.text, logprobs=part.logprobs),
            PartDone(sequence_number=self._next(), item_id=item.id, part=part),
            ItemDone(sequence_number=self._next(), item=item),
            last(sequence_number=self._next(), response=self.response),
        ]

    def fail(self, error: LocalLLMError) -> list[Event]:
        """The end of one that went wrong. Twice, since there are clients that only look at one of the two."""
        shape = error_object(error)
        return [
            ErrorEvent(sequence_number=self._next(), code=shape.code, message=shape.message, param=shape.param),
            Failed(sequence_number=self._next(), response=out.failed(self.response, error)),
        ]

    def _next(self) -> int:
        self._num_events += 1
        return self._num_events - 1


def encode(event: Event) -> bytes:
    """With a line of its own for the type, as OpenAI sends it. There is no `[DONE]`: the last event says that it is."""
    return b"event: " + str(event.__struct_config__.tag).encode() + b"\n" + sse.data(msgspec.json.encode(event))
