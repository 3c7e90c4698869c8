"""The JSON Schema of a pydantic model, adjusted so that every document it allows parses as that model.

pydantic's own schemas are looser than its types in some places (a Decimal is any string) and stricter in others (items
of a set are unique, though parsing a set merges duplicates). The adjustments below follow the type; constraints that a
user wrote stay as they are. pydantic is imported only when a pydantic type is given.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from localllm.llm.typed_schemas import BASE64, DURATION, NAIVE_DATETIME, Schema

ANY_TEXT_FORMATS = ("binary", "password", "path")
"""Formats of pydantic that any string satisfies: bytes are its UTF-8, a secret is not printed, any string is a path."""
_PATTERNS = {
    "base64": BASE64,
    "base64url": BASE64.replace("+/", "_-"),
    **{
        f"uuid{version}": f"^[0-9a-f]{{8}}-[0-9a-f]{{4}}-{version}[0-9a-f]{{3}}-[89ab][0-9a-f]{{3}}-[0-9a-f]{{12}}$"
        for version in range(1, 9)
    },
}


def is_pydantic(kind: Any) -> bool:
    """Whether it is a pydantic model, a pydantic dataclass or a `TypeAdapter`."""
    return _is_adapter(kind) or (isinstance(kind, type) and hasattr(kind, "__pydantic_core_schema__"))


def schema_of(kind: Any) -> Schema:
    """Raises what pydantic raises for types that have no JSON Schema."""
    found: Schema = adapter(kind).json_schema(schema_generator=_generator())
    return found


def adapter(kind: Any) -> Any:
    """A `TypeAdapter`: it has `json_schema` and `validate_json`."""
    return kind if _is_adapter(kind) else importlib.import_module("pydantic").TypeAdapter(kind)


def _is_adapter(kind: Any) -> bool:
    return not isinstance(kind, type) and hasattr(kind, "json_schema") and hasattr(kind, "validate_json")


@cache
def _generator() -> type:
    base: Any = importlib.import_module("pydantic.json_schema").GenerateJsonSchema

    class Generator(base):  # type: ignore[misc]  # its type is known at run time only
        def set_schema(self, schema: Any) -> Schema:
            return _merging(super().set_schema(schema))

        def frozenset_schema(self, schema: Any) -> Schema:
            return _merging(super().frozenset_schema(schema))

        def decimal_schema(self, schema: Any) -> Schema:
            return _decimal(schema)

        def datetime_schema(self, schema: Any) -> Schema:
            if schema.get("tz_constraint") == "naive":
                return {"type": "string", "pattern": NAIVE_DATETIME}
            return super().datetime_schema(schema)  # type: ignore[no-any-return]

        def timedelta_schema(self, schema: Any) -> Schema:
            """ISO 8601 durations that a timedelta can hold."""
            found: Schema = super().timedelta_schema(schema)
            return {"type": "string", "pattern": DURATION} if found.get("format") == "duration" else found

        def model_schema(self, schema: Any) -> Schema:
            return _closed(super().model_schema(schema))

        def dataclass_schema(self, schema: Any) -> Schema:
            return _closed(super().dataclass_schema(schema))

        def typed_dict_schema(self, schema: Any) -> Schema:
            return _closed(super().typed_dict_schema(schema))

        def generate(self, schema: Any, mode: Any = "validation") -> Schema:
            found: Schema = super().generate(schema, mode)
            _adjust(found, found.get("$defs", {}))
            return found

    return Generator


def _merging(found: Schema) -> Schema:
    """Duplicates merge when the set is parsed, so items must be unique only if the set has a minimum size above 1."""
    if found.get("minItems", 0) <= 1:
        found.pop("uniqueItems", None)
    return found


def _decimal(schema: Any) -> Schema:
    """A number only; pydantic allows any string as well."""
    bounds = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
    found: Schema = {"type": "number", **{bounds[key]: float(schema[key]) for key in bounds if key in schema}}
    digits, places = schema.get("max_digits"), schema.get("decimal_places")
    if places is not None:
        found["multipleOf"] = 1 if places == 0 else float(f"1e-{places}")
    if "multiple_of" in schema:
        found["multipleOf"] = float(schema["multiple_of"])
    if digits is not None:
        most = 10 ** (digits - (places or 0)) - 1
        found["maximum"] = min(found.get("maximum", most), most)
        found["minimum"] = max(found.get("minimum", -most), -most)
        found.setdefault("multipleOf", 1)  # without decimal_places no fraction can be allowed
    return found


def _closed(found: Schema) -> Schema:
    """Forbids extra properties, which pydantic would drop, unless the model's configuration allows them."""
    if "properties" in found:
        found.setdefault("additionalProperties", False)
    return found


def _adjust(node: Any, definitions: dict[str, Any]) -> None:
    if isinstance(node, list):
        for each in node:
            _adjust(each, definitions)
    if not isinstance(node, dict):
        return
    tag = node.get("discriminator")
    branches = node.get("oneOf")
    if isinstance(tag, dict) and isinstance(branches, list) and isinstance(tag.get("propertyName"), str):
        # pydantic needs the tag even if it has a default, so at most one branch is valid and `anyOf` is equivalent.
        del node["discriminator"]
        node["anyOf"] = node.pop("oneOf")
        for branch in branches:
            _require(branch, tag["propertyName"], definitions)
    if node.get("type") == "string":
        if node.get("format") in ANY_TEXT_FORMATS:
            del node["format"]
        elif node.get("format") in _PATTERNS and "pattern" not in node:
            node["pattern"] = _PATTERNS[node.pop("format")]
        elif node.get("format") == "ipvanyaddress" and "anyOf" not in node:
            del node["format"]
            node["anyOf"] = [{"format": "ipv4"}, {"format": "ipv6"}]
    for each in node.values():
        _adjust(each, definitions)


def _require(branch: Any, name: str, definitions: dict[str, Any]) -> None:
    if not isinstance(branch, dict):
        return
    ref = branch.get("$ref")
    if isinstance(ref, str):
        _require(definitions.get(ref.removeprefix("#/$defs/")), name, definitions)
    elif name in branch.get("properties", {}):
        branch["required"] = list(dict.fromkeys([*branch.get("required", ()), name]))
    for each in [*branch.get("oneOf", ()), *branch.get("anyOf", ())]:  # a union within the union
        _require(each, name, definitions)
