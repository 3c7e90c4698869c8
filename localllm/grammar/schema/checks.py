"""What a grammar cannot say of a document, for a check while it is written: distinct items, distinct names.

A rewritten schema marks arrays with `uniqueItems`, which llguidance does not know. Knows nothing of how it is checked.
"""

from __future__ import annotations

import json
from typing import Any

Schema = dict[str, Any] | bool

_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_BY_NAME = ("properties", "patternProperties", "$defs")
_SINGLE = ("items", "additionalProperties")


def split(schema: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The schema for llguidance, and JSON of the marked one; `true` if only names can be repeated, empty if nothing."""
    if _any(schema, lambda one: isinstance(one, dict) and one.get("uniqueItems") is True):
        return _unmarked(schema), json.dumps(schema)
    return schema, "true" if _any(schema, _may_repeat) else ""


def _may_repeat(schema: Schema) -> bool:
    """Whether it allows objects with names that it does not list."""
    if isinstance(schema, bool):
        return schema
    if schema.keys() & {"$ref", "allOf", "anyOf", "oneOf", "enum", "const"} and "properties" not in schema:
        return False
    types = schema.get("type")
    if types is not None and "object" not in types:
        return "array" in types and "items" not in schema
    return "patternProperties" in schema or schema.get("additionalProperties") is not False


def _any(schema: Schema, holds: Any) -> bool:
    waiting: list[Schema] = [schema]
    while waiting:
        one = waiting.pop()
        if holds(one):
            return True
        if isinstance(one, dict):
            waiting += _inside(one)
    return False


def _inside(schema: dict[str, Any]) -> list[Schema]:
    found: list[Schema] = []
    for name in _BY_NAME:
        found += schema.get(name, {}).values()
    for name in _LISTS:
        found += schema.get(name, ())
    return found + [schema[name] for name in _SINGLE if name in schema]


def _unmarked(schema: Schema) -> Any:
    if isinstance(schema, bool):
        return schema
    found: dict[str, Any] = {}
    for name, value in schema.items():
        if name in _BY_NAME:
            found[name] = {key: _unmarked(one) for key, one in value.items()}
        elif name in _LISTS:
            found[name] = [_unmarked(one) for one in value]
        elif name in _SINGLE:
            found[name] = _unmarked(value)
        elif name != "uniqueItems":
            found[name] = value
    return found
