"""Lark rules for values in a notation other than JSON, for simple schemas rewritten by `schemas.checked`.

Enforced are types, `enum` and `const`, properties with their order and `required`, `additionalProperties`, items and
their number, alternatives and references, all that is asked of texts, and for numbers what `Writing` enforces. Other
schemas (several for one value, numbers of properties) are passed to `Writing.any`. Knows no notation.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from localllm.grammar.calls.texts import NotWritable, Schema, text_of
from localllm.grammar.rules import Rules, mark_of
from localllm.grammar.texts.literals import ANY, either, joined, quoted
from localllm.types.schemas.value_schemas import ValueSchema

STRING = frozenset({"string"})

MAX_COUNTED = 1000
"""Limit up to which the items of an array are counted."""
_APART = ("$ref", "allOf", "anyOf", "enum", "const")


class Writing(Protocol):
    """The notation of values. Each expression ends with the literal `closing`, which follows the value."""

    opening: str
    """The literal before an object's members; the others correspond."""
    separator: str
    closing: str
    list_opening: str
    list_closing: str
    keeps_all: bool
    """Whether `any` enforces its schema."""

    def text(self, shapes: Shapes, schema: Schema, closing: str, /) -> str:
        """A value whose schema allows only texts. Raises `NotWritable`."""
        ...

    def scalar(self, schema: dict[str, Any], closing: str, /) -> str:
        """A number, true, false or null."""
        ...

    def constant(self, value: Any, closing: str, /) -> str:
        """This value; empty if it cannot be written."""
        ...

    def any(self, schema: dict[str, Any], closing: str, /) -> str:
        """A value with a schema that `Shapes` does not handle."""
        ...

    def alternatives(self, shapes: Shapes, schemas: Sequence[Schema], closing: str, /) -> str:
        """A value of one of these schemas."""
        ...

    def member(self, shapes: Shapes, name: str, schema: Schema, /) -> str:
        """A name and its value. Raises `NotWritable`."""
        ...

    def other_member(self, shapes: Shapes, schema: Schema, but: Sequence[str], /) -> str:
        """A member with any other name; empty if that is impossible."""
        ...

    def item(self) -> tuple[str, str]:
        """The literals before and after an item of an array."""
        ...


class Shapes:
    """Rules for one document in one notation."""

    def __init__(self, rules: Rules, writing: Writing, definitions: Mapping[str, Schema]) -> None:
        self.rules = rules
        self._writing = writing
        self._definitions = definitions
        self._references: dict[tuple[str, str], str] = {}
        self._names: list[str] = []
        """Names of the members that are being written, the outermost first."""
        self.loose: list[str] = []
        """Outermost names of members whose schemas are not fully enforced."""
        self.bounded: list[tuple[str, str]] = []
        """Terminals for texts that must not be empty of texts, by the outermost name of their member."""

    def value(self, schema: Schema, closing: str = "") -> str:
        """An expression for a value and the literal after it. Raises `NotWritable`."""
        if not isinstance(schema, dict):
            schema = {}
        if self.types(schema) == STRING:
            return self._writing.text(self, schema, closing)
        apart = [name for name in _APART if name in schema]
        if len(apart) > 1 or (apart and schema.keys() - {apart[0], "type"}):
            return self._any(schema, closing)
        match apart:
            case ["$ref"]:
                return self._reference(schema["$ref"], closing)
            case ["allOf"] if len(schema["allOf"]) == 1:
                return self.value(schema["allOf"][0], closing)
            case ["anyOf"]:
                return self._writing.alternatives(self, schema["anyOf"], closing)
            case ["enum"] | ["const"]:
                values = schema["enum"] if "enum" in schema else [schema["const"]]
                found = [text for value in values if (text := self._writing.constant(value, closing))]
                if not found:
                    raise NotWritable
                return either(found)
            case []:
                return self._of_types(schema, closing)
        return self._any(schema, closing)

    def until(self, closing: str, terminal: str, *, is_only: bool = True) -> str:
        """`Rules.until`; `is_only`: without a text that matches, there is no value."""
        if is_only and terminal != ANY and self._names:
            free = f"({terminal}) & ~({ANY} {quoted(mark_of(closing))} {ANY})"
            self.bounded.append((self._names[0], free))
        return self.rules.until(closing, terminal)

    def text_of(self, schema: Schema) -> str:
        """A terminal for the texts that a schema allows. Raises `NotWritable` if there are none."""
        terminal = text_of(schema, self.resolved)
        if terminal is None:
            raise NotWritable
        return terminal

    def members(self, schema: dict[str, Any]) -> str:
        """Members of an object, without its brackets. Raises `NotWritable`."""
        required = set(schema.get("required", ()))
        others = schema.get("additionalProperties", True)
        unlisted = [name for name in schema.get("required", ()) if name not in schema.get("properties", {})]
        properties: dict[str, Schema] = schema.get("properties", {}) | dict.fromkeys(unlisted, others)
        found: list[tuple[str, bool]] = []
        for name, one in properties.items():
            if item := self._member(name, one):
                found.append((item, name in required))
            elif name in required:
                raise NotWritable
        other = "" if others is False else self._writing.other_member(self, others, [*properties])
        return self._row(found, other)

    def _member(self, name: str, schema: Schema) -> str:
        """A name and its value, with only its types if it cannot be written otherwise; empty if it cannot at all."""
        if schema is False:
            return ""
        self._names.append(name)
        try:
            with suppress(NotWritable):
                return self._writing.member(self, name, schema)
            self._loosen()
            with suppress(NotWritable):
                return self._writing.member(self, name, typed(self.types(schema)))
            return ""
        finally:
            self._names.pop()

    def _loosen(self) -> None:
        if self._names and self._names[0] not in self.loose:
            self.loose.append(self._names[0])

    def _any(self, schema: Schema, closing: str) -> str:
        if schema and not self._writing.keeps_all:
            self._loosen()
        return self._writing.any(self.whole(schema), closing)

    def resolved(self, schema: Schema) -> Schema:
        """The schema, or the one that it only refers to."""
        for _ in range(100):
            if not (isinstance(schema, dict) and schema.keys() == {"$ref"}):
                break
            schema = self._definitions[schema["$ref"].removeprefix("#/$defs/")]
        return schema

    def types(self, schema: Schema) -> frozenset[str]:
        """The types that readers derive from the schema; empty: any."""
        return ValueSchema(schema, {"$defs": self._definitions}).types

    def whole(self, schema: Schema) -> dict[str, Any]:
        """The schema as a document of its own, with definitions if needed."""
        if not isinstance(schema, dict):
            return {} if schema else {"not": {}}
        is_alone = not self._definitions or "$ref" not in json.dumps(schema)
        return schema if is_alone else schema | {"$defs": dict(self._definitions)}

    def _reference(self, reference: str, closing: str) -> str:
        key = reference, closing
        if key not in self._references:
            name = self._references[key] = self.rules.reserved()
            self.rules.define(name, self.value(self._definitions[reference.removeprefix("#/$defs/")], closing))
        return self._references[key]

    def _of_types(self, schema: dict[str, Any], closing: str) -> str:
        types = schema.get("type", [])
        if isinstance(types, list) and len(types) > 1:
            return self._writing.alternatives(self, [schema | {"type": one} for one in types], closing)
        match types if isinstance(types, str) else "".join(types):
            case "object":
                return self._bracketed(self._writing.opening, self.members(schema), self._writing.closing + closing)
            case "array":
                return self._array(schema, closing)
            case "":
                return self._any(schema, closing)
            case _:
                return self._writing.scalar(schema, closing)

    def _array(self, schema: dict[str, Any], closing: str) -> str:
        before, behind = self._writing.item()
        opening = self.rules.literals.written(before)
        firsts = schema.get("prefixItems", [])
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        found = [(joined([opening, self.value(one, behind)]), place < least) for place, one in enumerate(firsts[:most])]
        others = schema.get("items", True)
        if others is not False and (most is None or most > len(firsts)):
            other = joined([opening, self.value(others, behind)])
            return self._bracketed(
                self._writing.list_opening,
                self._counted(found, other, least - len(firsts), None if most is None else most - len(firsts)),
                self._writing.list_closing + closing,
            )
        return self._bracketed(self._writing.list_opening, self._nested(found), self._writing.list_closing + closing)

    def _counted(self, firsts: list[tuple[str, bool]], other: str, least: int, most: int | None) -> str:
        """The first items, followed by `least` to `most` others."""
        separator = self.rules.literals.written(self._writing.separator)
        one = joined([separator, other])
        least, bound = min(max(least, 0), MAX_COUNTED), "" if most is None or most > MAX_COUNTED else str(most)
        if not firsts:
            times = f"{{{max(least - 1, 0)},{'' if not bound else int(bound) - 1}}}"
            several = joined([other, f"({one}){times}"]) if bound != "1" else other
            return several if least else f"({several})?"
        several = f"({one}){{{least},{bound}}}"
        return self._nested(firsts, several)

    def _nested(self, items: list[tuple[str, bool]], last: str = "") -> str:
        """Items of which each may come only after all before it."""
        separator = self.rules.literals.written(self._writing.separator)
        found = last
        for place, (item, is_required) in reversed([*enumerate(items)]):
            found = joined([separator if place else "", item, found])
            found = found if is_required else f"({found})?"
        return found

    def _row(self, items: list[tuple[str, bool]], other: str) -> str:
        """Members in this order, of which only the required ones must occur, followed by others."""
        separator = self.rules.literals.written(self._writing.separator)
        if not separator:
            found = [item if is_required else f"({item})?" for item, is_required in items]
            return joined([*found, f"({other})*" if other else ""])
        more = f"({joined([separator, other])})*" if other else ""
        first = f"({joined([other, more])})?" if other else ""
        """`first`: expression for the rest if no member came before; `more`: if one did."""
        for item, is_required in reversed(items):
            begun = self.rules.rule(joined([item, more])) if more else item
            behind = joined([separator, item])
            if is_required:
                first, more = begun, joined([behind, more])
            else:
                first, more = (f"({begun} | {first})" if first else f"({begun})?"), joined([f"({behind})?", more])
            more = self.rules.rule(more)
            first = self.rules.rule(first)
        return first

    def _bracketed(self, opening: str, inner: str, closing: str) -> str:
        return joined([self.rules.literals.written(opening), inner, self.rules.literals.written(closing)])


def typed(types: Collection[str]) -> dict[str, Any]:
    """A schema that asks only for one of these types; for anything if there are none."""
    return {"type": next(iter(types)) if len(types) == 1 else sorted(types)} if types else {}
