"""Looks up types and subschemas in a JSON Schema, for formats that write strings and numbers alike.

Both the readers of such formats (`chat/formats`) and their grammars (`grammar/calls`) ask it, so that they cannot
disagree. Lenient: a schema without constraints, or with ones that are not understood, allows everything. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from localllm.types.conversation import Function

_COMBINED = ("allOf", "anyOf", "oneOf")
_OF_TEXTS = frozenset({"minLength", "maxLength", "pattern", "format"})
_OF_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_MOST_PARTS = 200
_KINDS: tuple[tuple[type, str], ...] = (
    (str, "string"),
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (dict, "object"),
    (list, "array"),
    (type(None), "null"),
)


class ValueSchema:
    """A schema or subschema."""

    def __init__(self, schema: Any, root: Any = None) -> None:
        self._root = schema if root is None else root
        self._schema = schema
        self._parts = tuple(self._parts_of(schema))

    @classmethod
    def of(cls, function: Function | None) -> ValueSchema:
        """Schema of a function's arguments."""
        try:
            return cls(json.loads(function.parameters or "{}") if function is not None else {})
        except (ValueError, RecursionError):
            return cls({})  # the request is rejected elsewhere, or its schema not enforced

    @property
    def types(self) -> frozenset[str]:
        """JSON types that the value may have; empty: any."""
        return self._types(self._schema, [_MOST_PARTS])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of an object's members, in order."""
        return tuple(dict.fromkeys(name for part in self._parts for name in _mapping(part, "properties")))

    def member(self, name: str) -> ValueSchema:
        """Schema of an object's member."""
        for part in self._parts:
            if name in (known := _mapping(part, "properties")):
                return ValueSchema(known[name], self._root)
        others = [part["additionalProperties"] for part in self._parts if "additionalProperties" in part]
        return ValueSchema(others[0] if others else {}, self._root)

    @property
    def item(self) -> ValueSchema:
        """Schema of an array's items."""
        return ValueSchema(next((part["items"] for part in self._parts if "items" in part), {}), self._root)

    def _parts_of(self, schema: Any) -> Iterator[dict[str, Any]]:
        """All schemas that apply to the same value."""
        waiting, count = [schema], 0
        while waiting and count < _MOST_PARTS:
            one, count = waiting.pop(0), count + 1
            if not isinstance(one, dict):
                continue
            yield one
            if isinstance(reference := one.get("$ref"), str):
                waiting.append(self._referred(reference))
            for word in _COMBINED:
                if isinstance(parts := one.get(word), list):
                    waiting += parts

    def _types(self, schema: Any, steps: list[int]) -> frozenset[str]:
        steps[0] -= 1
        if steps[0] < 0 or not isinstance(schema, dict):
            return frozenset()
        found = [frozenset(_own_types(schema))]
        if isinstance(reference := schema.get("$ref"), str):
            found.append(self._types(self._referred(reference), steps))
        for word in _COMBINED:
            if isinstance(parts := schema.get(word), list) and parts:
                each = [self._types(part, steps) for part in parts]
                if word == "allOf":
                    found += each
                elif all(each):
                    found.append(frozenset[str]().union(*each))
        return _common(found)

    def _referred(self, reference: str) -> Any:
        if reference != "#" and not reference.startswith("#/"):
            return {}
        found = self._root
        for step in reference.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name, {}) if isinstance(found, dict) else {}
        return found


def type_of(value: object) -> str:
    """JSON Schema's name for the type of a value."""
    return next(name for kind, name in _KINDS if isinstance(value, kind))


def _is_of_numbers(format_: object) -> bool:
    """Whether it is one of OpenAPI's formats of numbers."""
    return isinstance(format_, str) and format_.startswith(("int", "uint", "float", "double", "decimal", "number"))


def _common(found: Iterable[frozenset[str]]) -> frozenset[str]:
    """The types that all of these allow; an empty set allows any. If they exclude each other, those of the first."""
    common = frozenset[str]()
    for types in filter(None, found):
        if not common:
            common = types
            continue
        both = {each for each in common | types if _is_among(each, common) and _is_among(each, types)}
        common = frozenset(both) or common
    return common


def _is_among(type_: str, types: frozenset[str]) -> bool:
    """Whether the types include this one; a number may be an integer."""
    return type_ in types or (type_ == "integer" and "number" in types)


def _mapping(schema: dict[str, Any], word: str) -> dict[str, Any]:
    found = schema.get(word)
    return found if isinstance(found, dict) else {}


def _own_types(schema: dict[str, Any]) -> Iterator[str]:
    said = schema.get("type")
    if isinstance(said, str):
        yield said
    elif isinstance(said, list):
        yield from (each for each in said if isinstance(each, str))
    elif "enum" in schema or "const" in schema:
        values = schema.get("enum")
        for value in values if isinstance(values, list) else [schema.get("const")]:
            yield type_of(value)
    elif "properties" in schema:
        yield "object"
    elif "items" in schema:
        yield "array"
    elif _OF_TEXTS & schema.keys() and not _OF_NUMBERS & schema.keys() and not _is_of_numbers(schema.get("format")):
        yield "string"
