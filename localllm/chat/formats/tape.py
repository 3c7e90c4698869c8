"""The text of an answer as it arrives, read from the front by generators that yield when they need more.

A waiting generator leaves at most the length of a literal on the tape, so that reading takes linear time overall. Text
that was read can be recorded and put back, for a call that turns out to be text. Knows no format.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
"""A generator that yields when it needs more text, and returns what it found."""

CHUNK = 4096
"""Characters. The limit avoids copying a long text again for every call in it."""
SPACE = re.compile(r"\s*")


class Tape:
    """Text that has arrived but has not been read."""

    def __init__(self) -> None:
        self._text = ""
        self._at = 0
        self._record: list[str] | None = None
        self.is_ended = False

    def feed(self, text: str) -> None:
        """Append text."""
        self._text = self._text[self._at :] + text
        self._at = 0

    @property
    def size(self) -> int:
        """Number of available characters."""
        return len(self._text) - self._at

    def chunk(self, most: int = CHUNK) -> str:
        """Read the available text, limited to what a reader may reasonably put back."""
        return self.take(min(self.size, most))

    def take(self, size: int) -> str:
        """Read `size` characters."""
        taken = self._text[self._at : self._at + size]
        self._at += len(taken)
        if self._record is not None:
            self._record.append(taken)
        return taken

    def back(self, text: str) -> None:
        """Put back the text that was read last."""
        start = self._at - len(text)
        if start >= 0 and self._text.startswith(text, start):
            self._at = start
        else:
            self._text = text + self._text[self._at :]
            self._at = 0
        if self._record is not None:
            size = len(text)
            while size and self._record:
                last = self._record.pop()
                if len(last) > size:
                    self._record.append(last[: len(last) - size])
                size = max(0, size - len(last))

    def record(self) -> None:
        """Start recording the text that is read."""
        self._record = []

    def recorded(self) -> str:
        """Stop recording; returns the text read since `record`."""
        record, self._record = self._record, None
        return "".join(record or ())

    def more(self) -> Steps[bool]:
        """Wait for more text; returns False at the end."""
        if self.is_ended:
            return False
        yield
        return True

    def char(self) -> Steps[str]:
        """Peek at the next character; empty at the end."""
        while self._at >= len(self._text):
            if not (yield from self.more()):
                return ""
        return self._text[self._at]

    def space(self) -> Steps[str]:
        """Read white space, if any."""
        found: list[str] = []
        while (yield from self.char()):
            match = SPACE.match(self._text, self._at)
            size = match.end() - self._at if match is not None else 0
            if not size:
                break
            found.append(self.take(size))
        return "".join(found)

    def literal(self, options: Iterable[str]) -> Steps[str]:
        """Read the longest of these literals that comes next; empty if none does."""
        options = [each for each in options if each]
        while True:
            found = max((each for each in options if self._text.startswith(each, self._at)), key=len, default="")
            rest = self._text[self._at : self._at + max(map(len, options), default=0)]
            if not any(len(each) > len(rest) and each.startswith(rest) for each in options):
                break
            if not (yield from self.more()):
                break
        return self.take(len(found))

    def parts(self, parts: Sequence[str], *, needs_last: bool = False) -> Steps[bool]:
        """Read these in order, with optional white space before each. All may be missing, except the last if
        `needs_last`. Returns whether any of them (the last, if needed) was there."""
        was_found = False
        for number, part in enumerate(parts, 1):
            space = yield from self.space()
            is_there = bool((yield from self.literal([part])))
            if not is_there:
                self.back(space)
            was_found = is_there if needs_last and number == len(parts) else was_found or is_there
        return was_found

    def until(self, markers: Markers, most: int | None = None) -> Steps[tuple[str, str]]:
        """Read text that certainly precedes the next marker; also returns that marker, unread. Without a marker, more
        text or the end may follow. If both are empty, it is the end.

        `most`: wait for the marker, which must come within that many characters; without a marker, none did.
        """
        while True:
            marker, position = markers.find(self._text, self._at, is_end=self.is_ended, most=most)
            size = position - self._at
            if most is not None and size > most:
                return self.take(most), ""
            if marker or self.is_ended or (size and most is None):
                return self.take(size), marker
            yield


class Markers:
    """Literals that may occur anywhere."""

    def __init__(self, literals: Iterable[str]) -> None:
        self._literals = sorted({each for each in literals if each}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, self._literals)) if self._literals else r"(?!)")
        self._longest = len(self._literals[0]) if self._literals else 0
        firsts = "".join(sorted({each[0] for each in self._literals}))
        self._first = re.compile(f"[{re.escape(firsts)}]" if firsts else r"(?!)")

    def find(self, text: str, start: int, *, is_end: bool, most: int | None = None) -> tuple[str, int]:
        """The first of them (the longest, if several begin there) and its offset; or empty, and the offset up to which
        there certainly is none. `most`: search no farther."""
        stop = len(text) if most is None else start + most + 1 + self._longest
        match = self._pattern.search(text, start, stop)
        stop = len(text) if is_end else self._held(text, start)
        if match is not None and (match.start() < stop or is_end):
            return match.group(), match.start()
        return "", stop

    def _held(self, text: str, start: int) -> int:
        """Offset of the first incomplete literal at the end."""
        position = max(start, len(text) - self._longest + 1)
        while (match := self._first.search(text, position)) is not None:
            tail = text[match.start() :]
            if any(len(each) > len(tail) and each.startswith(tail) for each in self._literals):
                return match.start()
            position = match.start() + 1
        return len(text)


def parts_of(literal: str) -> tuple[str, ...]:
    """Split a literal at white space that readers treat as optional: at its edges and around line ends."""
    return tuple(part for part in re.split(r"^\s+|\s+$|\s*\n\s*", literal) if part)
