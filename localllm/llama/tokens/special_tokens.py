"""Finds the special tokens spelled in a text, in one pass, with the same result as llama.cpp.

llama.cpp searches for one token after the other in a growing list of fragments (`tokenizer_st_partition`), in time
quadratic in the number of matches: 20,000 times `<|im_end|>x` take it five seconds. Knows nothing of vocabularies: the
spellings are passed in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

WINDOW_CHARACTERS = 65_536
"""Characters searched while no other thread can run: a millisecond or two."""
MAX_COMPARISONS = 200_000
"""Comparisons of tokens with one another, when a vocabulary is loaded: half a second. Real ones need some hundreds."""
MAX_PASSES = 16
"""Passes over a text where tokens overlap. Up to this many tokens of one length keep their order in `std::sort`."""
MAX_NESTING = 40
"""Nested groups in the pattern; Python's regular-expression parser is recursive."""
_SPACES = " \t\n\v\f\r"
"""C's `isspace`."""


class SpecialToken(NamedTuple):
    """A token and its spelling; `strips_left`, `strips_right`: white space beside it is dropped."""

    id: int
    text: str
    strips_left: bool = False
    strips_right: bool = False


class SpecialTokens:
    """The special tokens of one vocabulary that are searched in texts."""

    def __init__(self, tokens: Iterable[SpecialToken]) -> None:
        """Raises `ValueError` for tokens that only llama.cpp itself can find: those whose order it leaves open."""
        self._by_text: dict[str, SpecialToken] = {}
        for token in tokens:  # llama.cpp takes any of equal spellings; no vocabulary has one twice
            self._by_text.setdefault(token.text, token)
        texts = list(self._by_text)
        if "" in self._by_text:
            raise ValueError("a special token without spelling")
        strips = any(token.strips_left or token.strips_right for token in self._by_text.values())
        if strips and any(text[0] in _SPACES or text[-1] in _SPACES for text in texts):
            raise ValueError("special tokens of white space, and others that strip it")
        self._longest = max(map(len, texts), default=0)
        self._pattern = re.compile(_pattern(texts)) if texts else None
        self._in_order: list[SpecialToken] | None = None
        """All tokens in llama.cpp's order, if one pass from left to right would find others; else None."""
        overlap = self._find_overlap(texts)
        if overlap is not None:
            if strips or len(texts) > MAX_PASSES:
                raise ValueError(f"special tokens {overlap[0]!r} and {overlap[1]!r} overlap")
            self._in_order = sorted(self._by_text.values(), key=lambda token: -len(token.text.encode()))

    def cut(self, text: str) -> Iterator[str | int]:
        """The text's fragments and the ids of the special tokens between them, in order.

        An empty fragment only means that the search continues, so that the caller can do something else in between.
        """
        if self._in_order is not None:
            yield from _cut_in_order(text, self._in_order)
            return
        start = 0
        for match in self._matches(text):
            if match is None:
                yield ""
                continue
            token = self._by_text[match.group()]
            end = match.start()
            while token.strips_left and end > start and text[end - 1] in _SPACES:
                end -= 1
            if end > start:
                yield text[start:end]
            yield token.id
            start = match.end()
            while token.strips_right and start < len(text) and text[start] in _SPACES:
                start += 1
        if start < len(text):
            yield text[start:]

    def _matches(self, text: str) -> Iterator[re.Match[str] | None]:
        """All matches; None after each window without any."""
        if self._pattern is None:
            return
        at = 0
        while at < len(text):
            window_end = at + WINDOW_CHARACTERS
            match = self._pattern.search(text, at, window_end + self._longest)
            if match is None or match.start() >= window_end:
                at = window_end
                yield None
            else:
                at = match.end()
                yield match

    def _find_overlap(self, texts: list[str]) -> tuple[str, str] | None:
        """Two tokens of which one pass finds the first but llama.cpp, which starts with the longest, the second."""
        beginnings: dict[str, list[str]] = {}
        for text in texts:
            for length in range(1, len(text)):
                beginnings.setdefault(text[:length], []).append(text)
        num_comparisons = 0
        for first in texts:
            for length in range(1, len(first)):
                for second in beginnings.get(first[-length:], ()):
                    num_comparisons += 1
                    if num_comparisons > MAX_COMPARISONS:
                        raise ValueError("too many special tokens that may overlap")
                    if second == first or len(second.encode()) < len(first.encode()):
                        continue
                    assert self._pattern is not None
                    found = self._pattern.match(first + second[length:])
                    if found is not None and found.group() == first:
                        return first, second
        return None


def _cut_in_order(text: str, tokens: Iterable[SpecialToken]) -> list[str | int]:
    """One pass per token."""
    parts: list[str | int] = [text]
    for token in tokens:
        found: list[str | int] = []
        for part in parts:
            if isinstance(part, int):
                found.append(part)
                continue
            first, *others = part.split(token.text)
            found += [first] if first else []
            for other in others:
                found += [token.id, other] if other else [token.id]
        parts = found
    return parts


def _pattern(texts: Iterable[str], nesting: int = 0) -> str:
    """Matches the longest of these at a position, in time independent of their number."""
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(text[0], []).append(text)
    branches = []
    for group in groups.values():
        first, last = min(group), max(group)
        length = next((at for at, letter in enumerate(first) if letter != last[at]), len(first))
        common = first[:length]
        rests = [text[length:] for text in group if len(text) > length]
        if not rests:
            branches.append(re.escape(common))
            continue
        if nesting < MAX_NESTING:
            inner = _pattern(rests, nesting + 1)
        else:
            inner = "|".join(map(re.escape, sorted(rests, key=len, reverse=True)))
        branches.append(f"{re.escape(common)}(?:{inner}){'?' if len(rests) < len(group) else ''}")
    return "|".join(branches)
