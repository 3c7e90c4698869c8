"""Reads an answer as it arrives, by the description of its format: reasoning, text and calls.

Text is passed on immediately, except for the beginning of a possible marker, and white space that may precede a call.
Text that looks like a call but is none stays text, with a note: nothing is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from localllm.chat.formats.parts.answers import SteppedAnswer
from localllm.chat.formats.parts.protocols import OpenedReader, harmony_reader, muse_reader
from localllm.chat.formats.parts.python_tag import PythonTagReader
from localllm.chat.formats.parts.sections import CUT_CALL, UNREAD, Opening, Section
from localllm.chat.formats.parts.thoughts import UNCLOSED, Thoughts
from localllm.chat.formats.reading import Reader
from localllm.chat.formats.tape import Markers, Steps
from localllm.types.conversation import Function
from localllm.types.formats import ChatFormat

MOST_AGAIN = 256
"""Maximum number of characters after a call marker that are read again as text if they are no call."""


def reader_of(
    format: ChatFormat,
    functions: Sequence[Function],
    *,
    in_thought: bool = False,
    splits_thoughts: bool = True,
    reads_calls: bool = True,
) -> Reader:
    """The reader for one answer. `in_thought`: the prompt ends inside the reasoning. `splits_thoughts`: reasoning is
    separated from the text. `reads_calls`: whether to read calls of these functions."""
    called = functions if reads_calls else None
    if format.protocol == "harmony":
        return harmony_reader(called, in_thought=in_thought, splits_thoughts=splits_thoughts)
    if format.protocol == "muse" and format.calls is not None:
        return muse_reader(format.calls, called, in_thought=in_thought, splits_thoughts=splits_thoughts)
    reader: Reader = AnswerReader(format, called, in_thought=in_thought, splits_thoughts=splits_thoughts)
    if format.protocol == "python_tag" and called:
        reader = PythonTagReader(reader, called)
    return OpenedReader(reader, format, called or ()) if format.opened else reader


class AnswerReader(SteppedAnswer):
    """The reader for formats without a protocol of their own."""

    def __init__(
        self, format: ChatFormat, functions: Sequence[Function] | None, *, in_thought: bool, splits_thoughts: bool
    ) -> None:
        super().__init__()
        self._thoughts: Thoughts | None = None
        if format.thought is not None:
            self._thoughts = Thoughts(
                format.thought,
                self._tape,
                self._out.thought.append if splits_thoughts else self._out.text.append,
                behind=format.behind_thought,
                ignored=format.ignored,
                is_open=in_thought,
                splits=splits_thoughts,
            )
        tags = [] if format.text is None else [format.text.opening, format.text.closing]
        self._dropped = {text for each in (*tags, *format.also_text, *format.ignored) if (text := each.strip())}
        self._section: Section | None = None
        if format.calls is not None and functions is not None:
            self._section = Section(format.calls, functions, self._tape, self._out, self._show)
        self._openings: dict[str, list[Opening]] = {}
        for opening in self._section.openings if self._section is not None else ():
            self._openings.setdefault(opening.marker, []).append(opening)
        self._holds_space = bool(self._dropped or self._section)
        self._space: list[str] = []
        """White space after the text so far, which is part of it if more text follows."""
        self._joint = ""
        """Separator before the next text, if it is a new part."""
        self._has_text = False
        self._last = ""
        """The last two characters, other than white space, before a bracket that may open a call."""

    @property
    def is_thinking(self) -> bool:
        return self._thoughts is not None and self._thoughts.is_inside

    def _read(self) -> Steps[None]:
        if self._thoughts is not None:
            self._show((yield from self._thoughts.read()))
            if self._thoughts.is_unclosed:
                self._out.note(UNCLOSED)
        section, bracket = self._section, "" if self._section is None else self._section.bracket
        if section is not None and bracket:
            yield from self._bare(section, is_beginning=True)
        markers = Markers([*self._dropped, *self._openings, bracket])
        while True:
            text, marker = yield from self._tape.until(markers)
            self._show(text)
            if bracket:
                self._last = (self._last + "".join(text.split()))[-2:]
            if section is not None and bracket and marker == bracket:
                yield from self._bare(section)
            elif marker in self._openings:
                yield from self._marked(marker)
                self._last = ""
            elif marker:
                yield from self._part(marker)
            elif not text and self._tape.is_ended and not self._tape.size:
                break
        if not self._out.num_calls:
            self._out.text.extend(self._space)

    def _show(self, text: str) -> None:
        """Pass text on, holding back trailing white space."""
        if not self._holds_space:
            self._out.text.append(text)
            return
        if not self._has_text and self._out.num_calls:
            self._space.clear()
            text = text.lstrip()
        body = text.rstrip()
        if body:
            self._out.text.extend([self._joint, *self._space, body])
            self._space.clear()
            self._joint = ""
            self._has_text = True
        self._space.append(text[len(body) :])

    def _part(self, marker: str) -> Steps[None]:
        """Skip a literal between parts of an answer."""
        self._tape.take(len(marker))
        yield from self._tape.space()
        self._space.clear()
        self._joint = "\n\n" if self._has_text else ""

    def _marked(self, marker: str) -> Steps[None]:
        """Read calls after a marker, or text that only looks like them."""
        raw = ""
        for opening in self._openings[marker]:
            self._tape.back(raw)
            self._tape.record()
            self._tape.take(len(marker))
            if self._section is not None and (yield from self._section.read(opening)):
                return
            raw = self._tape.recorded()
        if marker in self._dropped:
            self._tape.back(raw)
            yield from self._part(marker)
            return
        is_cut = self._tape.is_ended and not self._tape.size
        if not is_cut and len(raw) <= MOST_AGAIN:
            self._tape.back(raw[len(marker) :])
            raw = marker
        self._show(raw)
        if raw.strip() != marker or not marker[0].isalnum():  # a word such as `Action:` is usually just a word
            self._out.note(CUT_CALL if is_cut else UNREAD)

    def _bare(self, section: Section, *, is_beginning: bool = False) -> Steps[None]:
        """Read calls that only brackets open, or text. At the beginning of an answer, brackets may be missing."""
        tape, bracket = self._tape, "" if is_beginning else section.bracket
        if self._last[-1:] in ("[", ",") or self._last == '":':  # within other JSON
            self._show(tape.take(len(bracket)))
            self._last = bracket
            return
        tape.record()
        if (yield from section.read(section.bare, is_guess=True)):
            self._last = ""
            return
        raw = tape.recorded()
        if len(raw) <= MOST_AGAIN or is_beginning:
            tape.back(raw[len(bracket) :])
            raw = bracket
        self._show(raw)
        self._last = bracket
