"""Scans text that arrives in pieces, with readers written as if all of it were available.

A reader is a generator that yields when it needs more text. `ScannedArguments` drives a reader that converts the
arguments of a call to JSON. The result does not depend on how the text was cut, and no character is examined more than
a few times. Knows no format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

from localllm.chat.formats.arguments.reading import Piece

_T = TypeVar("_T")
Steps = Generator[None, None, _T]
"""A reader that returns T, and yields when it needs more text."""

MAX_DEPTH = 100
"""Nesting limit for values."""
_BLANK = re.compile(r"\s+")


class Unreadable(Exception):
    """The text is malformed. Never leaves this package."""


class Cut(Exception):
    """The text ended where more is needed."""


class Scanner:
    """Text that has arrived but has not been read, and the JSON output."""

    def __init__(self) -> None:
        self._text = ""
        self._at = 0
        self._written: list[str] = []
        self._word = ""
        """A word that was read and has no output yet."""
        self.is_ended = False
        """Whether no more text will come."""
        self.may_end = False
        """Whether the arguments so far are complete except for their closing literal."""

    @property
    def is_empty(self) -> bool:
        """Whether all text was read and no more will come."""
        return self.is_ended and self._at >= len(self._text)

    def add(self, text: str) -> None:
        """Append text that has arrived."""
        self._text = self._text[self._at :] + text
        self._at = 0

    def rest(self) -> str:
        """The unread text, after a word without output."""
        return self._word + self._text[self._at :]

    def write(self, text: str) -> None:
        """Append to the output."""
        self._written.append(text)
        self._word = ""

    def write_quoted(self, text: str) -> None:
        """Append part of a JSON string."""
        self._written.append(json.dumps(text, ensure_ascii=False)[1:-1])

    def written(self) -> str:
        """The output since the last call."""
        text = "".join(self._written)
        self._written.clear()
        return text

    def skip(self, count: int) -> None:
        """Consume characters that were peeked at."""
        self._at += count

    def _more(self) -> Steps[None]:
        """Wait for more text."""
        if self.is_ended:
            raise Cut
        yield

    def peek(self) -> Steps[str]:
        """Peek at the next character."""
        while self._at >= len(self._text):
            yield from self._more()
        return self._text[self._at]

    def sees(self, literal: str) -> Steps[bool]:
        """Whether the literal comes next; does not read it, and waits no longer than necessary."""
        while True:
            there = self._text[self._at : self._at + len(literal)]
            if there == literal:
                return True
            if not literal.startswith(there):
                return False
            yield from self._more()

    def takes(self, literal: str) -> Steps[bool]:
        """Read the literal if it comes next; returns whether it did."""
        found = yield from self.sees(literal)
        if found:
            self.skip(len(literal))
        return found

    def run(self, pattern: re.Pattern[str], keep: Callable[[str], None]) -> Steps[None]:
        """Read while characters match the pattern (`[...]+`), passing them to `keep` as they arrive."""
        while True:
            if found := pattern.match(self._text, self._at):
                keep(found[0])
                self._at = found.end()
            if self._at < len(self._text) or self.is_ended:
                return
            yield

    def blank(self) -> Steps[str]:
        """Read white space and return it."""
        found: list[str] = []
        yield from self.run(_BLANK, found.append)
        return "".join(found)

    def word(self, pattern: re.Pattern[str]) -> Steps[str]:
        """Read one word of characters that match the pattern (`[...]+`); any other character ends it."""
        found: list[str] = []
        yield from self.run(pattern, found.append)
        yield from self.peek()
        self._word = "".join(found)
        return self._word

    def until(self, literal: str, keep: Callable[[str], None]) -> Steps[None]:
        """Read up to and including the literal, passing the text before it to `keep` as it arrives."""
        while True:
            end = self._text.find(literal, self._at)
            if end >= 0:
                keep(self._text[self._at : end])
                self._at = end + len(literal)
                return
            safe = len(self._text) - held_back(self._text[self._at :], (literal,))
            if safe > self._at:
                keep(self._text[self._at : safe])
                self._at = safe
            yield from self._more()


def held_back(text: str, literals: Iterable[str]) -> int:
    """The number of characters at the end of the text that may begin one of the literals."""
    longest = 0
    for literal in literals:
        for size in range(min(len(literal) - 1, len(text)), longest, -1):
            if text.endswith(literal[:size]):
                longest = size
                break
    return longest


def listed(scanner: Scanner, closing: str, read_one: Callable[[int], Steps[None]]) -> Steps[int]:
    """Read comma-separated items up to the closing bracket, which stays unread; returns their number.

    A trailing comma is allowed. `read_one` is called with the number of preceding items.
    """
    count = 0
    while True:
        yield from scanner.blank()
        if (yield from scanner.peek()) == closing:
            return count
        yield from read_one(count)
        count += 1
        yield from scanner.blank()
        if not (yield from scanner.takes(",")) and (yield from scanner.peek()) != closing:
            raise Unreadable


class ScannedArguments:
    """An `ArgumentsReader` driven by a generator."""

    def __init__(self, read: Callable[[Scanner], Steps[None]]) -> None:
        self._scanner = Scanner()
        self._steps = read(self._scanner)

    def feed(self, text: str) -> Piece:
        self._scanner.add(text)
        return self._step()

    def flush(self) -> Piece:
        self._scanner.is_ended = True
        return self._step()

    def _step(self) -> Piece:
        scanner = self._scanner
        try:
            next(self._steps)
        except StopIteration:
            return Piece(scanner.written(), scanner.rest())
        except Unreadable:
            return Piece(scanner.written(), scanner.rest(), is_broken=True)
        except Cut:
            if scanner.may_end:
                return Piece(scanner.written() + "}", scanner.rest())
        return Piece(scanner.written())


def object_opening(count: int) -> str:
    """The JSON before a member's key. An object is opened only once its first key is known."""
    return ", " if count else "{"
