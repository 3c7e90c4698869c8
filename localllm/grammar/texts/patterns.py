r"""Regular expressions as in JSON Schema (ECMAScript, unanchored), rewritten for llguidance (Rust, anchored).

Patterns are parsed and written anew to preserve their meaning: `[[a]`, `a&&b` and `\cA` differ, `\d` and `\w` are
ASCII, and `$` never matches before a final line end. If dialects disagree on a class, only characters that all accept
are generated. Lookarounds, back references, word boundaries and anchors inside the text are rejected. Knows nothing of
schemas.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from localllm.grammar.texts.charsets import (
    ANY_BUT_LINE_ENDS,
    EVERY,
    JSON_BLANKS,
    NARROW,
    WIDE,
    CharSet,
    Range,
    complement,
    folded,
    minus,
    normalized,
    written,
)

MAX_PATTERN_CHARS = 20_000
MAX_GROUP_DEPTH = 50
MAX_REPEATS = 10_000
"""Limit for one quantifier."""


class PatternRefused(Exception):
    """The message says which part of the pattern cannot be enforced."""


@dataclass
class _Part:
    """A sequence or a group in Rust's notation."""

    text: str = ""
    begins: bool = False
    """Whether it begins with `^`, which `text` omits."""
    ends: bool = False


@dataclass
class _Alternatives:
    parts: list[_Part] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "|".join(part.text for part in self.parts)


def whole_match(pattern: str) -> str:
    """A Rust regular expression that matches every text in which the pattern occurs.

    Raises `PatternRefused`.
    """
    if len(pattern) > MAX_PATTERN_CHARS:
        raise PatternRefused(f"it is longer than {MAX_PATTERN_CHARS} characters")
    return PatternParser(pattern.removeprefix("(?i)"), pattern.startswith("(?i)")).written()


def whitespace(pattern: str) -> str:
    """A Rust regular expression for blanks between JSON tokens. Raises `PatternRefused` if it matches anything else."""
    if len(pattern) > MAX_PATTERN_CHARS:
        raise PatternRefused(f"it is longer than {MAX_PATTERN_CHARS} characters")
    parser = _Blanks(pattern, ignore_case=False)
    alternatives = parser.alternatives(0)
    parser.expect_end()
    return f"(?:{alternatives.text})"


_CONTROLS = {"t": 0x09, "n": 0x0A, "r": 0x0D, "f": 0x0C, "v": 0x0B}
_QUANTIFIER = re.compile(r"\{(\d{1,9})(?:(,)(\d{1,9})?)?\}")
_LIKE_A_QUANTIFIER = re.compile(r"\d*,?\d*\}")
_LOW_SURROGATE = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_PROPERTY = re.compile(r"\{([A-Za-z_]+(?:=[A-Za-z0-9_]+)?)\}")


class PatternParser:
    """Recursive descent over one pattern."""

    narrow, wide = NARROW, WIDE
    """The classes as they are taken in a set, and in one that is negated."""

    def __init__(self, pattern: str, ignore_case: bool) -> None:
        self._pattern = pattern
        self._at = 0
        self._ignore_case = ignore_case

    def written(self) -> str:
        """An expression for every text in which the pattern occurs."""
        alternatives = self.alternatives(0)
        self.expect_end()
        wrapped = []
        for part in alternatives.parts:
            wrapped.append(("" if part.begins else "(?s:.*)") + part.text + ("" if part.ends else "(?s:.*)"))
        return f"(?:{'|'.join(wrapped)})"

    def expect_end(self) -> None:
        if self._at < len(self._pattern):
            raise PatternRefused("it has an unmatched `)`")

    def alternatives(self, depth: int) -> _Alternatives:
        if depth > MAX_GROUP_DEPTH:
            raise PatternRefused(f"its groups are nested more than {MAX_GROUP_DEPTH} deep")
        found = _Alternatives([self._sequence(depth)])
        while self._take("|"):
            found.parts.append(self._sequence(depth))
        return found

    def _sequence(self, depth: int) -> _Part:
        part = _Part()
        pieces: list[str] = []
        while self._peek() not in ("", "|", ")"):
            if self._take("^"):
                if pieces:
                    raise PatternRefused("`^` is not at its beginning")
                part.begins = True
            elif self._take("$"):
                part.ends = True
            elif part.ends:
                raise PatternRefused("`$` is not at its end")
            elif self._peek() == "(":
                self._group(part, pieces, depth)
            else:
                pieces.append(self._quantified(self._atom()))
        part.text = "".join(pieces)
        return part

    def _group(self, part: _Part, pieces: list[str], depth: int) -> None:
        self._at += 1
        if self._take("?") and not self._take(":"):
            name = re.compile(r"P?<[A-Za-z_$][\w$]*>").match(self._pattern, self._at)
            if name is None:
                raise PatternRefused("it has a lookaround or a flag in a group, which cannot be enforced")
            self._at = name.end()
        inner = self.alternatives(depth + 1)
        if not self._take(")"):
            raise PatternRefused("a group is not closed")
        text = self._quantified(f"(?:{inner.text})")
        # An anchor in a group counts if the group is at that end, not repeated, and all of its alternatives have it.
        for anchor, outermost in (("begins", not pieces), ("ends", True)):
            have = [getattr(one, anchor) for one in inner.parts]
            if any(have):
                if not all(have) or not outermost or not text.endswith(")"):
                    raise PatternRefused("an anchor is inside it, or only in one alternative of a group")
                setattr(part, anchor, True)
        pieces.append(text)

    def _quantified(self, atom: str) -> str:
        character = self._peek()
        if character in ("*", "+", "?") and character:
            self._at += 1
            suffix = character
        else:
            match = _QUANTIFIER.match(self._pattern, self._at)
            if match is None:
                return atom
            self._at = match.end()
            least, most = int(match[1]), int(match[3]) if match[3] else None
            if max(least, most or 0) > MAX_REPEATS:
                raise PatternRefused(f"a quantifier goes beyond {MAX_REPEATS}")
            if most is not None and most < least:
                raise PatternRefused("the upper bound of a quantifier is below the lower bound")
            suffix = match[0]
        self._take("?")  # lazy or not, the texts are the same
        if self._peek() in ("*", "+", "?") or _QUANTIFIER.match(self._pattern, self._at):
            raise PatternRefused("one quantifier follows another")
        return atom + suffix

    def _atom(self) -> str:
        character = self._next()
        if character == ".":
            return self._set(ANY_BUT_LINE_ENDS)
        if character == "[":
            return self._set(self._class())
        if character == "\\":
            return self._set(self._escape(self.narrow, in_class=False))
        if character in "*+?" or (character == "{" and _LIKE_A_QUANTIFIER.match(self._pattern, self._at)):
            raise PatternRefused(f"`{character}` has nothing to repeat, or must be escaped")
        return self._set(CharSet(((ord(character), ord(character)),)))

    def _set(self, charset: CharSet) -> str:
        if self._ignore_case:
            charset = CharSet(folded(charset.ranges), charset.properties, charset.is_negated)
        if charset.is_empty:
            raise PatternRefused("it needs a character that JSON strings can contain only as a \\u escape")
        return str(charset)

    def _class(self) -> CharSet:
        is_negated = self._take("^")
        classes = self.wide if is_negated else self.narrow
        ranges: list[Range] = []
        properties: list[str] = []
        while not self._take("]"):
            one = self._class_member(classes)
            if self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                other = self._class_member(classes)
                first, last = _single(one), _single(other)
                if first is not None and last is not None:
                    if first > last:
                        raise PatternRefused("a range in a class ends before it begins")
                    one = CharSet(((first, last),))
                else:  # `[\w-.]`: the hyphen itself
                    ranges += [(0x2D, 0x2D), *other.ranges]
                    properties += other.properties
            ranges += one.ranges
            properties += one.properties
        if not ranges and not properties:
            if is_negated:
                return EVERY
            raise PatternRefused("it has an empty class")
        return CharSet(normalized(ranges), tuple(properties), is_negated)

    def _class_member(self, classes: dict[str, CharSet]) -> CharSet:
        character = self._next()
        if character == "\\":
            return self._escape(classes, in_class=True)
        return CharSet(((ord(character), ord(character)),))

    def _escape(self, classes: dict[str, CharSet], *, in_class: bool) -> CharSet:
        character = self._next()
        if character in classes:
            return classes[character]
        if character in "pP":
            match = _PROPERTY.match(self._pattern, self._at)
            if match is None:
                raise PatternRefused("it has a \\p without {a property}")
            self._at = match.end()
            name = f"\\p{{{match[1]}}}"
            return CharSet((), (name if character == "p" else "\\P" + name[2:],))
        code = self._code(character, in_class)
        return CharSet(((code, code),))

    def _code(self, character: str, in_class: bool) -> int:
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "b" and in_class:
            return 0x08
        if character == "0" and not self._peek().isdigit():
            return 0
        if character == "x":
            return self._hex(2)
        if character == "u":
            if self._take("{"):
                end = self._pattern.find("}", self._at)
                return self._hex(end - self._at, closing=1) if 0 < end - self._at <= 6 else self._hex(0)
            code = self._hex(4)
            low = _LOW_SURROGATE.match(self._pattern, self._at) if 0xD800 <= code < 0xDC00 else None
            if low is None:
                return code
            self._at = low.end()
            return 0x10000 + ((code - 0xD800) << 10) + (int(low[1], 16) - 0xDC00)
        if character == "c" and self._peek().isascii() and self._peek().isalpha():
            return ord(self._next()) % 32
        if character in "bB":
            raise PatternRefused("it has a word boundary, which cannot be enforced")
        if character.isdigit() or character == "k":
            raise PatternRefused("it has a back reference, which cannot be enforced")
        if character.isalnum():
            raise PatternRefused(f"\\{character} is not a valid escape")
        return ord(character)

    def _hex(self, digits: int, closing: int = 0) -> int:
        text = self._pattern[self._at : self._at + digits]
        if len(text) != digits or not re.fullmatch("[0-9a-fA-F]+", text) or int(text, 16) > 0x10FFFF:
            raise PatternRefused("it has an escape without its digits")
        self._at += digits + closing
        return int(text, 16)

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self, character: str) -> bool:
        found = self._peek() == character
        self._at += found
        return found

    def _next(self) -> str:
        character = self._peek()
        if not character:
            raise PatternRefused("it ends inside a class or an escape")
        self._at += 1
        return character


class _Blanks(PatternParser):
    """Restricts each class to JSON's blanks, because `\\s` includes more in most dialects."""

    def _set(self, charset: CharSet) -> str:
        if charset.properties:
            raise PatternRefused("it matches characters that are not blanks in JSON")
        ranges = complement(charset.ranges) if charset.is_negated else charset.ranges
        blanks = minus(JSON_BLANKS, complement(ranges))
        if not blanks:
            raise PatternRefused("it matches characters that are not blanks in JSON")
        return f"[{written(blanks)}]"


def _single(charset: CharSet) -> int | None:
    if charset.properties or len(charset.ranges) != 1:
        return None
    first, last = charset.ranges[0]
    return first if first == last else None
