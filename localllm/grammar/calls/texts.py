"""Which texts a schema allows, as one terminal, and a schema without some of its types.

Notations that write texts without quotes need both: a text is a regular expression up to the literal behind it, and
everything else is JSON. Works on schemas rewritten by `schemas.checked`; knows no notation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from localllm.grammar.calls.tags import regex
from localllm.grammar.texts.literals import ANY, either, quoted
from localllm.types.schemas.value_schemas import type_of

Schema = dict[str, Any] | bool
Resolve = Callable[[Schema], Schema]
"""Follows a schema that only refers to another."""

ALL_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
MAX_LENGTH = 100_000
"""Longest bound of a text that is enforced."""
MAX_MIN_LENGTH = 2000
_MAX_DEPTH = 20


class NotWritable(Exception):
    """A name or a value that the notation cannot express."""


def text_of(schema: Schema, resolve: Resolve, depth: int = _MAX_DEPTH) -> str | None:
    """A terminal for the texts that a schema allows; None if it allows none. Raises `NotWritable`."""
    if not depth:
        raise NotWritable
    if isinstance(schema, bool):
        return ANY if schema else None
    if "type" in schema and "string" not in _listed(schema["type"]):
        return None
    found = [*_own(schema)]
    several = [schema["anyOf"]] if "anyOf" in schema else []
    several += [[one] for one in schema.get("allOf", ())]
    several += [[resolve({"$ref": schema["$ref"]})]] if "$ref" in schema else []
    for options in several:
        ways = [way for one in options if (way := text_of(one, resolve, depth - 1)) is not None]
        if not ways:
            return None
        if ANY not in ways:
            found.append(either([*dict.fromkeys(ways)]))
    if "" in found:
        return None
    return " & ".join(f"({one})" for one in found) if len(found) > 1 else "".join(found) or ANY


def _own(schema: dict[str, Any]) -> list[str]:
    """Terminals for keywords of the schema itself; an empty one if it allows no text."""
    found = []
    if "enum" in schema or "const" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        texts = [quoted(value) for value in values if isinstance(value, str)]
        found.append(either(texts) if texts else "")
    least, most = schema.get("minLength", 0), schema.get("maxLength", 0)
    if least > MAX_MIN_LENGTH or most > MAX_LENGTH:
        raise NotWritable
    if least or "maxLength" in schema:
        found.append(f"/(?s:.{{{least},{schema.get('maxLength', '')}}})/")
    if "pattern" in schema:
        found.append(regex(schema["pattern"].removeprefix("^").removesuffix("$")))
    return found


def of_types(schema: Schema, types: Collection[str], resolve: Resolve, depth: int = _MAX_DEPTH) -> Schema:
    """The schema, restricted to values of these types; false if there are none."""
    if schema is False or not depth:
        return False
    if schema is True:
        return {"type": sorted(types)}
    found = dict(schema)
    if "type" in found:
        listed = _within(_listed(found["type"]), types)
        if not listed:
            return False
        found["type"] = listed[0] if len(listed) == 1 else listed
    if "enum" in found or "const" in found:
        values = found.pop("enum") if "enum" in found else [found["const"]]
        values = [value for value in values if _within([type_of(value)], types)]
        if not values:
            return False
        found |= {} if "const" in found else {"enum": values}
    if "$ref" in found:
        inner = of_types(resolve({"$ref": found.pop("$ref")}), types, resolve, depth - 1)
        found["allOf"] = [*found.get("allOf", []), inner]
    if "allOf" in found:
        found["allOf"] = [of_types(one, types, resolve, depth - 1) for one in found["allOf"]]
    if "anyOf" in found:
        found["anyOf"] = [
            way for one in found["anyOf"] if (way := of_types(one, types, resolve, depth - 1)) is not False
        ]
    if False in found.get("allOf", ()) or found.get("anyOf") == []:
        return False
    if not found.keys() & {"type", "enum", "const", "allOf", "anyOf"}:
        found["type"] = sorted(types)
    return found


def accepts(schema: Schema, value: bool | None, resolve: Resolve, depth: int = _MAX_DEPTH) -> bool:
    """Whether the schema allows true, false or null."""
    if isinstance(schema, bool) or not depth:
        return schema is True
    if "type" in schema and type_of(value) not in _listed(schema["type"]):
        return False
    if not any(one is value for one in schema.get("enum", [schema.get("const", value)])):
        return False
    within = [*schema.get("allOf", ()), *([resolve({"$ref": schema["$ref"]})] if "$ref" in schema else [])]
    if not all(accepts(one, value, resolve, depth - 1) for one in within):
        return False
    return "anyOf" not in schema or any(accepts(one, value, resolve, depth - 1) for one in schema["anyOf"])


def _listed(types: str | list[str]) -> list[str]:
    return [types] if isinstance(types, str) else types


def _within(listed: Collection[str], types: Collection[str]) -> list[str]:
    """The listed types that are among the others, where a number may be an integer."""
    found = [one for one in listed if one in types or (one == "integer" and "number" in types)]
    return found + ["integer"] * ("number" in listed and "integer" in types and not {"number", "integer"} & {*found})
