"""Cuts a long text where its tokens would end anyway, so that it can be tokenized in pieces.

One call of llama.cpp can be neither cancelled nor interrupted, takes time that grows with the square of some texts (a
megabyte of line ends, by a SentencePiece vocabulary: a minute), and for the regular expressions of some vocabularies a
stack that grows with a run of one kind of character: 30,000 digits end the process. Knows nothing of special tokens.

A letter and the delimiter behind it are of two tokens if no token of the vocabulary holds such a pair, as none does
that was trained on words; and every tokenizer begins something new at a delimiter behind a letter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

PIECE_CHARACTERS = 8192
"""From here on a piece ends at the next place where it may: some 10 ms."""
MAX_PIECE_CHARACTERS = 16_384
"""A run without such a place ends here all the same, and its tokens there may be others than llama.cpp's; Llama's own
tokenizer cuts after 25,000 characters. std::regex takes half a kilobyte of stack for each."""
DELIMITERS = " \n,.;:!?()/+=-\uff0c\u3002\u3001\uff01\uff1f\uff1b\uff1a"
_LETTERS = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0391-\u03a9\u03b1-\u03c9\u0400-\u0481\u05d0-\u05ea\u0621-\u063a"
    "\u0641-\u064a\u0904-\u0939\u0e01-\u0e2e\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3"
)


class Piece(NamedTuple):
    text: str
    continues: bool
    """It does not begin its fragment."""


class TextCuts:
    """Where texts of one vocabulary may be cut. Without delimiters nowhere."""

    def __init__(self, delimiters: str, *, may_force: bool) -> None:
        """`may_force`: a run without delimiters is cut as well."""
        self._place = re.compile(f"[{_LETTERS}][{re.escape(delimiters)}]") if delimiters else None
        self._may_force = may_force

    def pieces(self, fragment: str) -> Iterator[Piece]:
        """They add up to the fragment."""
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
    """Those of `DELIMITERS` at which texts may be cut.

    `joined`: the text of all tokens that are not special, NUL between them, what is not whole in UTF-8 as U+FFFD.
    `tokenize`, `go_on`: of a fragment's beginning, and of a piece that continues it; tried with short texts.
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
