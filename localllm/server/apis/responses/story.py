"""A response as a stream of events: deltas in, typed and numbered events out; finally `end()` or `fail()`.

A complete response is the same without events. Knows nothing of HTTP or the store. A test checks at every split that
the events add up to the response.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from localllm.errors import LocalLLMError
from localllm.server.answers.logprobs import ChatLogprob, chat_logprobs
from localllm.server.answers.remarks import final_timings, finish_reason
from localllm.server.answers.timings import Speed, progress_object, speed_of
from localllm.server.apis.responses import events
from localllm.server.apis.responses import replies as out
from localllm.server.apis.responses.client_tools import ClientCall
from localllm.server.apis.responses.events import Event
from localllm.server.apis.responses.items import (
    GROUP_CHARS,
    AnyItem,
    CallItem,
    CustomCallItem,
    ItemStatus,
    McpApprovalRequest,
    McpCall,
    McpListTools,
    MessageItem,
    OutputItem,
    ThoughtItem,
    new_call_id,
    new_id,
)
from localllm.server.apis.responses.parts import (
    ApprovalPart,
    CallPart,
    ClientCallPart,
    CustomCallPart,
    ListPart,
    McpCallPart,
    TextPart,
    ThoughtPart,
)
from localllm.server.apis.responses.tools import Origin
from localllm.server.errors import error_object
from localllm.types import CallDelta, Delta, Finish, Usage

_CallingPart = CallPart | ClientCallPart | CustomCallPart | McpCallPart | ApprovalPart
_Part = ThoughtPart | TextPart | _CallingPart


class Reported(NamedTuple):
    """What a response contains besides the API's own fields."""

    timings: bool = False
    """Its times, in the complete response."""
    progress: bool = False
    """How far the prompt is computed."""
    speed: bool = False
    """Times in every event of a token."""


NOTHING_REPORTED = Reported()


class Story:
    """The events of one response, in order; numbers them."""

    def __init__(
        self,
        response: out.ResponseObject,
        *,
        reported: Reported = NOTHING_REPORTED,
        seals_thoughts: bool = False,
        summarizes_thoughts: bool = False,
        origins: Mapping[str, Origin] | None = None,
        first: Sequence[McpListTools | McpCall] = (),
        keep: Callable[[out.ResponseObject], None] | None = None,
    ) -> None:
        """`origins`: callable function -> its tool. `first`: items before the answer. `keep` stores the complete
        response before the client sees its end.
        """
        self.response = response
        """The response so far; complete after `end`."""
        self.num_logprobs = 0
        """Number of log-probabilities so far, alternatives included."""
        self._reported = reported
        self._speed = Speed() if reported.speed else None
        self._seals_thoughts = seals_thoughts
        self._summarizes_thoughts = summarizes_thoughts
        self._origins = origins or {}
        self._first = first
        self._keep = keep
        self._numbers = itertools.count()
        self._items: list[OutputItem] = []
        self._open: _Part | None = None
        self._call: int | None = None
        """Index of the open call."""
        self._early: list[ChatLogprob] = []
        """Log-probabilities from before any item; they belong to the text if that comes first."""
        self._notes: list[str] = []
        """Warnings about the answer."""
        self._to_make: list[McpCallPart] = []
        """Complete calls for this server to make."""
        self._group = new_id("mcp")[:GROUP_CHARS]
        self._num_before = 0
        """Number of items before this answer."""
        self._earlier: Usage | None = None
        """Usage of the answers before this one."""

    @property
    def has_mcp_calls(self) -> bool:
        """Whether the answer has calls for this server to make."""
        return bool(self._to_make) or isinstance(self._open, McpCallPart)

    @property
    def waits_for_client(self) -> bool:
        """Whether the answer has calls for the client, or calls that need approval."""
        new = self._items[self._num_before :]
        return any(isinstance(item, CallItem | CustomCallItem | ClientCall | McpApprovalRequest) for item in new)

    @property
    def kept_items(self) -> list[AnyItem]:
        """The output so far, to continue from."""
        return [item.as_kept() if isinstance(item, MessageItem | ThoughtItem) else item for item in self._items]

    def warn(self, warnings: Iterable[str]) -> None:
        """Adds warnings about the request."""
        self.response = out.warned(self.response, list(warnings))

    def begin(self, num_prompt_tokens: int) -> Iterator[Event]:  # noqa: ARG002  a response has it at its end
        """Events before the first token."""
        yield events.Created(sequence_number=next(self._numbers), response=self.response)
        yield events.InProgress(sequence_number=next(self._numbers), response=self.response)
        for item in self._first:
            if isinstance(item, McpListTools):
                yield from ListPart(len(self._items), self._numbers, item).told()
            else:
                origin = Origin("mcp", item.name, item.server_label)
                yield from McpCallPart(len(self._items), self._numbers, origin, self._group).told_whole(item)
            self._items.append(item)
        self._num_before = len(self._items)

    def feed(self, delta: Delta) -> Iterator[Event]:
        """Events of a delta's thought, text and calls, without its finish."""
        for progress in delta.progress if self._reported.progress else ():
            yield events.InProgress(
                sequence_number=next(self._numbers),
                response=self.response,
                prompt_progress=progress_object(progress),
            )
        if self._speed is None:
            yield from self._pieces(delta)
            return
        self._speed.count(delta)
        timings = self._speed.so_far() or UNSET
        for event in self._pieces(delta):
            is_text = isinstance(event, events.TextDelta)
            yield msgspec.structs.replace(event, timings=timings) if is_text else event

    def _pieces(self, delta: Delta) -> Iterator[Event]:
        self._notes += delta.notes
        if delta.thought:
            yield from self._thought(delta.thought)
        calls = list(delta.calls)
        while calls and calls[0].index == self._call:  # before any text, which comes after it
            yield from self._called(calls.pop(0))
        logprobs = chat_logprobs(delta.logprobs).content if delta.logprobs else []
        self.num_logprobs += sum(1 + len(each.top_logprobs) for each in logprobs)
        if delta.text:
            yield from self._text(delta.text, logprobs)
        elif isinstance(self._open, TextPart) and logprobs and not calls:
            yield from self._open.feed("", logprobs)
        elif self._open is None and not self._items and not calls:
            self._early += logprobs
        for call in calls:
            yield from self._called(call)

    def pause(self) -> Iterator[Event]:
        """End an answer after which the response continues."""
        yield from self._close()

    def take_calls(self) -> list[McpCallPart]:
        """The calls of this answer for the server to make."""
        calls, self._to_make = self._to_make, []
        return calls

    def ran(self, call: McpCallPart, item: McpCall) -> Iterator[Event]:
        """Events of a call's result."""
        yield from call.ran(item)
        self._items[call.index] = item

    def counted(self, finish: Finish) -> Finish:
        """Usage including earlier answers; the next answer starts anew."""
        usage, earlier = finish.usage, self._earlier
        if earlier is not None:
            usage = Usage(*(getattr(usage, name) + getattr(earlier, name) for name in Usage.__struct_fields__))
        self._earlier = usage
        return msgspec.structs.replace(finish, usage=usage)

    def go_on(self) -> None:
        """Begin another answer."""
        self._num_before = len(self._items)
        self._group = new_id("mcp")[:GROUP_CHARS]

    def end(self, finish: Finish, cache_miss: str | None = None) -> list[Event]:
        """The remaining events; after this `response` is complete. Raises `Draining` if the server cut it short."""
        status: ItemStatus = "completed" if finish_reason(finish) == "stop" else "incomplete"
        rest: list[Event] = []
        if not self._items and (self._open is None or isinstance(self._open, ThoughtPart)):
            if finish.reason == "stop" and not self._notes:
                where = "immediately" if self._open is None else "after its thought"
                self._notes.append(f"the answer has no text: the model ended it {where}")
            rest += self._close(status)
            rest += self._text("", [])
        rest += self._close(status)
        final = final_timings(finish, seconds=self._reported.timings, speed=self._speed is not None)
        self.response = out.ended(self.response, self._items, finish, is_complete=status == "completed", timings=final)
        self.response = out.warned(self.response, self._notes, cache_miss)
        if self._keep is not None:
            self._keep(self.response)
        last = events.Completed if status == "completed" else events.Incomplete
        timings = UNSET if self._speed is None else speed_of(finish)
        return [*rest, last(sequence_number=next(self._numbers), response=self.response, timings=timings)]

    def fail(self, error: LocalLLMError) -> list[Event]:
        """The end of a failed response. Two events, since some clients look at only one of them."""
        shape = error_object(error)
        number = next(self._numbers)
        return [
            events.ErrorEvent(sequence_number=number, code=shape.code, message=shape.message, param=shape.param),
            events.Failed(sequence_number=next(self._numbers), response=out.failed(self.response, error)),
        ]

    def _thought(self, text: str) -> Iterator[Event]:
        if not isinstance(self._open, ThoughtPart):
            yield from self._close()
            self._open = ThoughtPart(
                len(self._items),
                self._numbers,
                is_sealed=self._seals_thoughts,
                is_summary=self._summarizes_thoughts,
            )
            yield from self._open.begin()
        yield from self._open.feed(text)

    def _text(self, text: str, logprobs: list[ChatLogprob]) -> Iterator[Event]:
        if not isinstance(self._open, TextPart):
            is_first = self._open is None and not self._items
            yield from self._close()
            self._open = TextPart(len(self._items), self._numbers)
            yield from self._open.begin()
            logprobs = [*self._early, *logprobs] if is_first else logprobs
        if text or logprobs:
            yield from self._open.feed(text, logprobs)

    def _called(self, call: CallDelta) -> Iterator[Event]:
        if not isinstance(self._open, _CallingPart) or self._call != call.index:
            yield from self._close()
            origin = self._origins.get(call.name, Origin("function", call.name))
            self._open = self._calling(origin, call.id)
            self._call = call.index
            yield from self._open.begin()
        yield from self._open.feed(call.arguments)

    def _calling(self, origin: Origin, call_id: str) -> _CallingPart:
        index = len(self._items)
        if origin.kind == "mcp" and origin.needs_approval:
            return ApprovalPart(index, self._numbers, origin)
        if origin.kind == "mcp":
            return McpCallPart(index, self._numbers, origin, self._group)
        if origin.kind in ("local_shell", "shell", "apply_patch"):
            return ClientCallPart(index, self._numbers, origin.kind, call_id or new_call_id())
        kind = CustomCallPart if origin.kind == "custom" else CallPart
        return kind(index, self._numbers, origin, call_id or new_call_id())

    def _close(self, status: ItemStatus = "completed") -> Iterator[Event]:
        """Ends the open item, if any."""
        if self._open is not None:
            yield from self._open.end(status)
            self._items.append(self._open.item)
            if isinstance(self._open, McpCallPart) and status == "completed":
                self._to_make.append(self._open)
        self._open = self._call = None
