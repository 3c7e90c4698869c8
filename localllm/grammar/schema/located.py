"""Schemas made from parts of the client's: each part keeps its path and the base of its references."""

from __future__ import annotations

from typing import Any, NamedTuple

TYPES = ("null", "boolean", "string", "number", "array", "object")


class Located(NamedTuple):
    """A part of the document, in place of a schema."""

    schema: Any
    path: str
    base: str
    """The base URI of references in it, given by its parents."""


def types_but(*names: str) -> list[str]:
    """All other types; without `number` if `integer` is excluded, as if no number were allowed."""
    excluded = {"number" if name == "integer" else name for name in names}
    return [name for name in TYPES if name not in excluded]


def either(options: list[Any]) -> Any:
    """A schema that allows what any of these allow."""
    options = [one for one in options if one is not False]
    if not options or True in options:
        return bool(options)
    return options[0] if len(options) == 1 else {"anyOf": options}


def together(parts: list[Any]) -> Any:
    """A schema that allows what all of these allow."""
    parts = [one for one in parts if one is not True]
    if not parts or False in parts:
        return not parts
    return parts[0] if len(parts) == 1 else {"allOf": parts}
