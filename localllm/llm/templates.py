"""`Template`: an answer of given text with typed holes, which `schema=` takes; its `parsed` is a dict of the holes.

    Template("Name: {name}\nAge: {age}", age=int)

It becomes one regular expression, so the text between the holes is never computed. Knows nothing of requests.
"""

from __future__ import annotations

import enum
import re
import string
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, get_args, get_origin

from localllm.errors import InvalidParameter
from localllm.types import Structure

_INTEGER = r"-?(?:0|[1-9][0-9]{0,17})"
_NUMBER = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?"
_SPECIAL = re.compile(r"[.^$*+?{}\[\]\\|()-]")


class _Hole(NamedTuple):
    name: str
    pattern: str
    """A regular expression."""
    read: Callable[[str], Any]


class Template:
    """Text with holes in braces, as in `str.format`; a brace itself is doubled.

    A hole is filled with text on one line, up to the character that follows it in the template, unless its type is
    given: `int`, `float`, `bool`, a list of texts, a `Literal` or an `Enum`, or a compiled regular expression.
    """

    def __init__(self, text: str, /, **types: Any) -> None:
        """Raises `InvalidParameter`."""
        if not isinstance(text, str):
            raise InvalidParameter(f"a template is a text, got {type(text).__name__}", param="schema")
        self.text = text
        self._holes: list[_Hole] = []
        pattern = ""
        parts = _parts(text)
        for index, (literal, name) in enumerate(parts):
            pattern += _escaped(literal)
            if name is None:
                continue
            if any(hole.name == name for hole in self._holes):
                raise InvalidParameter(f"the template has the hole {name!r} twice", param="schema")
            behind = parts[index + 1][0][:1] if index + 1 < len(parts) else ""
            hole = _hole(name, types.get(name, str), behind, is_last=index + 1 == len(parts))
            self._holes.append(hole)
            pattern += f"(?P<{name}>{hole.pattern})"
        unknown = types.keys() - {hole.name for hole in self._holes}
        if unknown:
            raise InvalidParameter(f"the template has no hole {min(unknown)!r}", param="schema")
        if not self._holes:
            raise InvalidParameter("the template has no hole, such as {name}", param="schema")
        try:
            self._pattern = re.compile(pattern)
        except re.error as error:
            raise InvalidParameter(f"the template's expressions cannot be joined: {error}", param="schema") from error
        self.structure = Structure(kind="regex", source=pattern, param="schema")
        """What answers have to match."""

    def __repr__(self) -> str:
        return f"Template({self.text!r})"

    def read(self, text: str) -> dict[str, Any]:
        """The values of the holes in an answer. Raises `ValueError` for a text that does not match."""
        found = self._pattern.fullmatch(text)
        if found is None:
            raise ValueError(f"the text does not match {self!r}")
        return {hole.name: hole.read(found[hole.name]) for hole in self._holes}


def _parts(text: str) -> list[tuple[str, str | None]]:
    """Each literal, and the hole behind it. Raises `InvalidParameter`."""
    try:
        parts = [
            (literal, name, spec, conversion) for literal, name, spec, conversion in string.Formatter().parse(text)
        ]
    except ValueError as error:
        raise InvalidParameter(f"the template cannot be read: {error}; double a brace", param="schema") from error
    for _, name, spec, conversion in parts:
        if name is not None and (spec or conversion or not name.isidentifier()):
            raise InvalidParameter(
                f"a hole of a template is a name in braces, such as {{name}}, got {name!r}; double other braces",
                param="schema",
            )
    return [(literal, name) for literal, name, _, _ in parts]


def _hole(name: str, kind: Any, behind: str, *, is_last: bool) -> _Hole:
    """`behind`: the character that follows it. Raises `InvalidParameter`."""
    if kind is str:
        if not behind and not is_last:
            raise InvalidParameter(
                f"no text separates the hole {name!r} from the next one; write some, or give its type", param="schema"
            )
        return _Hole(name, rf"[^\n{_escaped(behind.strip(chr(10)))}]+", str)
    if kind is bool:
        return _Hole(name, "true|false", "true".__eq__)
    if kind is int:
        return _Hole(name, _INTEGER, int)
    if kind is float:
        return _Hole(name, _NUMBER, float)
    if isinstance(kind, re.Pattern):
        return _Hole(name, _inline(name, kind), str)
    values = _choices(kind)
    if values is None:
        raise InvalidParameter(
            f"the type of the hole {name!r} must be str, int, float, bool, a list of texts, a Literal, an Enum or a "
            f"compiled regular expression, got {kind!r}",
            param="schema",
        )
    if not values or not all(values):
        raise InvalidParameter(f"the hole {name!r} needs texts to choose from, none of them empty", param="schema")
    return _Hole(name, "|".join(map(_escaped, values)), values.__getitem__)


def _choices(kind: Any) -> Mapping[str, Any] | None:
    """Text -> value."""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {str(member.value): member for member in kind}
    if get_origin(kind) is Literal:
        return {str(value): value for value in get_args(kind)}
    if isinstance(kind, Iterable) and not isinstance(kind, str | bytes | type):
        values = list(kind)
        return {value: value for value in values} if all(isinstance(value, str) for value in values) else None
    return None


def _inline(name: str, pattern: re.Pattern[Any]) -> str:
    """With its flags. Raises `InvalidParameter`."""
    if not isinstance(pattern.pattern, str):
        raise InvalidParameter(f"the expression of the hole {name!r} must be one for texts", param="schema")
    flags = "".join(letter for letter, flag in (("i", re.I), ("s", re.S), ("m", re.M)) if pattern.flags & flag)
    return f"(?{flags}:{pattern.pattern})"


def _escaped(text: str) -> str:
    """An expression for this text, in Python's and Rust's notation."""
    return _SPECIAL.sub(lambda found: "\\" + found[0], text).replace("\n", "\\n")
