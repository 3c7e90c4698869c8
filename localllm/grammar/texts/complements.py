"""Regular expressions for all texts but some: other than certain texts, or without a certain beginning or part.

Complements of literals only, which stay small. Used for `not`, and for lookaheads at the beginning of a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from localllm.grammar.texts.charsets import CharSet, normalized
from localllm.grammar.texts.patterns import PatternRefused

MAX_CHARACTERS = 20_000
ANYTHING = "(?s:.*)"
_LITERAL = r"(?:[^\\^$.|?*+()\[\]{}]|\\[^\w\s])+"
_EXACTLY = re.compile(rf"\^?({_LITERAL}|\((?:\?:)?{_LITERAL}(?:\|{_LITERAL})*\))(\$?)")
_ANYWHERE = re.compile(rf"(?:\^?(?:\.\*|\[\\s\\S\]\*))?({_LITERAL})(?:\.\*\$?)?")


class RustPattern(str):
    """A pattern in llguidance's form already."""

    __slots__ = ()


def other_texts(pattern: object) -> RustPattern:
    """All texts in which the pattern does not occur. Raises `PatternRefused`."""
    if isinstance(pattern, str):
        if pattern.startswith("^") and (found := _EXACTLY.fullmatch(pattern)) is not None:
            return others(_literals(found[1]), is_whole=bool(found[2]))
        if (found := _ANYWHERE.fullmatch(pattern)) is not None:
            return without(_literals(found[1])[0])
    raise PatternRefused("what it does not match cannot be enforced")


def others(texts: Iterable[str], *, is_whole: bool = True) -> RustPattern:
    """All texts but these; if not `is_whole`, all that begin with none of these. Raises `PatternRefused`."""
    texts = sorted(set(texts))
    if sum(map(len, texts)) > MAX_CHARACTERS or any(len(text) > 500 for text in texts):
        raise PatternRefused("what it does not match is too long")
    return RustPattern(f"^{_behind(texts, 0, is_whole=is_whole)}$")


def without(part: str) -> RustPattern:
    """All texts that do not contain this one. Raises `PatternRefused`."""
    first, second = part[:1], part[1:2]
    if len(part) == 1:
        return RustPattern(f"^{_none_of(part)}*$")
    if len(part) != 2:
        raise PatternRefused("what it does not match cannot be enforced")
    if first == second:
        return RustPattern(f"^(?:{_none_of(first)}|{_one(first)}{_none_of(first)})*{_one(first)}?$")
    return RustPattern(f"^(?:{_none_of(first)}|{_one(first)}+{_none_of(part)})*{_one(first)}*$")


def _behind(texts: Sequence[str], at: int, *, is_whole: bool) -> str:
    """What may follow the first `at` characters, which these texts share."""
    ends = any(len(text) == at for text in texts)
    if ends and not is_whole:
        return "[^\\s\\S]"
    firsts = sorted({text[at] for text in texts if len(text) > at})
    options = [f"{_none_of(''.join(firsts))}{ANYTHING}"] if firsts else [f"(?s:.){ANYTHING}"]
    for first in firsts:
        behind = [text for text in texts if text[at : at + 1] == first]
        if not (not is_whole and any(len(text) == at + 1 for text in behind)):
            options.append(_one(first) + _behind(behind, at + 1, is_whole=is_whole))
    return f"(?:{'|'.join(options)}){'' if ends else '?'}"


def _literals(pattern: str) -> list[str]:
    inner = re.sub(r"^\((?:\?:)?|\)$", "", pattern) if pattern.startswith("(") else pattern
    return [re.sub(r"\\(.)", r"\1", one) for one in re.split(r"(?<!\\)\|", inner)]


def _none_of(characters: str) -> str:
    return str(CharSet(normalized((ord(one), ord(one)) for one in characters), (), True))


def _one(character: str) -> str:
    charset = CharSet(((ord(character), ord(character)),))
    if charset.is_empty:
        raise PatternRefused("it needs a character that JSON strings can contain only as a \\u escape")
    return str(charset)
