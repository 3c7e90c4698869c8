"""Items of an answer in progress: deltas in, events out, and the item at the end.

A thought, a message, a call of a function or custom tool. Knows nothing of their order or of requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from localllm.server.answers.customs import InputReader
from localllm.server.answers.logprobs import ChatLogprob
from localllm.server.apis.responses import events
from localllm.server.apis.responses.client_tools import ClientCall, ClientKind, call_of
from localllm.server.apis.responses.events import Event
from localllm.server.apis.responses.items import (
    CallItem,
    CustomCallItem,
    ItemStatus,
    McpApprovalRequest,
    McpCall,
    McpListTools,
    MessageItem,
    OutputItem,
    OutputText,
    ReasoningText,
    SummaryText,
    ThoughtItem,
    new_id,
    sealed,
)
from localllm.server.apis.responses.tools import Origin

EventT = TypeVar("EventT", bound=Event)
ItemT = TypeVar("ItemT", bound=OutputItem)


class _Part(Generic[ItemT]):
    """An item, its position in the output, the response's sequence numbers, and the text so far."""

    def __init__(self, index: int, numbers: Iterator[int], item: ItemT) -> None:
        self.index = index
        self.item: ItemT = item
        self._numbers = numbers
        self._pieces: list[str] = []

    def begin(self) -> Iterator[Event]:
        """The events before the first piece."""
        yield self._added(self.item)

    def _text(self) -> str:
        return "".join(self._pieces)

    def _event(self, kind: type[EventT], **fields: Any) -> EventT:
        """An event about the item's content."""
        fields |= {"sequence_number": next(self._numbers), "item_id": self.item.id, "output_index": self.index}
        return kind(**fields)

    def _added(self, item: OutputItem) -> Event:
        return events.ItemAdded(sequence_number=next(self._numbers), output_index=self.index, item=item)

    def _done(self) -> Event:
        return events.ItemDone(sequence_number=next(self._numbers), output_index=self.index, item=self.item)


class ThoughtPart(_Part[ThoughtItem]):
    """A thought; `is_sealed`: also as `encrypted_content`, for clients that send back only that; `is_summary`: also as
    a summary, for clients that show only that.
    """

    def __init__(self, index: int, numbers: Iterator[int], *, is_sealed: bool, is_summary: bool) -> None:
        super().__init__(index, numbers, ThoughtItem(id=new_id("rs"), status="in_progress", content=[]))
        self._is_sealed = is_sealed
        self._is_summary = is_summary

    def begin(self) -> Iterator[Event]:
        yield self._added(self.item)
        yield self._event(events.PartAdded, part=ReasoningText(""))
        if self._is_summary:
            yield self._event(events.SummaryAdded, part=SummaryText(""))

    def feed(self, text: str) -> Iterator[Event]:
        self._pieces.append(text)
        yield self._event(events.ThoughtDelta, delta=text)
        if self._is_summary:
            yield self._event(events.SummaryDelta, delta=text)

    def end(self, status: ItemStatus) -> Iterator[Event]:
        text = self._text()
        part, summary = ReasoningText(text), SummaryText(text)
        self.item = replace(
            self.item,
            status=status,
            summary=[summary] if self._is_summary else [],
            content=[part],
            encrypted_content=sealed(text) if self._is_sealed else UNSET,
        )
        yield self._event(events.ThoughtDone, text=text)
        yield self._event(events.PartDone, part=part)
        if self._is_summary:
            yield self._event(events.SummaryDone, text=text)
            yield self._event(events.SummaryPartDone, part=summary)
        yield self._done()


class TextPart(_Part[MessageItem]):
    """A message."""

    def __init__(self, index: int, numbers: Iterator[int]) -> None:
        item = MessageItem(id=new_id("msg"), role="assistant", status="in_progress", content=[])
        super().__init__(index, numbers, item)
        self._logprobs: list[ChatLogprob] = []

    def begin(self) -> Iterator[Event]:
        yield self._added(self.item)
        yield self._event(events.PartAdded, part=OutputText(""))

    def feed(self, text: str, logprobs: list[ChatLogprob]) -> Iterator[Event]:
        self._pieces.append(text)
        self._logprobs += logprobs
        yield self._event(events.TextDelta, delta=text, logprobs=logprobs)

    def end(self, status: ItemStatus) -> Iterator[Event]:
        part = OutputText(self._text(), logprobs=self._logprobs)
        self.item = replace(self.item, status=status, content=[part])
        yield self._event(events.TextDone, text=part.text, logprobs=part.logprobs)
        yield self._event(events.PartDone, part=part)
        yield self._done()


class CallPart(_Part[CallItem]):
    """A call of a function."""

    def __init__(self, index: int, numbers: Iterator[int], origin: Origin, call_id: str) -> None:
        item = CallItem(id=new_id("fc"), call_id=call_id, name=origin.name, arguments="", status="in_progress")
        super().__init__(index, numbers, replace(item, namespace=origin.namespace or UNSET))

    def feed(self, arguments: str) -> Iterator[Event]:
        if arguments:
            self._pieces.append(arguments)
            yield self._event(events.ArgumentsDelta, delta=arguments)

    def end(self, status: ItemStatus) -> Iterator[Event]:
        self.item = replace(self.item, arguments=self._text(), status=status)
        yield self._event(events.ArgumentsDone, name=self.item.name, arguments=self.item.arguments)
        yield self._done()


class CustomCallPart(_Part[CustomCallItem]):
    """A call of a custom tool, which the model makes as a function call."""

    def __init__(self, index: int, numbers: Iterator[int], origin: Origin, call_id: str) -> None:
        item = CustomCallItem(id=new_id("ctc"), call_id=call_id, name=origin.name, input="", status="in_progress")
        super().__init__(index, numbers, replace(item, namespace=origin.namespace or UNSET))
        self._reader = InputReader()

    def feed(self, arguments: str) -> Iterator[Event]:
        if text := self._reader.feed(arguments):
            self._pieces.append(text)
            yield self._event(events.InputDelta, delta=text)

    def end(self, status: ItemStatus) -> Iterator[Event]:
        self.item = replace(self.item, input=self._text(), status=status)
        yield self._event(events.InputDone, input=self.item.input)
        yield self._done()


class ClientCallPart(_Part[ClientCall]):
    """A call of a tool with an item of its own: no events before it is complete."""

    def __init__(self, index: int, numbers: Iterator[int], kind: ClientKind, call_id: str) -> None:
        self._kind: ClientKind = kind
        super().__init__(index, numbers, call_of(kind, new_id("sh"), call_id, "", "in_progress"))

    def begin(self) -> Iterator[Event]:
        return iter(())

    def feed(self, arguments: str) -> Iterator[Event]:
        self._pieces.append(arguments)
        return iter(())

    def end(self, status: ItemStatus) -> Iterator[Event]:
        item = self.item
        self.item = call_of(self._kind, item.id, item.call_id, self._text(), status)
        yield self._added(replace(self.item, status="in_progress"))
        yield self._done()


class McpCallPart(_Part[McpCall]):
    """A call of an MCP tool, made when the answer has ended. `group`: prefix of the ids of one answer's calls."""

    def __init__(self, index: int, numbers: Iterator[int], origin: Origin, group: str) -> None:
        id = group + new_id("mcp")[len(group) :]
        super().__init__(index, numbers, McpCall(id=id, server_label=origin.label, name=origin.name, arguments=""))
        self.origin = origin

    def begin(self) -> Iterator[Event]:
        yield self._added(self.item)
        yield self._event(events.McpCallInProgress)

    def feed(self, arguments: str) -> Iterator[Event]:
        if arguments:
            self._pieces.append(arguments)
            yield self._event(events.McpArgumentsDelta, delta=arguments)

    def end(self, status: ItemStatus) -> Iterator[Event]:
        """Events of its arguments; an incomplete call is not made."""
        is_whole = status == "completed"
        self.item = replace(self.item, arguments=self._text(), status="in_progress" if is_whole else "incomplete")
        yield self._event(events.McpArgumentsDone, arguments=self.item.arguments)
        if not is_whole:
            yield self._done()

    def ran(self, item: McpCall) -> Iterator[Event]:
        """Events of its result."""
        self.item = item
        yield self._event(events.McpCallCompleted if item.error is None else events.McpCallFailed)
        yield self._done()

    def told_whole(self, item: McpCall) -> Iterator[Event]:
        """All events of a call made before the answer, such as an approved one."""
        self.item = replace(self.item, id=item.id)
        yield from self.begin()
        yield from self.feed(item.arguments)
        yield from self.end("completed")
        yield from self.ran(item)


class ApprovalPart(_Part[McpApprovalRequest]):
    """A call that needs approval: no events before it is complete."""

    def __init__(self, index: int, numbers: Iterator[int], origin: Origin) -> None:
        item = McpApprovalRequest(id=new_id("mcpr"), server_label=origin.label, name=origin.name, arguments="")
        super().__init__(index, numbers, item)

    def begin(self) -> Iterator[Event]:
        return iter(())

    def feed(self, arguments: str) -> Iterator[Event]:
        self._pieces.append(arguments)
        return iter(())

    def end(self, status: ItemStatus) -> Iterator[Event]:  # noqa: ARG002  OpenAI's has none
        self.item = replace(self.item, arguments=self._text())
        yield self._added(self.item)
        yield self._done()


class ListPart(_Part[McpListTools]):
    """An MCP server's tool list, which is complete from the beginning."""

    def told(self) -> Iterator[Event]:
        """All of its events."""
        yield self._added(replace(self.item, tools=[], error=None))
        yield self._event(events.McpListToolsInProgress)
        yield self._event(events.McpListToolsCompleted if self.item.error is None else events.McpListToolsFailed)
        yield self._done()
