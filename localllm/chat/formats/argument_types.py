"""Which JSON types a function's schema allows for each of its arguments, as far as that tells a text from JSON.

Looks no deeper than needed: `type`, `enum`, `const`, alternatives, references within the schema. Knows no format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from localllm.chat.formats.json_scan import value_of
from localllm.conversation import Function

ANY: frozenset[str] = frozenset()
"""Nothing is said of the type."""

MOST_STEPS = 100
"""Of schemas looked at for one argument."""


class ArgumentTypes:
    """Of one function."""

    def __init__(self, function: Function | None) -> None:
        self._schema: Any = {}
        if function is not None and function.parameters:
            try:
                self._schema = value_of(function.parameters)
            except ValueError:
                self._schema = {}  # the request was refused or the schema is not kept: then every type may come

    def of(self, key: str) -> frozenset[str]:
        """The types of this argument; none: any."""
        schema = self._resolved(self._schema)
        properties = schema.get("properties")
        found = properties.get(key) if isinstance(properties, dict) else None
        if found is None:
            found = schema.get("additionalProperties")
        return self._types(found, [MOST_STEPS])

    def _types(self, schema: Any, steps: list[int]) -> frozenset[str]:
        schema = self._resolved(schema)
        steps[0] -= 1
        if steps[0] < 0:
            return ANY
        named = schema.get("type")
        if isinstance(named, str):
            return frozenset([named])
        if isinstance(named, list):
            return frozenset(each for each in named if isinstance(each, str))
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if isinstance(values, list):
            return frozenset(map(type_of, values))
        for word in ("anyOf", "oneOf"):
            if isinstance(schema.get(word), list):
                each_types = [self._types(each, steps) for each in schema[word]]
                return frozenset().union(*each_types) if all(each_types) else ANY
        if isinstance(schema.get("allOf"), list):
            return next(filter(None, (self._types(each, steps) for each in schema["allOf"])), ANY)
        return ANY

    def _resolved(self, schema: Any) -> dict[str, Any]:
        """The schema, or the one in the same document that it refers to."""
        for _ in range(MOST_STEPS):
            if not isinstance(schema, dict):
                return {}
            reference = schema.get("$ref")
            if not isinstance(reference, str) or not reference.startswith("#"):
                return schema
            schema = self._schema
            for part in filter(None, reference[1:].split("/")):
                part = part.replace("~1", "/").replace("~0", "~")
                schema = schema.get(part) if isinstance(schema, dict) else None
        return {}


def type_of(value: object) -> str:
    """JSON Schema's word for what kind of value it is."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Mapping) else "array"


def json_of(text: str, types: frozenset[str]) -> str:
    """JSON of a value that is JSON, or a text where it is none or may be a text and nothing else that it looks like."""
    text = text.strip()
    try:
        found = type_of(value_of(text))
    except ValueError:
        return json.dumps(text, ensure_ascii=False)
    if "string" not in types or found in types or (found == "integer" and "number" in types):
        return text
    return json.dumps(text, ensure_ascii=False)
