"""Reads answers that consist of messages, whose headers say what each is: reasoning, part of the text, a call.

    header <|message|> BODY end  header <|message|> BODY end ...

These are gpt-oss' harmony and Muse's protocol. A message without a header is text. An end may be missing before the
next header. Calls are read as in all formats; if a call turns out to be none, it stays text, with a note.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from localllm.chat.formats.parts.answers import SteppedAnswer
from localllm.chat.formats.parts.call_reading import CallReading
from localllm.chat.formats.parts.collected import Draft
from localllm.chat.formats.parts.flowing import Flow
from localllm.chat.formats.parts.sections import CUT_CALL, UNREAD
from localllm.chat.formats.parts.thoughts import UNCLOSED
from localllm.chat.formats.tape import Markers, Steps
from localllm.types.conversation import Function

MESSAGE = "<|message|>"
HEADERS = ("<|start|>", "<|channel|>")
"""First literals of headers, which may occur in the middle of a message without an end."""
MOST_HEADER = 256
CUT_HEADER = "the answer ended within the header of a message, which is in the text"
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")
_NO_MORE = re.compile(r"\s*<\|start\|>(assistant)?\s*")
"""An empty header at the answer's end."""
_NOBODY = frozenset({"", "user", "all", "assistant"})

Part = Literal["thought", "text", "call"]


class Messages(NamedTuple):
    """The differences between the protocols."""

    ends: tuple[str, ...]
    """Literals that end a message."""
    thinks: tuple[str, ...]
    """Channels and recipients of reasoning."""
    opening: tuple[str, ...] = ()
    """First literals of a call's body, which identify a call without a header."""
    again: str = ""
    """The literal before another call in the same body."""
    closing: str = ""
    """The literal after the last call of a body."""


class MessageReader(SteppedAnswer):
    """A `Reader` of one answer. `functions` None: do not read calls."""

    def __init__(
        self,
        messages: Messages,
        calls: CallReading,
        functions: Sequence[Function] | None,
        *,
        in_thought: bool = False,
        splits_thoughts: bool = True,
    ) -> None:
        super().__init__()
        self._messages = messages
        self._calls = calls
        self._functions = functions
        self._splits = splits_thoughts
        self._in_thought = in_thought
        self._text = Flow(self._out.text.append)
        self._thought = Flow(self._out.thought.append)
        self._ends = Markers([*HEADERS, *messages.ends])
        self._text_ends = Markers([*HEADERS, *messages.ends, *(messages.opening[:1] if functions is not None else ())])
        self._header_ends = Markers([MESSAGE, *messages.ends, "\n", *messages.opening[:1]])

    @property
    def is_thinking(self) -> bool:
        return self._in_thought

    def _read(self) -> Steps[None]:
        if self._in_thought:
            if self._splits:
                self._thought.begin()
            yield from self._body(self._thought if self._splits else self._text, is_raw=not self._splits)
        is_at_start = True
        while (yield from self._tape.char()):
            is_at_start = yield from self._message(is_at_start=is_at_start)
        if not self._out.num_calls:
            self._text.end()

    def _message(self, *, is_at_start: bool) -> Steps[bool]:
        """Read one message; returns whether it had an end."""
        tape = self._tape
        tape.record()
        header = yield from self._header(is_at_start=is_at_start)
        if header is None:
            raw = tape.recorded()
            if raw.strip() and tape.is_ended and not tape.size:
                if _NO_MORE.fullmatch(raw):
                    return True
                self._out.note(CUT_HEADER)
            self._text.show(raw)
            return (yield from self._body(self._text))
        part, name = self._meaning(header)
        if part == "call" and self._functions is not None:
            return (yield from self._call(name))
        raw = tape.recorded()
        if part == "text":
            self._text.begin()
            return (yield from self._body(self._text))
        if part == "thought" and self._splits:
            self._thought.begin()
            self._in_thought = True
            return (yield from self._body(self._thought))
        self._show_raw(raw)
        self._in_thought = part == "thought"
        return (yield from self._body(self._text, is_raw=True))

    def _header(self, *, is_at_start: bool) -> Steps[str | None]:
        """Read a header; None if there is none and the text read is part of the answer."""
        tape = self._tape
        space = yield from tape.space()
        found = yield from tape.literal([MESSAGE, *HEADERS, *(["to="] if is_at_start else [])])
        if not found:
            tape.back(space)
            return None
        if found == MESSAGE:
            return ""
        text, marker = yield from tape.until(self._header_ends, MOST_HEADER)
        if marker == MESSAGE:
            tape.take(len(marker))
        elif marker not in self._messages.opening[:1]:
            return None
        return found + text

    def _meaning(self, header: str) -> tuple[Part, str]:
        """The kind of a message, and the function that it may call."""
        channel = next(reversed(_CHANNEL.findall(header)), "")
        recipient = next(reversed(_RECIPIENT.findall(header)), "")
        if recipient not in (*_NOBODY, *self._messages.thinks):
            return "call", recipient
        return ("thought" if {channel, recipient} & {*self._messages.thinks} else "text"), ""

    def _body(self, flow: Flow, *, is_raw: bool = False) -> Steps[bool]:
        """Read the rest of a message, up to its end or the next header; returns whether it had an end.

        `is_raw`: the end literal is part of the text.
        """
        tape = self._tape
        markers = self._ends if is_raw or flow is self._thought else self._text_ends
        while True:
            text, marker = yield from tape.until(markers)
            flow.show(text)
            if marker in self._messages.opening[:1]:
                tape.record()
                yield from self._calls_in_body("")
                flow.begin()
            elif marker in self._messages.ends:
                self._in_thought = False
                end = tape.take(len(marker))
                if is_raw:
                    flow.show(end)
                return True
            elif marker or (not text and tape.is_ended and not tape.size):
                if self._in_thought and not marker:
                    self._out.note(UNCLOSED)
                self._in_thought = self._in_thought and not marker
                return False

    def _call(self, name: str) -> Steps[bool]:
        """Read a call after its header; returns whether its message had an end."""
        if not (yield from self._calls_in_body(name)):
            return (yield from self._body(self._text, is_raw=True))
        yield from self._tape.space()
        return bool((yield from self._tape.literal(self._messages.ends)))

    def _calls_in_body(self, name: str) -> Steps[bool]:
        """Read the calls of a body, while the tape records since the header; returns whether all are calls."""
        tape, messages, draft = self._tape, self._messages, None
        is_read = not messages.opening or (yield from tape.parts(messages.opening, needs_last=True))
        while is_read:
            draft = Draft(self._functions or (), self._out)
            draft.named(name)
            outcome = yield from self._calls.read(tape, draft, is_guess=False)
            draft.close()
            if outcome == "broken":
                break
            if outcome == "made":
                tape.record()
            is_next = yield from self._behind_call(ends=messages.ends if outcome == "undeclared" else ())
            if outcome == "undeclared":
                self._show_raw(tape.recorded())
                draft.note_undeclared()
            if not is_next:
                tape.recorded()
                return True
            if outcome == "undeclared":
                tape.record()
        is_cut = tape.is_ended and not tape.size
        self._show_raw(tape.recorded())
        if draft is not None and draft.name and draft.function is None:
            draft.note_undeclared()
        else:
            self._out.note(CUT_CALL if is_cut else UNREAD)
        return False

    def _behind_call(self, ends: Sequence[str]) -> Steps[bool]:
        """Read the closing of the body and one of the ends; returns whether another call follows in the body."""
        tape, messages = self._tape, self._messages
        for options in ([messages.again, messages.closing], ends):
            space = yield from tape.space()
            found = yield from tape.literal(options)
            if not found:
                tape.back(space)
            elif found == messages.again:
                return True
        return False

    def _show_raw(self, raw: str) -> None:
        """Add text that is not a call, unchanged, as a part of its own."""
        self._text.begin(is_stripped=False)
        self._text.show(raw)
