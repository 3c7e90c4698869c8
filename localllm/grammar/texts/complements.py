"""Regular expressions for all texts but certain ones, which stay small, or but those in which a pattern occurs.

Used for `not`, and for lookaheads at the beginning of a pattern.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from localllm.grammar.texts.charsets import CharSet, normalized
from localllm.grammar.texts.opposites import opposite
from localllm.grammar.texts.patterns import PatternRefused

MAX_CHARACTERS = 20_000
ANYTHING = "(?s:.*)"


class RustPattern(str):
    """A pattern in llguidance's form already."""


class SourcedPattern(RustPattern):
    """A pattern in llguidance's form that knows those of JSON Schema: texts in which these occur, and those do not."""

    required: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @classmethod
    def of(cls, written: str, required: tuple[str, ...], excluded: tuple[str, ...] = ()) -> SourcedPattern:
        found = cls(written)
        found.required, found.excluded = required, excluded
        return found


class OtherTexts(RustPattern):
    """A pattern of all texts but these."""

    texts: tuple[str, ...] = ()


def other_texts(pattern: object) -> RustPattern:
    """All texts in which the pattern does not occur. Raises `PatternRefused`."""
    if not isinstance(pattern, str) or isinstance(pattern, RustPattern):
        raise PatternRefused("what it does not match cannot be enforced")
    return RustPattern(f"^{opposite(pattern)}$")


def others(texts: Iterable[str]) -> OtherTexts:
    """All texts but these. Raises `PatternRefused`."""
    texts = sorted(set(texts))
    if sum(map(len, texts)) > MAX_CHARACTERS or any(len(text) > 500 for text in texts):
        raise PatternRefused("what it does not match is too long")
    found = OtherTexts(f"^{_behind(texts, 0)}$")
    found.texts = tuple(texts)
    return found


def _behind(texts: Sequence[str], at: int) -> str:
    """What may follow the first `at` characters, which these texts share."""
    firsts = sorted({text[at] for text in texts if len(text) > at})
    options = [f"{_none_of(''.join(firsts))}{ANYTHING}"] if firsts else [f"(?s:.){ANYTHING}"]
    for first in firsts:
        options.append(_one(first) + _behind([text for text in texts if text[at : at + 1] == first], at + 1))
    return f"(?:{'|'.join(options)}){'' if any(len(text) == at for text in texts) else '?'}"


def _none_of(characters: str) -> str:
    return str(CharSet(normalized((ord(one), ord(one)) for one in characters), (), True))


def _one(character: str) -> str:
    charset = CharSet(((ord(character), ord(character)),))
    if charset.is_empty:
        raise PatternRefused("it needs a character that JSON strings can contain only as a \\u escape")
    return str(charset)
