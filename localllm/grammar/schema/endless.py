"""Finds schemas without a finite document, such as `{"$ref": "#"}`, or a list of at least one such list.

llguidance compiles these, and a generated text could never end. An optional one becomes `false` here; if the whole
schema depends on one, it is rejected. Works on rewritten schemas.
"""

from __future__ import annotations

from typing import Any

from localllm.grammar.refusals import refused

Schema = dict[str, Any] | bool

MAX_DEPTH = 256
"""Each level takes some 5 KB of llguidance's stack."""


def prune(root: Schema, definitions: dict[str, Schema], path: str, paths: dict[str, str]) -> Schema:
    """Remove endless schemas from the root and, in place, from the definitions. Raises `InvalidParameter`.

    `paths`: the path of each definition in the request.
    """
    ends = dict.fromkeys(definitions, False)
    while True:
        found = {name: _ends(schema, ends) for name, schema in definitions.items()}
        if found == ends:
            break
        ends = found
    if not _ends(root, ends):
        name = _culprit(root, definitions, ends)
        if name is None:
            raise refused(path, "allows no document at all")
        raise refused(paths[name], "has no finite document: each one must contain another")
    for name, schema in definitions.items():
        definitions[name] = _pruned(schema, ends)
    return _pruned(root, ends)


def check_depth(root: Schema, definitions: dict[str, Schema], path: str, paths: dict[str, str]) -> None:
    """Reject schemas that would overflow the stack of llguidance, which follows references where they first occur."""
    seen: set[str] = set()
    waiting: list[tuple[Schema, int, str]] = [(root, 1, path)]
    while waiting:
        schema, depth, where = waiting.pop()
        if depth > MAX_DEPTH:
            raise refused(where, f"is more than {MAX_DEPTH} schemas deep, counting references; make it flatter")
        if isinstance(schema, bool):
            continue
        inner = [(one, depth + 1, where) for one in _inside(schema)]
        if "$ref" in schema and _name(schema) not in seen:
            seen.add(_name(schema))
            inner.append((definitions[_name(schema)], depth + 1, paths[_name(schema)]))
        waiting += reversed(inner)


def _inside(schema: dict[str, Any]) -> list[Schema]:
    found: list[Schema] = []
    for name in ("properties", "patternProperties"):
        found += schema.get(name, {}).values()
    for name in ("prefixItems", "allOf", "anyOf", "oneOf"):
        found += schema.get(name, ())
    return found + [schema[name] for name in ("items", "additionalProperties") if name in schema]


def _culprit(schema: Schema, definitions: dict[str, Schema], ends: dict[str, bool]) -> str | None:
    """The first definition, reachable from this schema, that requires itself; None if there is none."""
    seen: list[str] = []
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, bool) or _ends(one, ends):
            continue
        if "$ref" in one:
            name = _name(one)
            if name in seen:
                return name
            seen.append(name)
            waiting.append(definitions[name])
        for keyword in ("allOf", "anyOf", "oneOf"):
            waiting += one.get(keyword, ())
        waiting += [_property(one, name) for name in one.get("required", ())] + _needed_items(one)
    return None


def _ends(schema: Schema, ends: dict[str, bool]) -> bool:
    """Whether a finite document satisfies it, given which definitions have one. Considers each keyword alone."""
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema and not ends[_name(schema)]:
        return False
    if not all(_ends(one, ends) for one in schema.get("allOf", ())):
        return False
    for name in ("anyOf", "oneOf"):
        if name in schema and not any(_ends(one, ends) for one in schema[name]):
            return False
    types = schema.get("type")
    if types == "object":
        return all(_ends(_property(schema, name), ends) for name in schema.get("required", ()))
    if types == "array":
        return all(_ends(one, ends) for one in _needed_items(schema))
    return True


def _name(schema: dict[str, Any]) -> str:
    return str(schema["$ref"]).removeprefix("#/$defs/")


def _property(schema: dict[str, Any], name: str) -> Schema:
    if name in schema.get("properties", {}):
        found: Schema = schema["properties"][name]
        return found
    return True if "patternProperties" in schema else schema.get("additionalProperties", True)


def _needed_items(schema: dict[str, Any]) -> list[Schema]:
    least, prefix = schema.get("minItems", 0), schema.get("prefixItems", [])
    return [*prefix[:least], *([schema.get("items", True)] if least > len(prefix) else [])]


def _pruned(schema: Schema, ends: dict[str, bool]) -> Schema:
    """Replace endless schemas by `false`, in place."""
    if isinstance(schema, bool):
        return schema
    if not _ends(schema, ends):
        return False
    for name in ("properties", "patternProperties"):
        for key, one in schema.get(name, {}).items():
            schema[name][key] = _pruned(one, ends)
    for name in ("additionalProperties", "items"):
        if name in schema:
            schema[name] = _pruned(schema[name], ends)
    for name in ("prefixItems", "allOf"):
        if name in schema:
            schema[name] = [_pruned(one, ends) for one in schema[name]]
    for name in ("anyOf", "oneOf"):
        if name in schema:
            schema[name] = [_pruned(one, ends) for one in schema[name]]
    return schema
