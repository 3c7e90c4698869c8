"""Unrolls recursive references beside other keywords once, since llguidance combines only schemas that it can inline.

`{"minProperties": 1, "$ref": "#/$defs/tree"}` becomes the body of `tree` beside the keyword; the references inside it
stay. Where such a schema contains itself, it becomes a definition. Works on rewritten schemas.
"""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

Schema = dict[str, Any] | bool

MAX_UNROLLED = 4
"""How many references that lead to each other in place are followed."""
_LISTS = ("allOf", "anyOf", "oneOf")
_BY_NAME = ("properties", "patternProperties")


def unrolled(root: Schema, definitions: dict[str, Schema]) -> Schema:
    """The root; definitions are changed in place."""
    recursive = _recursive(definitions)
    if not recursive:
        return root
    unroller = _Unroller({name: deepcopy(definitions[name]) for name in recursive})
    for name in definitions:
        definitions[name] = unroller.schema(definitions[name], 0)
    root = unroller.schema(root, 0)
    definitions |= unroller.repeated()
    return root


class _Unroller:
    def __init__(self, bodies: dict[str, Schema]) -> None:
        self._bodies = bodies
        """The recursive definitions as they were."""
        self._inside: list[str] = []
        """The schemas around the present one, each of which describes a part of the one before."""
        self._names: dict[str, str] = {}
        """A schema that contains itself -> the name of its definition."""

    def repeated(self) -> dict[str, Schema]:
        """Definitions for the schemas that contain themselves."""
        found: dict[str, Schema] = {}
        while len(found) < len(self._names):
            for written, name in [*self._names.items()][len(found) :]:
                self._inside = [written]
                found[name] = self.schema(json.loads(written), 0)
        return found

    def _member(self, schema: Schema) -> Schema:
        """A schema of a property or item."""
        if isinstance(schema, bool) or not schema.keys() & {"$ref", *_LISTS} or schema.keys() == {"$ref"}:
            return self.schema(schema, 0)
        written = json.dumps(schema)
        if written in self._names or written in self._inside:
            return {"$ref": f"#/$defs/{self._names.setdefault(written, f'u{len(self._names)}')}"}
        self._inside.append(written)
        found = self.schema(schema, 0)
        self._inside.pop()
        return found

    def schema(self, schema: Schema, depth: int) -> Schema:
        if isinstance(schema, bool):
            return schema
        found: dict[str, Any] = {}
        has_siblings = len(schema) > 1
        for name, value in schema.items():
            if name in _BY_NAME:
                found[name] = {key: self._member(one) for key, one in value.items()}
            elif name in _LISTS:
                is_combined = has_siblings or (name == "allOf" and len(value) > 1) or depth > 0
                found[name] = [self._in_place(one, depth, is_combined=is_combined) for one in value]
            elif name == "prefixItems":
                found[name] = [self._member(one) for one in value]
            elif name in ("items", "additionalProperties"):
                found[name] = self._member(value)
            else:
                found[name] = value
        if has_siblings and (body := self._body(found.get("$ref"))) is not None and depth < MAX_UNROLLED:
            del found["$ref"]
            found["allOf"] = [*found.get("allOf", ()), self._in_place(deepcopy(body), depth + 1, is_combined=True)]
        return found

    def _in_place(self, schema: Schema, depth: int, *, is_combined: bool) -> Schema:
        if is_combined and isinstance(schema, dict) and depth < MAX_UNROLLED:
            body = self._body(schema.get("$ref")) if len(schema) == 1 else None
            return (
                self.schema(schema, depth + 1)
                if body is None
                else self._in_place(deepcopy(body), depth + 1, is_combined=True)
            )
        return self.schema(schema, depth)

    def _body(self, reference: Any) -> Schema | None:
        return self._bodies.get(str(reference).removeprefix("#/$defs/")) if isinstance(reference, str) else None


def _recursive(definitions: dict[str, Schema]) -> set[str]:
    """Definitions that lead back to themselves."""
    following = {name: _references(schema) for name, schema in definitions.items()}
    found = set()
    for name in definitions:
        seen, waiting = set[str](), [*following[name]]
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                waiting += following.get(one, ())
        if name in seen:
            found.add(name)
    return found


def _references(schema: Any) -> set[str]:
    found, waiting = set[str](), [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if isinstance(one.get("$ref"), str):
                found.add(one["$ref"].removeprefix("#/$defs/"))
            waiting += [value for name, value in one.items() if name not in ("enum", "const")]
        elif isinstance(one, list):
            waiting += one
    return found
