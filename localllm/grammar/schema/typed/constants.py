"""Checks the values of `enum` and `const`, which may have any JSON type."""

from __future__ import annotations

from typing import Any

from localllm.grammar.refusals import impossible, refused, under
from localllm.grammar.schema.typed.numbers import constant, is_number
from localllm.grammar.texts.charsets import UNWRITABLE

_UNWRITABLE = {chr(code) for first, last in UNWRITABLE[:-1] for code in range(first, last + 1)}


def of_types(values: list[Any], types: list[str] | None, path: str) -> list[Any]:
    """The values of one of the types. Raises `InvalidParameter` if there are none, or if one cannot be written."""
    found = [value for value in values if types is None or any(is_of_type(value, one) for one in types)]
    if not found:
        raise impossible(path, f"has no value of type {' or '.join(types or ())}, so no document can be valid")
    return [_written(value, path) for value in found]


def is_of_type(value: Any, type_: str) -> bool:
    """As in JSON Schema: 1.0 is an integer, true is not a number."""
    match type_:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case "integer":
            return is_number(value) and (isinstance(value, int) or value.is_integer())
        case _:
            return is_number(value)


def _written(value: Any, path: str) -> Any:
    if isinstance(value, str) and not _UNWRITABLE.isdisjoint(value):
        code = next(ord(character) for character in value if character in _UNWRITABLE)
        raise refused(path, f"contains U+{code:04X}, for which JSON strings have no short escape; leave it out")
    if is_number(value):
        return constant(value, path)
    if isinstance(value, list):
        return [_written(one, under(path, index)) for index, one in enumerate(value)]
    if isinstance(value, dict):
        return {name: _written(one, under(path, name)) for name, one in value.items()}
    return value
