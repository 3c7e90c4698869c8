"""Readers of formats that the literals of a `ChatFormat` alone do not describe."""

from __future__ import annotations

from collections.abc import Sequence

from localllm.chat.formats.arguments.json_arguments import JsonReader
from localllm.chat.formats.parts.call_reading import CallOutcome, read_arguments
from localllm.chat.formats.parts.collected import Draft
from localllm.chat.formats.parts.messages import MessageReader, Messages
from localllm.chat.formats.parts.pattern_calls import PatternReading
from localllm.chat.formats.reading import NewParts, Reader
from localllm.chat.formats.tape import Steps, Tape, parts_of
from localllm.types.conversation import Function
from localllm.types.formats import Calls, ChatFormat, PatternCall, Slot

HARMONY = Messages(ends=("<|end|>", "<|call|>", "<|return|>"), thinks=("analysis",))


class _JsonBody:
    """Reads a call whose name is in the message's header."""

    def read(self, tape: Tape, draft: Draft, *, is_guess: bool) -> Steps[CallOutcome]:
        is_read = yield from read_arguments(tape, draft, JsonReader(HARMONY.ends[1]))
        if draft.is_made:
            return "made"
        return "undeclared" if is_read and not draft.is_cut and not is_guess else "broken"


def harmony_reader(
    functions: Sequence[Function] | None, *, in_thought: bool = False, splits_thoughts: bool = True
) -> Reader:
    """The reader for gpt-oss: messages on the channels analysis (reasoning), commentary and final; calls have
    `to=functions.NAME`."""
    return MessageReader(HARMONY, _JsonBody(), functions, in_thought=in_thought, splits_thoughts=splits_thoughts)


def muse_reader(
    calls: Calls, functions: Sequence[Function] | None, *, in_thought: bool = False, splits_thoughts: bool = True
) -> Reader:
    """The reader for Muse: messages to itself (reasoning), to the user and to tools; calls have the name in the header
    and in the body.

    `calls` describes a body with one call: its first line opens the body, the last one closes it.
    """
    call = calls.call
    assert isinstance(call, PatternCall)
    opening = parts_of(call.before)
    closing, ends = parts_of(call.slots[-1].behind), ("<|eom|>", "<|eot|>")
    messages = Messages(ends=ends, thinks=("self",), opening=opening, again=opening[-1], closing=closing[-1])
    one = PatternCall(before="", slots=(*call.slots[:-1], Slot("arguments", closing[0])))
    reading = PatternReading(one, calls.arguments)
    return MessageReader(messages, reading, functions, in_thought=in_thought, splits_thoughts=splits_thoughts)


class OpenedReader:
    """Reads answers whose first literal begins in the prompt. `inner` gets the literal if the answer continues it."""

    def __init__(self, inner: Reader, format: ChatFormat, functions: Sequence[Function]) -> None:
        self._inner = inner
        self._opened = format.opened
        self._rests = [format.text.opening.removeprefix(format.opened)] if format.text is not None else []
        if format.calls is not None and isinstance(format.calls.call, PatternCall):
            behind = format.calls.call.slots[0].behind
            self._rests += [function.name + behind for function in functions]
        self._held: str | None = ""

    @property
    def is_thinking(self) -> bool:
        return self._inner.is_thinking

    def feed(self, text: str) -> NewParts:
        if self._held is None:
            return self._inner.feed(text)
        self._held += text
        if any(len(rest) > len(self._held) and rest.startswith(self._held) for rest in self._rests):
            return NewParts()
        return self._decided()

    def flush(self) -> NewParts:
        return merged(self._decided(), self._inner.flush())

    def _decided(self) -> NewParts:
        held, self._held = self._held or "", None
        opened = self._opened if any(rest and held.startswith(rest) for rest in self._rests) else ""
        return self._inner.feed(opened + held)


def merged(one: NewParts, other: NewParts) -> NewParts:
    """Both results as one."""
    return NewParts(
        one.text + other.text, one.thought + other.thought, one.calls + other.calls, one.notes + other.notes
    )
