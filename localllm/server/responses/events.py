"""A response as a stream of events: deltas in, typed and numbered events out; at last `end()` or `fail()`.

Knows nothing of HTTP and of what is kept. That the events add up to the whole response is tested at every split.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from localllm.errors import LocalLLMError
from localllm.server import sse
from localllm.server.errors import error_object
from localllm.server.openai.choices import Whole
from localllm.server.openai.logprobs import ChatLogprob, chat_logprobs
from localllm.server.responses import replies as out
from localllm.server.responses.items import Item, OutputText, ReasoningText, ThoughtItem, new_id
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
    output_index: int
    item: ThoughtItem | Item


class ItemAdded(_OfItem, frozen=True, kw_only=True, tag="response.output_item.added"):
    pass


class ItemDone(_OfItem, frozen=True, kw_only=True, tag="response.output_item.done"):
    pass


class _OfPart(Event, frozen=True, kw_only=True):
    item_id: str
    output_index: int
    content_index: int = 0


class PartAdded(_OfPart, frozen=True, kw_only=True, tag="response.content_part.added"):
    part: ReasoningText | OutputText


class PartDone(_OfPart, frozen=True, kw_only=True, tag="response.content_part.done"):
    part: ReasoningText | OutputText


class ThoughtDelta(_OfPart, frozen=True, kw_only=True, tag="response.reasoning_text.delta"):
    delta: str


class ThoughtDone(_OfPart, frozen=True, kw_only=True, tag="response.reasoning_text.done"):
    text: str


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
    Created | InProgress | Completed | Incomplete | Failed | ItemAdded | ItemDone | PartAdded | PartDone | ThoughtDelta
    | ThoughtDone | TextDelta | TextDone | ErrorEvent
)  # fmt: skip


class Story:
    """The events of one response, in order; numbers them."""

    def __init__(self, response: out.ResponseObject, *, timings: bool) -> None:
        self.response = response
        """As the client knows it."""
        self._timings = timings
        self._thought_id = new_id("rs")
        self._item_id = new_id("msg")
        self._thoughts: list[str] = []
        self._texts: list[str] = []
        self._logprobs: list[TokenLogprob] = []
        self._early: list[TokenLogprob] = []
        """From before any text: of the thought's tokens, if there is a thought."""
        self._has_message = False
        self._num_events = 0

    def begin(self) -> Iterator[Event]:
        """Before the first token."""
        yield Created(sequence_number=self._next(), response=self.response)
        yield InProgress(sequence_number=self._next(), response=self.response)

    def feed(self, delta: Delta) -> Iterator[Event]:
        """What came: its thought and its text, not its finish."""
        if delta.thought:
            yield from self._thought(delta.thought)
        if not delta.text and not self._has_message:
            self._early += delta.logprobs
        elif delta.text or delta.logprobs:
            yield from self._text(delta.text, delta.logprobs)

    def end(self, finish: Finish) -> list[Event]:
        """All the rest; from now on `response` is whole. Raises `Draining` if it was cut short from our side."""
        thoughts = "".join(self._thoughts)
        thought = out.thought(self._thought_id, Whole("".join(self._texts), finish, [], thought=thoughts))
        begun = [] if self._has_message else list(self._begin_message(thought))
        whole = Whole("".join(self._texts), finish, self._logprobs, thought=thoughts)
        item = out.message(self._item_id, whole)
        part, index = out.output_text(whole), self._index
        items: list[ThoughtItem | Item] = [thought] if thoughts else []
        self.response = out.ended(self.response, [*items, item], whole, timings=self._timings)
        last = Completed if self.response.status == "completed" else Incomplete
        return [
            *begun,
            TextDone(
                sequence_number=self._next(),
                item_id=item.id,
                output_index=index,
                text=part.text,
                logprobs=part.logprobs,
            ),
            PartDone(sequence_number=self._next(), item_id=item.id, output_index=index, part=part),
            ItemDone(sequence_number=self._next(), output_index=index, item=item),
            last(sequence_number=self._next(), response=self.response),
        ]

    @property
    def _index(self) -> int:
        """The message's place in the output."""
        return 1 if self._thoughts else 0

    def _text(self, text: str, logprobs: Sequence[TokenLogprob]) -> Iterator[Event]:
        if not self._has_message:
            yield from self._begin_message()
        self._texts.append(text)
        self._logprobs += logprobs
        yield TextDelta(
            sequence_number=self._next(),
            item_id=self._item_id,
            output_index=self._index,
            delta=text,
            logprobs=chat_logprobs(logprobs).content,
        )

    def _thought(self, text: str) -> Iterator[Event]:
        id = self._thought_id
        if not self._thoughts:
            item = ThoughtItem(id=id, status="in_progress", content=[])
            yield ItemAdded(sequence_number=self._next(), output_index=0, item=item)
            yield PartAdded(sequence_number=self._next(), item_id=id, output_index=0, part=ReasoningText(""))
        self._thoughts.append(text)
        yield ThoughtDelta(sequence_number=self._next(), item_id=id, output_index=0, delta=text)

    def _begin_message(self, thought: ThoughtItem | None = None) -> Iterator[Event]:
        """After the end of the thought, if there was any; `thought` where that was cut."""
        self._has_message = True
        if self._thoughts:
            id, part = self._thought_id, ReasoningText("".join(self._thoughts))
            item = thought or ThoughtItem(id=id, content=[part])
            yield ThoughtDone(sequence_number=self._next(), item_id=id, output_index=0, text=part.text)
            yield PartDone(sequence_number=self._next(), item_id=id, output_index=0, part=part)
            yield ItemDone(sequence_number=self._next(), output_index=0, item=item)
        id, index = self._item_id, self._index
        message = Item(id=id, role="assistant", status="in_progress", content=[])
        yield ItemAdded(sequence_number=self._next(), output_index=index, item=message)
        yield PartAdded(sequence_number=self._next(), item_id=id, output_index=index, part=OutputText(""))
        if self._early and not self._thoughts:
            yield from self._text("", self._early)

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
