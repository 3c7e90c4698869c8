"""Rewrites the keywords of texts: lengths, `pattern` and `format`."""

from __future__ import annotations

from typing import Any

from localllm.grammar.refusals import impossible, refused, unsupported
from localllm.grammar.schema.notes import Notes
from localllm.grammar.schema.typed.formats import FORMATS, MAX_CHARS, SILENT
from localllm.grammar.texts.complements import RustPattern, SourcedPattern, other_texts
from localllm.grammar.texts.lookaheads import split_lookaheads
from localllm.grammar.texts.patterns import PatternRefused, whole_match

MAX_LENGTH = 2**31 - 1
MAX_MIN_LENGTH = 50_000


def rewritten(named: dict[str, Any], path: str, notes: Notes, *, may_be_text: bool) -> dict[str, Any]:
    """`minLength`, `maxLength` and `pattern`; a second pattern goes into `allOf`. Raises `InvalidParameter`."""
    if not may_be_text:
        return {}
    found: dict[str, Any] = {}
    for name, most in (("minLength", MAX_MIN_LENGTH), ("maxLength", MAX_LENGTH)):
        if name in named:
            found[name] = count(named[name], f"{path}.{name}", most)
    if "pattern" in named:
        found["pattern"], *more = patterns(named["pattern"], f"{path}.pattern")
        found |= {"allOf": [{"pattern": one} for one in more]} if more else {}
    if "format" in named:
        _add_format(found, named["format"], f"{path}.format", notes)
    if found.get("minLength", 0) > found.get("maxLength", MAX_LENGTH):
        raise impossible(f"{path}.minLength", "is above maxLength, so no text can be valid")
    return found


def _add_format(found: dict[str, Any], name: Any, path: str, notes: Notes) -> None:
    """Unknown formats are annotations, as JSON Schema says."""
    if not isinstance(name, str):
        raise refused(path, "must be a string")
    if name not in FORMATS or ("pattern" in found and notes.concessions.without_formats):
        if name not in SILENT:
            notes.add(f"format {name}", f"format-not-enforced: {path}")
        return
    whole = SourcedPattern.of(f"^(?:{FORMATS[name]})$", (f"^(?:{FORMATS[name]})$",))
    if "pattern" in found:  # without the format's longest length: llguidance cannot examine all three together
        found["allOf"] = [*found.get("allOf", ()), {"pattern": whole}]
        return
    found["pattern"] = whole
    if name in MAX_CHARS:
        found["maxLength"] = min(found.get("maxLength", MAX_LENGTH), MAX_CHARS[name])


def patterns(value: Any, path: str) -> list[str]:
    """A pattern as one or several in llguidance's form, which must all match: its lookaheads at the beginning become
    patterns of their own. Raises `InvalidParameter`."""
    if not isinstance(value, str) or isinstance(value, RustPattern):
        return [pattern(value, path)]
    try:
        required, excluded, rest = split_lookaheads(value)
        others = [other_texts(one) for one in excluded]
    except PatternRefused as error:
        raise unsupported(path, f"it has a lookahead, and {error}; write it another way") from None
    return [pattern(one, path) for one in (rest, *required, *others)]


def pattern(value: Any, path: str) -> str:
    """The pattern in llguidance's form. Raises `InvalidParameter`."""
    if isinstance(value, RustPattern):
        return value
    if not isinstance(value, str):
        raise refused(path, "must be a string")
    try:
        return SourcedPattern.of(f"^{whole_match(value)}$", (value,))
    except PatternRefused as error:
        raise unsupported(path, f"{error}; write it another way") from None


def count(value: Any, path: str, most: int) -> int:
    """A number of characters, items or properties, possibly written as 3.0. Raises `InvalidParameter`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1 or value < 0:
        raise refused(path, "must be an integer, 0 or more")
    if value > most:
        raise unsupported(path, f"at most {most}")
    return int(value)
