"""Cuts a long text at token boundaries, so that it can be tokenized in pieces.

One call of llama.cpp can be neither cancelled nor interrupted. For some texts its time is quadratic (a megabyte of line
ends with a SentencePiece vocabulary: a minute), and the regular expressions of some vocabularies need a stack that
grows with a run of one kind of character: 30,000 digits crash the process. Knows nothing of special tokens.

A letter and a delimiter after it belong to two tokens if no token of the vocabulary contains such a pair, which holds
for all that were trained on words; and every tokenizer begins something new at a delimiter after a letter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

PIECE_CHARACTERS = 8192
"""From this length on a piece ends at the next possible place: some 10 ms."""
MAX_PIECE_CHARACTERS = 16_384
"""A run without such a place ends here anyway, where its tokens may differ from llama.cpp's; Llama's own tokenizer cuts
after 25,000 characters. std::regex takes half a kilobyte of stack per character."""
DELIMITERS = " \n,.;:!?()/+=-\uff0c\u3002\u3001\uff01\uff1f\uff1b\uff1a"
_LETTERS = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0391-\u03a9\u03b1-\u03c9\u0400-\u0481\u05d0-\u05ea\u0621-\u063a"
    "\u0641-\u064a\u0904-\u0939\u0e01-\u0e2e\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3"
)


class Piece(NamedTuple):
    text: str
    continues: bool
    """Whether it continues a fragment."""


class TextCuts:
    """Where texts of one vocabulary may be cut; nowhere without delimiters."""

    def __init__(self, delimiters: str, *, may_force: bool) -> None:
        """`may_force`: a run without delimiters is cut as well."""
        self._place = re.compile(f"[{_LETTERS}][{re.escape(delimiters)}]") if delimiters else None
        self._may_force = may_force

    def pieces(self, fragment: str) -> Iterator[Piece]:
        """Pieces whose concatenation is the fragment."""
        start = 0
        while len(fragment) - start > PIECE_CHARACTERS:
            end = self._end(fragment, start)
            if end is None:
                break
            yield Piece(fragment[start:end], start > 0)
            start = end
        if start < len(fragment):
            yield Piece(fragment[start:], start > 0)

    def _end(self, fragment: str, start: int) -> int | None:
        latest = start + MAX_PIECE_CHARACTERS if self._may_force else len(fragment)
        place = self._place.search(fragment, start + PIECE_CHARACTERS - 1, latest) if self._place else None
        if place is not None:
            return place.start() + 1
        return latest if latest < len(fragment) else None


def find_delimiters(joined: str, tokenize: Callable[[str], list[int]], go_on: Callable[[str], list[int]]) -> str:
    """Which of `DELIMITERS` texts may be cut at.

    `joined`: the text of all tokens that are not special, separated by NUL, with U+FFFD for incomplete UTF-8.
    `tokenize` and `go_on` tokenize the beginning of a fragment and a piece that continues it; they are tried with short
    texts.
    """
    held = set(re.findall(f"[{_LETTERS}\ufffd]([{re.escape(DELIMITERS)}\ufffd])", joined))
    if "\ufffd" in held:  # a letter and a part of a character, which may be one of these
        held |= {delimiter for delimiter in DELIMITERS if not delimiter.isascii()}
    beginning = tokenize("ab")
    return "".join(
        delimiter
        for delimiter in DELIMITERS
        if delimiter not in held and tokenize(f"ab{delimiter}cd") == beginning + go_on(f"{delimiter}cd")
    )
