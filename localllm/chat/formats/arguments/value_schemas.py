"""Looks up types and subschemas in a JSON Schema, for formats that write strings and numbers alike.

Lenient: a schema without constraints, or with ones that are not understood, allows everything. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from localllm.types.conversation import Function

_COMBINED = ("allOf", "anyOf", "oneOf")
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
        if own := frozenset(_own_types(schema)):
            return own
        if isinstance(reference := schema.get("$ref"), str):
            return self._types(self._referred(reference), steps)
        for word in _COMBINED:
            if isinstance(parts := schema.get(word), list) and parts:
                found = [self._types(part, steps) for part in parts]
                if word == "allOf":
                    return next(filter(None, found), frozenset())
                return frozenset[str]().union(*found) if all(found) else frozenset()
        return frozenset()

    def _referred(self, reference: str) -> Any:
        found = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name, {}) if isinstance(found, dict) else {}
        return found


def type_of(value: object) -> str:
    """JSON Schema's name for the type of a value."""
    return next(name for kind, name in _KINDS if isinstance(value, kind))


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
