"""Writes alternatives that must hold together as one list of alternatives, without those that exclude each other.

    {"allOf": [{"anyOf": [A, B]}, {"anyOf": [C, D]}]}      {"anyOf": [A and C, B and D]}, if A and D, B and C cannot be

llguidance combines each with each and soon has too many: ten conditions on the value of one property are a thousand
combinations, of which eleven can be. Works on rewritten schemas.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

from localllm.grammar.schema.disjoint import ALL_TYPES, Disjointness, types_of
from localllm.grammar.schema.rewriting import Schema

MAX_LEFT_ALONE = 1_000
"""Combinations, times the properties of each, that llguidance may form itself."""
MAX_SIZE, MAX_NARROWED_SIZE = 10_000, 2_000
"""Parts and properties of what is written here, if all combinations are; and of those that are kept."""
MAX_TRIES = 3_000
"""Alternatives tried in one document."""
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_BY_NAME = ("properties", "patternProperties")
_SIMPLE = {"type", "required", "properties"}


class _TooMany(Exception):
    pass


class _Claims(NamedTuple):
    """What has to hold at once: schemas without alternatives, and lists of which one each has to hold."""

    parts: tuple[dict[str, Any], ...] = ()
    lists: tuple[list[Schema], ...] = ()


class _Known(NamedTuple):
    """What follows from the parts so far, as far as it is looked at."""

    types: frozenset[str] = frozenset(ALL_TYPES)
    required: frozenset[str] = frozenset()
    properties: dict[str, tuple[Schema, ...]] = {}  # noqa: RUF012  # never changed in place


class Combiner:
    """For the schemas of one document."""

    def __init__(self, definitions: dict[str, Schema], *, narrows: bool) -> None:
        """`narrows`: of too many combinations, the first few are kept, and the others never taken."""
        self._definitions = definitions
        self._disjointness = Disjointness(definitions)
        self._narrows = narrows
        self._tries_left = MAX_TRIES
        self.has_narrowed = False

    def schema(self, schema: Schema) -> Schema:
        """The same, with few alternatives in it and in its parts."""
        if isinstance(schema, bool):
            return schema
        found: dict[str, Any] = {}
        for name, value in schema.items():
            if name in _BY_NAME:
                found[name] = {key: self.schema(one) for key, one in value.items()}
            elif name in _LISTS:
                found[name] = [self.schema(one) for one in value]
            elif name in ("items", "additionalProperties"):
                found[name] = self.schema(value)
            else:
                found[name] = value
        return self._combined(found)

    def _combined(self, schema: dict[str, Any]) -> Schema:
        fixed, lists = self._split(schema)
        num_properties = 1 + sum(len(one.get("properties", ())) for one in fixed)
        is_small = len(lists) < 2 or prod(map(len, lists)) * num_properties <= MAX_LEFT_ALONE
        if not lists or (is_small and not self._narrows):
            return schema
        known = _Known()
        for one in (part for whole in fixed for part in self._followed(whole, 0)):
            if (known_then := self._and(known, one)) is None:
                return False
            known = known_then
        options, size = list[Schema](), 0
        try:
            for claims in self._combinations(known, (), tuple(lists)):
                options.append(_written(claims))
                size += num_properties + sum(1 + len(one.get("properties", ())) for one in claims)
                if size > (MAX_NARROWED_SIZE if self._narrows else MAX_SIZE):
                    raise _TooMany
        except _TooMany:
            if not self._narrows or not options:
                return schema
            self.has_narrowed = True
        rest = {name: value for name, value in schema.items() if name not in ("allOf", "anyOf")}
        others = [one for one in fixed if one is not fixed[0]]
        if others:
            rest["allOf"] = others
        return rest | {"anyOf": options} if options else False

    def _split(self, schema: dict[str, Any]) -> tuple[list[dict[str, Any]], list[list[Schema]]]:
        """The schema without its alternatives, first the part beside them, and the alternatives."""
        own = {name: value for name, value in schema.items() if name not in ("allOf", "anyOf")}
        claims = _flat({name: schema[name] for name in ("allOf", "anyOf") if name in schema})
        return [own, *claims.parts], [*claims.lists]

    def _combinations(
        self, known: _Known, parts: tuple[dict[str, Any], ...], lists: tuple[list[Schema], ...]
    ) -> Iterator[tuple[dict[str, Any], ...]]:
        """The parts that hold in each case. Raises `_TooMany`."""
        waiting = list[tuple[list[Schema], list[tuple[_Claims, _Known]]]]()
        for options in lists:
            ways = [(claims, then) for claims, then in self._ways(known, options)]
            if any(not claims.lists and all(_holds(known, one) for one in claims.parts) for claims, _ in ways):
                continue
            waiting.append((options, ways))
        if not waiting:
            yield parts
            return
        first = min(waiting, key=lambda one: len(one[1]))
        rest = tuple(options for options, _ in waiting if options is not first[0])
        for claims, then in first[1]:
            yield from self._combinations(then, parts + claims.parts, rest + claims.lists)

    def _ways(self, known: _Known, options: list[Schema]) -> Iterator[tuple[_Claims, _Known]]:
        """The options that can hold, and what is known then. Raises `_TooMany`."""
        for option in options:
            self._tries_left -= 1
            if self._tries_left < 0:
                raise _TooMany
            if option is False:
                continue
            claims = _flat(option) if isinstance(option, dict) else _Claims()
            then: _Known | None = known
            for part in claims.parts:
                for one in self._followed(part, 0):
                    then = None if then is None else self._and(then, one)
            if then is not None:
                yield claims, then

    def _followed(self, part: dict[str, Any], depth: int) -> Iterator[dict[str, Any]]:
        """The part, and what it refers to."""
        yield part
        target = self._definitions.get(str(part.get("$ref", "")).removeprefix("#/$defs/"))
        if isinstance(target, dict) and depth < 4:
            for one in _flat(target).parts:
                yield from self._followed(one, depth + 1)

    def _and(self, known: _Known, part: dict[str, Any]) -> _Known | None:
        """What is known with this part; None if it cannot hold."""
        types, required = known.types & types_of(part), known.required
        if not types:
            return None
        properties, new = known.properties, list[str]()
        if types == {"object"}:
            new = [name for name in part.get("required", ()) if name not in required]
            required = required | {*new} if new else required
        for name, schema in part.get("properties", {}).items():
            if schema is not True and schema not in properties.get(name, ()):
                properties = {**properties, name: (*properties.get(name, ()), schema)}
                new.append(name)
        if types == {"object"} != known.types:
            new = [*required]
        found = _Known(types, required, properties)
        return None if types == {"object"} and any(self._is_impossible(found, name) for name in new) else found

    def _is_impossible(self, known: _Known, name: str) -> bool:
        if name not in known.required:
            return False
        schemas = known.properties.get(name, ())
        return False in schemas or (len(schemas) > 1 and self._disjointness.has_disjoint(schemas))


def _flat(schema: dict[str, Any]) -> _Claims:
    """The parts of a schema, out of its `allOf`, and its alternatives."""
    own = {name: value for name, value in schema.items() if name not in ("allOf", "anyOf")}
    parts, lists = ([own] if own else []), ([schema["anyOf"]] if "anyOf" in schema else [])
    for one in schema.get("allOf", ()):
        if one is False:
            parts.append({"enum": []})
        elif isinstance(one, dict):
            inner = _flat(one)
            parts += inner.parts
            lists += inner.lists
    return _Claims(tuple(parts), tuple(lists))


def _is_simple(part: dict[str, Any]) -> bool:
    return part.keys() <= _SIMPLE and "integer" not in part.get("type", ())


def _holds(known: _Known, part: dict[str, Any]) -> bool:
    """Whether the part certainly says nothing new."""
    if not _is_simple(part) or not known.types <= types_of(part):
        return False
    return "object" not in known.types or (
        known.required >= {*part.get("required", ())}
        and all(
            one is True or one in known.properties.get(name, ()) for name, one in part.get("properties", {}).items()
        )
    )


def _written(parts: tuple[dict[str, Any], ...]) -> Schema:
    """One schema for parts that hold together."""
    simple, others = [one for one in parts if _is_simple(one)], [one for one in parts if not _is_simple(one)]
    found: dict[str, Any] = {}
    types = frozenset(ALL_TYPES)
    required, properties = dict[str, None](), dict[str, list[Schema]]()
    for one in simple:
        types &= types_of(one)
        required |= dict.fromkeys(one.get("required", ()))
        for name, schema in one.get("properties", {}).items():
            if schema not in properties.setdefault(name, []):
                properties[name].append(schema)
    if len(types) < len(ALL_TYPES):
        found["type"] = sorted(types)
    if properties:
        found["properties"] = {
            name: False if False in some else some[0] if len(some) == 1 else {"allOf": some}
            for name, some in properties.items()
        }
    if required:
        found["required"] = [*required]
    if len(others) == 1 and not found:
        return others[0]
    return found | {"allOf": others} if others else found or True
