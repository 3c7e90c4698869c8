"""Items of an answer in progress: deltas in, events out, and the item at the end.

A thought, a message, a call of a function or custom tool. Knows nothing of their order or of requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from localllm.server.apis.responses import events
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
from localllm.server.common.customs import InputReader
from localllm.server.common.logprobs import ChatLogprob


class _Part:
    """Common state: position in the output, the response's sequence numbers, the item's id."""

    def __init__(self, index: int, numbers: Iterator[int], prefix: str) -> None:
        self.index = index
        self.id = new_id(prefix)
        self._numbers = numbers
        self._pieces: list[str] = []

    def _added(self, item: OutputItem) -> Event:
        return events.ItemAdded(sequence_number=next(self._numbers), output_index=self.index, item=item)

    def _done(self, item: OutputItem) -> Event:
        return events.ItemDone(sequence_number=next(self._numbers), output_index=self.index, item=item)


class ThoughtPart(_Part):
    """A thought; `is_sealed`: also as `encrypted_content`, for clients that send back only that; `is_summary`: also as
    a summary, for clients that show only that.
    """

    def __init__(self, index: int, numbers: Iterator[int], *, is_sealed: bool, is_summary: bool) -> None:
        super().__init__(index, numbers, "rs")
        self._is_sealed = is_sealed
        self._is_summary = is_summary
        self.item = ThoughtItem(id=self.id, status="in_progress", content=[])

    def begin(self) -> Iterator[Event]:
        yield self._added(self.item)
        yield events.PartAdded(
            sequence_number=next(self._numbers), item_id=self.id, output_index=self.index, part=ReasoningText("")
        )
        if self._is_summary:
            yield events.SummaryAdded(**self._place(), part=SummaryText(""))

    def feed(self, text: str) -> Iterator[Event]:
        self._pieces.append(text)
        yield events.ThoughtDelta(
            sequence_number=next(self._numbers), item_id=self.id, output_index=self.index, delta=text
        )
        if self._is_summary:
            yield events.SummaryDelta(**self._place(), delta=text)

    def end(self, status: ItemStatus) -> Iterator[Event]:
        part = ReasoningText("".join(self._pieces))
        summary = SummaryText(part.text)
        self.item = ThoughtItem(
            id=self.id,
            status=status,
            summary=[summary] if self._is_summary else [],
            content=[part],
            encrypted_content=sealed(part.text) if self._is_sealed else UNSET,
        )
        yield events.ThoughtDone(
            sequence_number=next(self._numbers), item_id=self.id, output_index=self.index, text=part.text
        )
        yield events.PartDone(sequence_number=next(self._numbers), item_id=self.id, output_index=self.index, part=part)
        if self._is_summary:
            yield events.SummaryDone(**self._place(), text=summary.text)
            yield events.SummaryPartDone(**self._place(), part=summary)
        yield self._done(self.item)

    def _place(self) -> dict[str, Any]:
        return {"sequence_number": next(self._numbers), "item_id": self.id, "output_index": self.index}


class TextPart(_Part):
    """A message."""

    def __init__(self, index: int, numbers: Iterator[int]) -> None:
        super().__init__(index, numbers, "msg")
        self._logprobs: list[ChatLogprob] = []
        self.item = MessageItem(id=self.id, role="assistant", status="in_progress", content=[])

    def begin(self) -> Iterator[Event]:
        yield self._added(self.item)
        yield events.PartAdded(
            sequence_number=next(self._numbers), item_id=self.id, output_index=self.index, part=OutputText("")
        )

    def feed(self, text: str, logprobs: list[ChatLogprob]) -> Iterator[Event]:
        self._pieces.append(text)
        self._logprobs += logprobs
        yield events.TextDelta(
            sequence_number=next(self._numbers),
            item_id=self.id,
            output_index=self.index,
            delta=text,
            logprobs=logprobs,
        )

    def end(self, status: ItemStatus) -> Iterator[Event]:
        part = OutputText("".join(self._pieces), logprobs=self._logprobs)
        self.item = MessageItem(id=self.id, role="assistant", status=status, content=[part])
        yield events.TextDone(
            sequence_number=next(self._numbers),
            item_id=self.id,
            output_index=self.index,
            text=part.text,
            logprobs=part.logprobs,
        )
        yield events.PartDone(sequence_number=next(self._numbers), item_id=self.id, output_index=self.index, part=part)
        yield self._done(self.item)


class CallPart(_Part):
    """A call of a function."""

    def __init__(self, index: int, numbers: Iterator[int], origin: Origin, call_id: str) -> None:
        super().__init__(index, numbers, "fc")
        self.item = CallItem(
            id=self.id,
            call_id=call_id,
            name=origin.name,
            arguments="",
            namespace=origin.namespace or UNSET,
            status="in_progress",
        )

    def begin(self) -> Iterator[Event]:
        yield self._added(self.item)

    def feed(self, arguments: str) -> Iterator[Event]:
        if not arguments:
            return
        self._pieces.append(arguments)
        yield events.ArgumentsDelta(
            sequence_number=next(self._numbers), item_id=self.id, output_index=self.index, delta=arguments
        )

    def end(self, status: ItemStatus) -> Iterator[Event]:
        self.item = CallItem(
            id=self.id,
            call_id=self.item.call_id,
            name=self.item.name,
            arguments="".join(self._pieces),
            namespace=self.item.namespace,
            status=status,
        )
        yield events.ArgumentsDone(
            sequence_number=next(self._numbers),
            item_id=self.id,
            output_index=self.index,
            name=self.item.name,
            arguments=self.item.arguments,
        )
        yield self._done(self.item)


class CustomCallPart(_Part):
    """A call of a custom tool, which the model makes as a function call."""

    def __init__(self, index: int, numbers: Iterator[int], origin: Origin, call_id: str) -> None:
        super().__init__(index, numbers, "ctc")
        self._reader = InputReader()
        self.item = CustomCallItem(
            id=self.id,
            call_id=call_id,
            name=origin.name,
            input="",
            namespace=origin.namespace or UNSET,
            status="in_progress",
        )

    def begin(self) -> Iterator[Event]:
        yield self._added(self.item)

    def feed(self, arguments: str) -> Iterator[Event]:
        text = self._reader.feed(arguments)
        if text:
            self._pieces.append(text)
            yield events.InputDelta(
                sequence_number=next(self._numbers), item_id=self.id, output_index=self.index, delta=text
            )

    def end(self, status: ItemStatus) -> Iterator[Event]:
        self.item = CustomCallItem(
            id=self.id,
            call_id=self.item.call_id,
            name=self.item.name,
            input="".join(self._pieces),
            namespace=self.item.namespace,
            status=status,
        )
        yield events.InputDone(
            sequence_number=next(self._numbers), item_id=self.id, output_index=self.index, input=self.item.input
        )
        yield self._done(self.item)


class McpCallPart(_Part):
    """A call of an MCP tool, made when the answer has ended. `group`: prefix of the ids of one answer's calls."""

    def __init__(self, index: int, numbers: Iterator[int], origin: Origin, group: str) -> None:
        super().__init__(index, numbers, "mcp")
        self.id = group + self.id[len(group) :]
        self.origin = origin
        self.item = McpCall(id=self.id, server_label=origin.label, name=origin.name, arguments="")

    def begin(self) -> Iterator[Event]:
        yield self._added(self.item)
        yield events.McpCallInProgress(**self._place())

    def feed(self, arguments: str) -> Iterator[Event]:
        if arguments:
            self._pieces.append(arguments)
            yield events.McpArgumentsDelta(**self._place(), delta=arguments)

    def end(self, status: ItemStatus) -> Iterator[Event]:
        """Events of its arguments; an incomplete call is not made."""
        arguments = "".join(self._pieces)
        is_whole = status == "completed"
        self.item = McpCall(
            id=self.id,
            server_label=self.item.server_label,
            name=self.item.name,
            arguments=arguments,
            status="in_progress" if is_whole else "incomplete",
        )
        yield events.McpArgumentsDone(**self._place(), arguments=arguments)
        if not is_whole:
            yield self._done(self.item)

    def ran(self, item: McpCall) -> Iterator[Event]:
        """Events of its result."""
        self.item = item
        done = events.McpCallCompleted if item.error is None else events.McpCallFailed
        yield done(**self._place())
        yield self._done(self.item)

    def told_whole(self, item: McpCall) -> Iterator[Event]:
        """All events of a call made before the answer, such as an approved one."""
        self.id = item.id
        yield from self.begin()
        yield from self.feed(item.arguments)
        yield from self.end("completed")
        yield from self.ran(item)

    def _place(self) -> dict[str, Any]:
        return {"sequence_number": next(self._numbers), "item_id": self.id, "output_index": self.index}


class ApprovalPart(_Part):
    """A call that needs approval: no events before it is complete."""

    def __init__(self, index: int, numbers: Iterator[int], origin: Origin) -> None:
        super().__init__(index, numbers, "mcpr")
        self.item = McpApprovalRequest(id=self.id, server_label=origin.label, name=origin.name, arguments="")

    def begin(self) -> Iterator[Event]:
        return iter(())

    def feed(self, arguments: str) -> Iterator[Event]:
        self._pieces.append(arguments)
        return iter(())

    def end(self, status: ItemStatus) -> Iterator[Event]:  # noqa: ARG002  OpenAI's has none
        self.item = msgspec.structs.replace(self.item, arguments="".join(self._pieces))
        yield self._added(self.item)
        yield self._done(self.item)


def told_list(item: McpListTools, index: int, numbers: Iterator[int]) -> Iterator[Event]:
    """All events of an MCP server's tool list."""

    def place() -> dict[str, Any]:
        return {"sequence_number": next(numbers), "item_id": item.id, "output_index": index}

    empty = msgspec.structs.replace(item, tools=[], error=None)
    yield events.ItemAdded(sequence_number=next(numbers), output_index=index, item=empty)
    yield events.McpListToolsInProgress(**place())
    yield (events.McpListToolsCompleted if item.error is None else events.McpListToolsFailed)(**place())
    yield events.ItemDone(sequence_number=next(numbers), output_index=index, item=item)
