"""Reads a model's reasoning, which comes only at the beginning of an answer, or where the prompt opened it.

Several blocks may follow each other. White space at the edges of the reasoning, and a blank line after it, are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from localllm.chat.formats.tape import Markers, Steps, Tape, parts_of
from localllm.types.structures import Tags

BETWEEN = "\n\n"
"""Separates reasoning blocks of one answer."""
UNCLOSED = "the answer ended within its thought"
_BLANK_LINE = re.compile(r"[^\S\n]*(?:\n(?:[^\S\n]*\n)?)?")


class Thoughts:
    """Reads the reasoning of one answer. `show` gets it, including the literals if `splits` is false."""

    def __init__(
        self,
        tags: Tags,
        tape: Tape,
        show: Callable[[str], None],
        *,
        behind: str = "",
        ignored: Iterable[str] = (),
        is_open: bool = False,
        splits: bool = True,
    ) -> None:
        self._opening = parts_of(tags.opening)
        closing = parts_of(tags.closing)
        self._closing, self._rest = closing[:1], closing[1:]
        self._behind = parts_of(behind)
        self._ignored = [each.strip() for each in ignored]
        self._tape = tape
        self._show = show
        self._splits = splits
        self._has_shown = False
        self._was_there = False
        self.is_inside = is_open and bool(closing)
        self.is_unclosed = False

    def read(self) -> Steps[str]:
        """Read all blocks and the separator before the text; returns the white space that belongs to the text."""
        tape = self._tape
        if self.is_inside:
            tape.record()
            yield from tape.parts(self._opening)  # models repeat parts of the opening that the prompt already has
            self._raw(tape.recorded())
            yield from self._block()
        space = ""
        while not self.is_unclosed:
            tape.record()
            space += yield from tape.space()
            found = yield from tape.literal([*self._opening[:1], *self._ignored, *(self._behind[:1] * self._was_there)])
            if found and found in self._opening[:1] and self._closing:
                yield from tape.parts(self._opening[1:])
                space = ""
                self._raw(tape.recorded())
                self.is_inside = True
                yield from self._block()
            elif found:
                if found in self._behind[:1]:
                    yield from tape.parts(self._behind[1:])
                space = ""
                self._raw(tape.recorded())
            else:
                tape.recorded()
                break
        if not self._was_there or not self._splits:
            return space
        match = _BLANK_LINE.match(space)
        return space[match.end() :] if match is not None else space

    def _raw(self, text: str) -> None:
        if not self._splits:
            self._show(text)

    def _block(self) -> Steps[None]:
        """Read a block of reasoning and its closing literal."""
        tape = self._tape
        markers = Markers(self._closing)
        space: list[str] = []
        between = BETWEEN if self._has_shown else ""
        is_at_start = True
        self._was_there = True
        while True:
            text, literal = yield from tape.until(markers)
            if not self._splits:
                self._show(text)
            else:
                text = text.lstrip() if is_at_start else text
                is_at_start = is_at_start and not text
                body = text.rstrip()
                if body:
                    self._show(between + "".join(space) + body)
                    self._has_shown, between = True, ""
                    space.clear()
                space.append(text[len(body) :])
            if literal:
                tape.record()
                tape.take(len(literal))
                yield from tape.parts(self._rest)
                self._raw(tape.recorded())
                self.is_inside = False
                return
            if not text and tape.is_ended and not tape.size:
                self.is_unclosed = True
                return
