"""Proves that no document satisfies two schemas, so that `oneOf` can become `anyOf`. "Disjoint" is certain; "not
disjoint" is not.

Compares types, constants, bounds and required properties (`{"kind": {"const": ...}}`) of rewritten schemas. What the
keywords beside both schemas say of types and required properties counts, too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from localllm.grammar.schema.typed.constants import is_of_type
from localllm.grammar.texts.complements import OtherTexts, SourcedPattern
from localllm.grammar.texts.opposites import share_text
from localllm.grammar.texts.patterns import PatternRefused

Schema = dict[str, Any] | bool

MAX_DEPTH = 12
MAX_COMPARISONS = 200_000
"""Limit for the whole document, because the number of pairs grows fast."""

ALL_TYPES = ("null", "boolean", "string", "number", "array", "object")


class _Value(NamedTuple):
    """What is known of the value that two schemas are to share."""

    types: frozenset[str] = frozenset(ALL_TYPES)
    required: frozenset[str] = frozenset()
    """Properties that it has if it is an object."""

    def and_(self, other: _Value) -> _Value:
        return _Value(self.types & other.types, self.required | other.required)


_UNKNOWN = _Value()


class Disjointness:
    """Comparisons of the schemas of one document."""

    def __init__(self, definitions: dict[str, Schema]) -> None:
        self._definitions = definitions
        self._comparisons_left = MAX_COMPARISONS
        self._without_text: dict[tuple[str, str], bool] = {}
        self._known: dict[int, tuple[Schema, _Value]] = {}
        """Identity of a schema -> the schema, so that it stays alive, and what it says of its value."""

    def overlap(self, options: list[Schema], beside: Schema = True) -> tuple[int, int] | None:
        """Indexes of the first two schemas that may share a document; None if no two do. The document matches `beside`,
        too."""
        if _are_distinct_values(options):
            return None
        value = self._value(beside, 0)
        for index, one in enumerate(options):
            for other in range(index + 1, len(options)):
                if not self._disjoint(one, options[other], 0, value):
                    return index, other
        return None

    def required_only_by(self, one: Schema, other: Schema) -> str | None:
        """A property that objects of the first schema need and those of the second do not; None if there is none, or
        the first allows other values than objects."""
        value = self._value(one, 0)
        if value.types != {"object"}:
            return None
        return min(value.required - self._value(other, 0).required, default=None)

    def has_disjoint(self, schemas: Sequence[Schema]) -> bool:
        """Whether no document satisfies all of them, as two of them show."""
        return any(self._disjoint(one, other, 0, _UNKNOWN) for one, other in combinations(schemas, 2))

    def separator(self, options: list[Schema]) -> str | None:
        """A property that tells these objects apart if all of them have it; None if none does."""
        bodies = [self._body(one) for one in options]
        if any(one.get("type") != "object" for one in bodies):
            return None
        for name in bodies[0].get("properties", {}):
            values = [_property(one, name) for one in bodies]
            if all(
                self._disjoint(one, other, 0, _UNKNOWN)
                for index, one in enumerate(values)
                for other in values[index + 1 :]
            ):
                return str(name)
        return None

    def _body(self, schema: Schema) -> dict[str, Any]:
        """The schema, or what it only refers to."""
        for _ in range(MAX_DEPTH):
            if not (isinstance(schema, dict) and schema.keys() == {"$ref"}):
                break
            schema = self._definitions.get(schema["$ref"].removeprefix("#/$defs/"), True)
        return schema if isinstance(schema, dict) else {}

    def _disjoint(self, one: Schema, other: Schema, depth: int, value: _Value) -> bool:
        self._comparisons_left -= 1
        if one is False or other is False:
            return True
        if one is True or other is True or depth > MAX_DEPTH or self._comparisons_left < 0:
            return False
        value = value.and_(self._value(one, 0)).and_(self._value(other, 0))
        for schema, against in ((one, other), (other, one)):
            for options in self._alternatives(schema):
                if all(self._disjoint(option, against, depth + 1, value) for option in options):
                    return True
        return self._by_values(one, other) or all(
            self._disjoint_on(type_, one, other, depth, value)
            for type_ in types_of(one) & types_of(other) & value.types
        )

    def _no_text(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        """Whether no text matches both patterns."""
        first, second = one.get("pattern"), other.get("pattern")
        if not isinstance(first, SourcedPattern) or not isinstance(second, SourcedPattern) or first == second:
            return False
        pair = first, second
        if pair not in self._without_text:
            try:
                self._without_text[pair] = not share_text(
                    first.required + second.required, first.excluded + second.excluded
                )
            except PatternRefused:
                self._without_text[pair] = False
        return self._without_text[pair]

    def _value(self, schema: Schema, depth: int) -> _Value:
        """What a schema says of its value, alone and by what it refers to."""
        if isinstance(schema, bool) or depth > MAX_DEPTH:
            return _UNKNOWN
        if id(schema) not in self._known:
            found = _Value(frozenset(types_of(schema)), frozenset(schema.get("required", ())))
            for one in schema.get("allOf", ()):
                found = found.and_(self._value(one, depth + 1))
            if "$ref" in schema:
                target = self._definitions.get(schema["$ref"].removeprefix("#/$defs/"), True)
                found = found.and_(self._value(target, depth + 1))
            self._known[id(schema)] = schema, found
        return self._known[id(schema)][1]

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
            if isinstance(pattern := against.get("pattern"), OtherTexts):
                values = [value for value in values if value not in pattern.texts]
            return not any(is_of_type(value, type_) for value in values for type_ in _exact_types(against))
        return False

    def _disjoint_on(self, type_: str, one: dict[str, Any], other: dict[str, Any], depth: int, value: _Value) -> bool:
        match type_:
            case "number":
                return _range(one)[1] < _range(other)[0] or _range(other)[1] < _range(one)[0]
            case "string":
                return _apart(one, other, "minLength", "maxLength") or self._no_text(one, other)
            case "array":
                return _apart(one, other, "minItems", "maxItems")
            case "object":
                return any(
                    self._disjoint(_property(one, name), _property(other, name), depth + 1, _UNKNOWN)
                    for name in sorted(value.required)
                )
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
    found = schema.get("type", list(ALL_TYPES))
    return [found] if isinstance(found, str) else found


def types_of(schema: dict[str, Any]) -> set[str]:
    """The types of the values that a schema allows by itself; `number` for integers, too."""
    values = _values(schema)
    if values is not None:
        return {type_ for type_ in ALL_TYPES for value in values if is_of_type(value, type_)}
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
