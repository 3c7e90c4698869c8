"""What is wrong with data of the wrong type, in the words of its author instead of Python's. Knows no field."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "an array",
    "object": "an object",
}
"""msgspec's name of a type, and what people who write JSON or TOML call its values."""
_SENTENCE = re.compile(r"Expected `(?P<kinds>[\w |]+)`(?P<rest>.*?)(?:, got `(?P<given>\w+)`)?", re.DOTALL)
_LIMITS = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}


class Mismatch(NamedTuple):
    """Where a value is, and what it must be."""

    path: str
    """Such as `messages[0].role`; empty for the whole."""
    what: str
    """The rest of a sentence whose subject is the path."""


def mismatch(error: msgspec.ValidationError) -> Mismatch:
    """The parts of msgspec's message, which is all that its errors carry: `Expected `int`, got `str` - at `$.a``."""
    what, _, path = str(error).partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    found = _SENTENCE.fullmatch(what)
    if found is None:
        return Mismatch(path, f"is not valid: {what[:1].lower()}{what[1:]}")
    kinds = found["kinds"].split(" | ")
    if "int" in kinds and "float" in kinds:
        kinds.remove("int")
    limits = _limit(found["rest"].strip())
    words = [_WORDS.get(kind, kind) for kind in kinds]
    takes = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    given = found["given"]
    if given is None:
        return Mismatch(path, f"must be {takes}{limits}")
    got = "a fraction" if given == "float" and "int" in kinds else _WORDS.get(given, given)
    return Mismatch(path, f"must be {takes}{limits}, got {got}")


def _limit(rest: str) -> str:
    """A limit of size or length, with a space before it; empty without one."""
    sign = next((sign for sign in _LIMITS if rest.startswith(sign)), "")
    return f" {_LIMITS.get(sign, '')}{rest.removeprefix(sign)}" if rest else ""
