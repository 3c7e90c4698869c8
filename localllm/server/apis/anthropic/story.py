"""An answer as a stream of events: deltas in, typed events out; a whole message is the same without events.

Knows nothing of HTTP. A test checks that the events add up to the message.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Raw

from localllm.server.answers.remarks import final_timings, remarks
from localllm.server.apis.anthropic import events
from localllm.server.apis.anthropic.events import Event
from localllm.server.apis.anthropic.replies import (
    AnswerBlock,
    MessageObject,
    MessageUsage,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    stop_reason,
    usage_of,
)
from localllm.types import CallDelta, Delta, Finish


class Story:
    """The events of one answer, in order."""

    def __init__(self, id: str, model: str, *, timings: bool = False, shows_thoughts: bool = True) -> None:
        self.message = MessageObject(
            id=id, model=model, content=[], stop_reason=None, stop_sequence=None, usage=MessageUsage(0, 0)
        )
        """Complete after `end`."""
        self._timings = timings
        self._shows_thoughts = shows_thoughts
        self._blocks: list[AnswerBlock] = []
        self._open: AnswerBlock | None = None
        self._call: int | None = None
        """Index of the open call."""
        self._pieces: list[str] = []
        """The text of the open block so far."""
        self._notes: list[str] = []

    def warn(self, warnings: Iterable[str]) -> None:
        """Adds warnings about the request."""
        self._notes += warnings

    def begin(self, num_prompt_tokens: int) -> Iterator[Event]:
        """Events before the first token. The number of cached prompt tokens follows at the end."""
        usage = MessageUsage(num_prompt_tokens, 0)
        yield events.MessageStart(msgspec.structs.replace(self.message, usage=usage))
        yield events.Ping()

    def feed(self, delta: Delta) -> Iterator[Event]:
        """A delta's thought, text and calls, without its finish."""
        self._notes += delta.notes
        if delta.thought:
            yield from self._thought(delta.thought)
        calls = list(delta.calls)
        while calls and calls[0].index == self._call:  # before any text, which comes after it
            yield from self._called(calls.pop(0))
        if delta.text:
            yield from self._text(delta.text)
        for call in calls:
            yield from self._called(call)

    def end(self, finish: Finish, cache_miss: str | None = None) -> Iterator[Event]:
        """The remaining events; after this `message` is complete. Raises `Draining` if the server cut it short."""
        has_calls = any(isinstance(block, ToolUseBlock) for block in (*self._blocks, self._open))
        reason = stop_reason(finish, calls=has_calls)
        yield from self._close()
        self.message = msgspec.structs.replace(
            self.message,
            content=self._blocks,
            stop_reason=reason,
            stop_sequence=finish.stop if reason == "stop_sequence" else None,
            usage=usage_of(finish.usage),
            timings=final_timings(finish, seconds=self._timings, speed=False),
            localllm=remarks(self._notes, cache_miss),
        )
        whole = self.message
        ending = events.Ending(reason, whole.stop_sequence)
        yield events.MessageDelta(ending, whole.usage, whole.timings, whole.localllm)
        yield events.MessageStop()

    def _thought(self, text: str) -> Iterator[Event]:
        if not isinstance(self._open, ThinkingBlock):
            yield from self._begin(ThinkingBlock(""))
        self._pieces.append(text)
        if self._shows_thoughts:
            yield events.BlockDelta(len(self._blocks), events.ThinkingDelta(text))

    def _text(self, text: str) -> Iterator[Event]:
        if not isinstance(self._open, TextBlock):
            yield from self._begin(TextBlock(""))
        self._pieces.append(text)
        yield events.BlockDelta(len(self._blocks), events.TextDelta(text))

    def _called(self, call: CallDelta) -> Iterator[Event]:
        if self._call != call.index:
            yield from self._begin(ToolUseBlock(call.id, call.name))
            self._call = call.index
        if call.arguments:
            self._pieces.append(call.arguments)
            yield events.BlockDelta(len(self._blocks), events.InputDelta(call.arguments))

    def _begin(self, block: AnswerBlock) -> Iterator[Event]:
        yield from self._close()
        self._open = block
        yield events.BlockStart(len(self._blocks), block)

    def _close(self) -> Iterator[Event]:
        """Ends the open block, if any."""
        if self._open is None:
            return
        index, text = len(self._blocks), "".join(self._pieces)
        if isinstance(self._open, ThinkingBlock):
            signature = signature_of(text)
            yield events.BlockDelta(index, events.SignatureDelta(signature))
            made: AnswerBlock = ThinkingBlock(text if self._shows_thoughts else "", signature)
        elif isinstance(self._open, TextBlock):
            made = TextBlock(text)
        else:
            made = msgspec.structs.replace(self._open, input=self._input(text))
        yield events.BlockStop(index)
        self._blocks.append(made)
        self._open, self._call, self._pieces = None, None, []

    def _input(self, text: str) -> Raw:
        """A call's arguments; `{}` with a warning if they were truncated, since the missing part is unknown."""
        try:
            msgspec.json.decode(text or "{}", type=dict[str, Raw])
        except msgspec.DecodeError:
            self._notes.append(f"content[{len(self._blocks)}].input: the answer ended inside it, so it is omitted")
            return Raw(b"{}")
        return Raw((text or "{}").encode())


def signature_of(thought: str) -> str:
    """The signature that clients expect of a thought. It proves nothing and is never verified here."""
    return "localllm:" + hashlib.sha256(thought.encode("utf-8", "replace")).hexdigest()
