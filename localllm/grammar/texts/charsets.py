"""Sets of characters as ranges of code points, written for llguidance's regular expressions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Range = tuple[int, int]
"""First and last code point, both included."""

LAST = 0x10FFFF
SURROGATES: Range = (0xD800, 0xDFFF)

UNWRITABLE: tuple[Range, ...] = ((0, 7), (0x0B, 0x0B), (0x0E, 0x1F), (0x7F, 0x7F), SURROGATES)
"""Characters that JSON strings can contain only as `\\u` escapes: control characters without a short escape."""


JSON_BLANKS: tuple[Range, ...] = ((0x09, 0x0A), (0x0D, 0x0D), (0x20, 0x20))


def normalized(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Sorted, without overlaps or adjacent ranges."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


def complement(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """All other code points."""
    found, start = [], 0
    for first, last in normalized(ranges):
        if first > start:
            found.append((start, first - 1))
        start = last + 1
    if start <= LAST:
        found.append((start, LAST))
    return tuple(found)


def minus(ranges: Iterable[Range], others: Iterable[Range]) -> tuple[Range, ...]:
    """Code points that are not among the others."""
    return complement((*complement(ranges), *others))


def overlap(ranges: Iterable[Range], others: tuple[Range, ...]) -> bool:
    """Whether some code point is in both."""
    return any(first <= end and start <= last for first, last in ranges for start, end in others)


def folded(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The ranges with both cases of every ASCII letter in them."""
    found = list(ranges)
    for first, last in tuple(found):
        for start, end, shift in ((0x41, 0x5A, 32), (0x61, 0x7A, -32)):
            if max(first, start) <= min(last, end):
                found.append((max(first, start) + shift, min(last, end) + shift))
    return normalized(found)


@dataclass(frozen=True)
class CharSet:
    """A set of characters: ranges and Unicode properties, or the complement of these."""

    ranges: tuple[Range, ...] = ()
    properties: tuple[str, ...] = ()
    """As written in a class: `\\p{L}`, `[^\\p{Nd}]`."""
    is_negated: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it contains no character that a JSON string can contain unescaped or with a short escape."""
        return not self.properties and not self._written()

    def _written(self) -> tuple[Range, ...]:
        return minus(complement(self.ranges) if self.is_negated else self.ranges, UNWRITABLE)

    def __str__(self) -> str:
        if self.properties:
            caret = "^" if self.is_negated else ""
            return f"[{caret}{written(minus(self.ranges, [SURROGATES]))}{''.join(self.properties)}]"
        return f"[{written(self._written())}]"


def written(ranges: Iterable[Range]) -> str:
    """The ranges as in a character class, without brackets."""
    return "".join(_char(first) if first == last else f"{_char(first)}-{_char(last)}" for first, last in ranges)


def _char(code: int) -> str:
    return chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\x{{{code:X}}}"


_DIGIT: tuple[Range, ...] = ((0x30, 0x39),)
_WORD: tuple[Range, ...] = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: tuple[Range, ...] = ((0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20))  # the vertical tab has no escape in JSON
_WIDE_SPACE = normalized([
    (0x09, 0x0D), (0x1C, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029),
    (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
])  # fmt: skip

NARROW = {
    "d": CharSet(_DIGIT),
    "w": CharSet(_WORD),
    "s": CharSet(_SPACE),
    "D": CharSet((), ("[^\\p{Nd}]",)),
    "W": CharSet((), ("[^_\\p{L}\\p{N}\\p{M}]",)),
    "S": CharSet(complement(_WIDE_SPACE)),
}
"""Characters that every dialect includes in the class: `\\d` and `\\w` are ASCII in ECMAScript, Unicode in Python."""

WIDE = {
    "d": CharSet((), ("\\p{Nd}",)),
    "w": CharSet(((0x5F, 0x5F),), ("\\p{L}", "\\p{N}", "\\p{M}")),
    "s": CharSet(_WIDE_SPACE),
    "D": CharSet(complement(_DIGIT)),
    "W": CharSet(complement(_WORD)),
    "S": CharSet(complement(_SPACE)),
}
"""Characters that some dialect includes in the class; for negated classes."""

ANY_BUT_LINE_ENDS = CharSet(normalized([(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)]), (), True)
EVERY = CharSet((), (), True)
