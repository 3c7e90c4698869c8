"""Writes what a schema does not allow as a schema of its own, so that `not` becomes grammar.

The result allows only documents that the schema does not, but perhaps not all of them: what no schema can express is
left out, as long as something remains. Knows nothing of the rewriting that follows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from localllm.errors import InvalidParameter
from localllm.grammar.refusals import refused, under, unsupported
from localllm.grammar.schema.keywords import KEPT, REFUSED
from localllm.grammar.schema.located import Located, either, together, types_but
from localllm.grammar.schema.references import References, base_of
from localllm.grammar.schema.typed.numbers import is_number
from localllm.grammar.texts.complements import RustPattern, other_texts, others
from localllm.grammar.texts.patterns import PatternRefused

MAX_DEPTH = 20
MAX_NAMED_DEPTH = 3
MAX_NAMES = 40
MAX_NEGATIONS = 2_000
"""Limit for one document."""
_BOUNDS = {
    "minLength": ("string", "maxLength", -1),
    "maxLength": ("string", "minLength", 1),
    "minItems": ("array", "maxItems", -1),
    "maxItems": ("array", "minItems", 1),
    "minProperties": ("object", "maxProperties", -1),
    "maxProperties": ("object", "minProperties", 1),
    "minimum": ("number", "exclusiveMaximum", 0),
    "maximum": ("number", "exclusiveMinimum", 0),
    "exclusiveMinimum": ("number", "maximum", 0),
    "exclusiveMaximum": ("number", "minimum", 0),
}
"""Keyword -> type, the keyword that allows the rest of it, and the difference of their values."""


class Negation:
    """For the schemas of one document."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._num_left = MAX_NEGATIONS
        self._names: list[str] = []
        """Names of properties that may come where a schema allows no others than its own."""

    def among(self, sources: list[Located]) -> Negation:
        """One that knows the names of properties in these schemas."""
        found = Negation(self._references)
        waiting, names = [(one, 0) for one in sources], dict[str, None]()
        while waiting:
            (schema, path, base), depth = waiting.pop(0)
            if not isinstance(schema, dict) or depth > MAX_NAMED_DEPTH:
                continue
            base = base_of(schema, base)
            properties = schema.get("properties")
            names |= dict.fromkeys(properties if isinstance(properties, dict) else ())
            if "$ref" in schema:
                waiting.append((Located(*self._references.target(schema["$ref"], path, base)), depth + 1))
            if isinstance(schema.get("allOf"), list):
                waiting += [(Located(one, path, base), depth + 1) for one in schema["allOf"]]
        found._names = [*names][:MAX_NAMES]
        return found

    def of(self, schema: Any, path: str, base: str, depth: int = 0) -> Any:
        """Raises `InvalidParameter` if nothing of it can be expressed."""
        if isinstance(schema, Located):
            schema, path, base = schema
        if isinstance(schema, bool):
            return not schema
        if not isinstance(schema, dict):
            raise refused(path, "must be a schema: an object, true or false")
        self._num_left -= 1
        if depth > MAX_DEPTH or self._num_left < 0:
            raise unsupported(path, "what it does not allow is nested too deeply; write what is allowed instead")
        base, options, is_whole = base_of(schema, base), list[Any](), True
        for name, value in schema.items():
            if name not in KEPT and name not in REFUSED:
                continue
            here = under(path, name)
            try:
                options += self._of_keyword(name, value, schema, Located(value, here, base), depth + 1)
            except InvalidParameter:
                is_whole = False
        found = either(options)
        if found is False and not is_whole:
            raise unsupported(path, "what it does not allow cannot be written; write what is allowed instead")
        return found

    def _of_keyword(self, name: str, value: Any, schema: dict[str, Any], place: Located, depth: int) -> Iterator[Any]:
        _, path, base = place
        match name:
            case "type":
                others = types_but(*(value if isinstance(value, list) else [value]))
                yield {"type": others} if others else False
            case "const":
                yield from _other_values([value])
            case "enum":
                yield from _other_values(value if isinstance(value, list) else [])
            case "required":
                yield from ({"type": "object", "properties": {one: False}} for one in _names(value))
            case "properties":
                yield from self._of_properties(value, place, depth)
            case "not":
                yield place
            case "additionalProperties" if value is False and "patternProperties" not in schema:
                own = schema.get("properties", {})
                yield from ({"type": "object", "required": [one]} for one in self._names if one not in own)
                if not self._names:
                    raise unsupported(path, "what it does not allow cannot be written")
            case "anyOf" | "oneOf":
                yield together([self.of(one, under(path, index), base, depth) for index, one in enumerate(value)])
            case "allOf":
                yield from self._of_any(value, place, depth)
            case "$ref":
                yield self.of(*self._references.target(value, path, base), depth)
            case "$dynamicRef" | "$recursiveRef":
                yield self.of(*self._references.dynamic_target(value, path, base), depth)
            case "pattern":
                yield {"type": "string", "pattern": _complement(value, path)}
            case "contains" if not schema.keys() & {"minContains", "maxContains"}:
                yield {"type": "array", "items": self.of(value, path, base, depth)}
            case "items" if not isinstance(value, list) and "prefixItems" not in schema:
                yield {"type": "array", "contains": self.of(value, path, base, depth)}
            case "if":
                then, other = schema.get("then", True), schema.get("else", True)
                if then is not True:
                    yield together([place, self.of(then, path, base, depth)])
                if other is not True:
                    yield together([self.of(value, path, base, depth), self.of(other, path, base, depth)])
            case "then" | "else":
                return
            case _ if name in _BOUNDS and is_number(value):
                type_, other_name, step = _BOUNDS[name]
                if value + step >= 0 or not step:
                    yield {"type": type_, other_name: value + step}
            case _:
                raise unsupported(path, "what it does not allow cannot be written")

    def _of_properties(self, properties: Any, place: Located, depth: int) -> Iterator[Any]:
        found, is_whole = list[Any](), True
        for name, one in properties.items() if isinstance(properties, dict) else ():
            try:
                other = self.of(one, under(place.path, name), place.base, depth)
            except InvalidParameter:
                is_whole = False
                continue
            if other is not False:
                found.append({"type": "object", "properties": {name: other}, "required": [name]})
        if not found and not is_whole:
            raise unsupported(place.path, "what it does not allow cannot be written")
        yield from found

    def _of_any(self, schemas: Any, place: Located, depth: int) -> Iterator[Any]:
        """What at least one of the schemas does not allow."""
        found, failure = list[Any](), None
        for index, one in enumerate(schemas):
            try:
                found.append(self.of(one, under(place.path, index), place.base, depth))
            except InvalidParameter as refusal:
                failure = refusal
        if either(found) is False and failure is not None:
            raise failure
        yield from found


def _complement(pattern: Any, path: str) -> RustPattern:
    try:
        return other_texts(pattern)
    except PatternRefused as error:
        raise unsupported(path, str(error)) from None


def _names(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _other_values(values: list[Any]) -> Iterator[Any]:
    """Schemas for everything but these values, by type; of arrays and objects, none if one is among them."""
    types = types_but(*{_type(value) for value in values})
    if types:
        yield {"type": types}
    texts = [value for value in values if isinstance(value, str)]
    if texts:
        yield {"type": "string", "pattern": others(texts)}
    for one in (True, False):
        if any(isinstance(value, bool) for value in values) and not any(value is one for value in values):
            yield {"const": one}
    numbers = sorted(value for value in values if is_number(value))
    if numbers:
        yield {"type": "number", "exclusiveMaximum": numbers[0]}
        yield {"type": "number", "exclusiveMinimum": numbers[-1]}
        for lower, upper in itertools.pairwise(numbers):
            if upper > lower:
                yield {"type": "number", "exclusiveMinimum": lower, "exclusiveMaximum": upper}


def _type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case dict():
            return "object"
        case list():
            return "array"
    return "number"
