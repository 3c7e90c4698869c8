"""Proves that no document satisfies two schemas, so that `oneOf` can become `anyOf`. "Disjoint" is certain; "not
disjoint" is not.

Compares types, constants, bounds and required properties (`{"kind": {"const": ...}}`) of rewritten schemas.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from localllm.grammar.schema.constants import is_of_type

Schema = dict[str, Any] | bool

MAX_DEPTH = 12
MAX_COMPARISONS = 200_000
"""Limit for the whole document, because the number of pairs grows fast."""

_TYPES = ("null", "boolean", "string", "number", "array", "object")


class Disjointness:
    """Comparisons of the schemas of one document."""

    def __init__(self, definitions: dict[str, Schema]) -> None:
        self._definitions = definitions
        self._comparisons_left = MAX_COMPARISONS

    def overlap(self, options: list[Schema]) -> tuple[int, int] | None:
        """Indexes of the first two schemas that may share a document; None if no two do."""
        if _are_distinct_values(options):
            return None
        for index, one in enumerate(options):
            for other in range(index + 1, len(options)):
                if not self._disjoint(one, options[other], 0):
                    return index, other
        return None

    def separator(self, options: list[Schema]) -> str | None:
        """A property that tells these objects apart if all of them have it; None if none does."""
        bodies = [self._body(one) for one in options]
        if any(one.get("type") != "object" for one in bodies):
            return None
        for name in bodies[0].get("properties", {}):
            values = [_property(one, name) for one in bodies]
            if all(self._disjoint(one, other, 0) for index, one in enumerate(values) for other in values[index + 1 :]):
                return str(name)
        return None

    def _body(self, schema: Schema) -> dict[str, Any]:
        """The schema, or what it only refers to."""
        for _ in range(MAX_DEPTH):
            if not (isinstance(schema, dict) and schema.keys() == {"$ref"}):
                break
            schema = self._definitions.get(schema["$ref"].removeprefix("#/$defs/"), True)
        return schema if isinstance(schema, dict) else {}

    def _disjoint(self, one: Schema, other: Schema, depth: int) -> bool:
        self._comparisons_left -= 1
        if one is False or other is False:
            return True
        if one is True or other is True or depth > MAX_DEPTH or self._comparisons_left < 0:
            return False
        for schema, against in ((one, other), (other, one)):
            for options in self._alternatives(schema):
                if all(self._disjoint(option, against, depth + 1) for option in options):
                    return True
        return self._by_values(one, other) or all(
            self._disjoint_on(type_, one, other, depth) for type_ in _types(one) & _types(other)
        )

    def _alternatives(self, schema: dict[str, Any]) -> Iterator[list[Schema]]:
        """Lists of schemas; of each list, one must hold."""
        if "$ref" in schema:
            yield [self._definitions.get(schema["$ref"].removeprefix("#/$defs/"), True)]
        for one in schema.get("allOf", ()):
            yield [one]
        for name in ("anyOf", "oneOf"):
            if name in schema:
                yield schema[name]

    def _by_values(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        for schema, against in ((one, other), (other, one)):
            values = _values(schema)
            if values is None:
                continue
            others = _values(against)
            if others is not None:
                return not any(_same(value, another) for value in values for another in others)
            return not any(is_of_type(value, type_) for value in values for type_ in _exact_types(against))
        return False

    def _disjoint_on(self, type_: str, one: dict[str, Any], other: dict[str, Any], depth: int) -> bool:
        match type_:
            case "number":
                return _range(one)[1] < _range(other)[0] or _range(other)[1] < _range(one)[0]
            case "string":
                return _apart(one, other, "minLength", "maxLength")
            case "array":
                return _apart(one, other, "minItems", "maxItems")
            case "object":
                required = dict.fromkeys([*one.get("required", ()), *other.get("required", ())])
                return any(self._disjoint(_property(one, n), _property(other, n), depth + 1) for n in required)
            case _:
                return False


def _are_distinct_values(options: list[Schema]) -> bool:
    """Whether each schema is a list of constants, and no constant is in two of them. Fast even for thousands."""
    seen: set[str] = set()
    for option in options:
        values = _values(option) if isinstance(option, dict) else None
        written = {json.dumps(value, sort_keys=True) for value in values or ()}
        if values is None or not seen.isdisjoint(written):
            return False
        seen |= written
    return True


def _exact_types(schema: dict[str, Any]) -> list[str]:
    found = schema.get("type", list(_TYPES))
    return [found] if isinstance(found, str) else found


def _types(schema: dict[str, Any]) -> set[str]:
    values = _values(schema)
    if values is not None:
        return {type_ for type_ in _TYPES for value in values if is_of_type(value, type_)}
    return {"number" if one == "integer" else one for one in _exact_types(schema)}


def _values(schema: dict[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    return schema.get("enum")


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def _range(schema: dict[str, Any]) -> tuple[float, float]:
    lower = max(schema.get("minimum", -math.inf), schema.get("exclusiveMinimum", -math.inf))
    return lower, min(schema.get("maximum", math.inf), schema.get("exclusiveMaximum", math.inf))


def _apart(one: dict[str, Any], other: dict[str, Any], least: str, most: str) -> bool:
    return any(a.get(most, math.inf) < b.get(least, 0) for a, b in ((one, other), (other, one)))


def _property(schema: dict[str, Any], name: str) -> Schema:
    if name in schema.get("properties", {}):
        found: Schema = schema["properties"][name]
        return found
    return True if "patternProperties" in schema else schema.get("additionalProperties", True)
