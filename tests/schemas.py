"""Schemas to try: some hundred, put together from building blocks, and those that have to be refused, with where."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any] | bool

FORMATS = ["date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6",
           "uri", "uri-reference", "iri", "iri-reference", "uuid", "json-pointer", "relative-json-pointer",
           "uri-template", "regex"]  # fmt: skip

PATTERNS = [
    "^a|b$", "a$", "^[^a]$", "^.$", r"^\s$", r"^\S+$", r"^[\w.-]+@x$", r"[\s\S]", r"^[\w\W]{2}$", r"^[^\s]{1,3}$",
    r"^[^\W]$",
    r"^\d{3}-\d{4}$", r"^[A-Z]{2}\d{1,3}?$", "(?i)abc", r"^\u00e9\x41$", "^#[0-9a-fA-F]{6}$", "", "^", "^$", "^(|a)$",
    r"^[+-]?\d+$", "^(a|b(c|d)*)+$", "^[--a]$", "^~~--$", r'^["\\]+$', r"^(https?|ftp)://[^\s/$.?#].[^\s]*$", r"\D",
    r"^\W$",
    "^(?:[a-z]+-)*[a-z]+$", "é|日本", "^[😀-😎]$", "^x{0}y$", r"\/", "^[a-z]{1,40}$",
]  # fmt: skip

NUMBERS: list[Schema] = [
    {"type": "integer"}, {"type": "number"}, {"type": "integer", "minimum": 0}, {"type": "integer", "maximum": 0},
    {"type": "integer", "minimum": -5, "maximum": 17}, {"type": "integer", "minimum": 10**17 + 1},
    {"type": "integer", "minimum": -(10**18), "maximum": -(10**17) - 7}, {"type": "integer", "maximum": 2**64 - 1},
    {"type": "integer", "exclusiveMinimum": 98, "exclusiveMaximum": 102}, {"type": "integer", "minimum": 1.5,
    "maximum": 2.5},
    {"type": "integer", "multipleOf": 7}, {"type": "integer", "multipleOf": 5, "minimum": -12, "maximum": 13},
    {"type": "integer", "multipleOf": 1.5}, {"type": "integer", "format": "int32"}, {"type": "integer",
    "format": "int64"},
    {"type": "integer", "format": "uint8"}, {"type": "number", "minimum": 0}, {"type": "number", "maximum": 0},
    {"type": "number", "minimum": -1.5, "maximum": 2.25}, {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    {"type": "number", "exclusiveMinimum": -3, "exclusiveMaximum": -2.75}, {"type": "number", "minimum": 99.5},
    {"type": "number", "exclusiveMaximum": -0.001}, {"type": "number", "minimum": 1e-7, "maximum": 3e-7},
    {"type": "number", "multipleOf": 0.01}, {"type": "number", "multipleOf": 0.5, "minimum": -1, "maximum": 1},
    {"type": "number", "minimum": 1000, "maximum": 123456.75}, {"type": "number", "format": "double"},
    {"type": "number", "exclusiveMinimum": 9.99, "exclusiveMaximum": 10.01}, {"type": ["integer", "number"],
    "minimum": 3},
    {"type": "number", "exclusiveMinimum": 0, "maximum": 0.5}, {"type": "number", "exclusiveMinimum": -1.295,
    "exclusiveMaximum": -1},
    {"type": "number", "exclusiveMinimum": -0.0009, "exclusiveMaximum": 0}, {"type": "integer", "multipleOf": 0.5,
    "maximum": 3},
]  # fmt: skip

CONSTANTS: list[Schema] = [
    {"const": None}, {"const": True}, {"const": 0}, {"const": -1.5}, {"const": 1e22}, {"const": ""},
    {"const": 'say "hi"\n\\'},
    {"const": "日本😀"}, {"const": [1, [None], {}]}, {"const": {"b": 1, "a": [True]}}, {"enum": ["a", "ab", "abc"]},
    {"enum": [1, "1", None, True, 1.5]}, {"enum": ["x", 3], "type": "string"}, {"enum": [1.0, 2.5, "n"],
    "type": "integer"},
    {"enum": [{"k": 1}, {"k": 2}]}, {"enum": ["red", "green", "blue"], "maxLength": 4}, {"const": 0.1},
    {"enum": [-0.0, 1e-7]},
    {"enum": [f"v{index}" for index in range(300)]},
]  # fmt: skip

STRINGS: list[Schema] = [
    {"type": "string"}, {"type": "string", "minLength": 1}, {"type": "string", "maxLength": 3},
    {"type": "string", "minLength": 2, "maxLength": 2}, {"type": "string", "pattern": "^[ab]*$", "minLength": 3,
    "maxLength": 5},
    {"type": "string", "format": "date", "pattern": "^20"}, {"type": "string", "format": "password"},
    {"type": "string", "maxLength": 10**9}, {"type": "string", "format": "uuid", "maxLength": 50},
    *({"type": "string", "format": one} for one in FORMATS), *({"type": "string", "pattern": one} for one in PATTERNS),
]  # fmt: skip

LEAVES: list[Schema] = [{"type": "null"}, {"type": "boolean"}, True, {}, *NUMBERS, *CONSTANTS, *STRINGS]

_NULL: Schema = {"type": "null"}
_TREE = {"type": "object", "properties": {"value": {"type": "integer"}, "kids": {"type": "array",
"items": {"$ref": "#"}}},
         "required": ["value"], "additionalProperties": False}  # fmt: skip
_PERSON = {"type": "object", "title": "Person", "properties": {"name": {"type": "string", "maxLength": 9},
"age": {"type": "integer"}},
           "required": ["name"], "additionalProperties": False}  # fmt: skip


def closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """An object of these properties only."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


OBJECTS: list[Schema] = [
    {"type": "object"}, closed({}), {"type": "object", "additionalProperties": {"type": "integer"}}, _PERSON,
    {"type": "object", "properties": {"a": {"type": "integer"}}}, {"type": "object", "required": ["z", "y"]},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b\n\"'é/": _NULL}, "required": ["b\n\"'é/"]},
    {"type": "object", "properties": {"a": False, "b": {"type": "integer"}}},
    {"properties": {"a": {"type": "integer"}}},
    {"type": "object", "patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": False},
    {"type": "object", "patternProperties": {"^a": {"type": "integer"}, "^b": _NULL}},
    {"type": "object", "properties": {"ab": {"maximum": 4, "type": "integer"}},
    "patternProperties": {"^a": {"minimum": 2}}},
    {"type": "object", "propertyNames": {"pattern": "^[a-z]{1,3}$"}}, {"type": "object",
    "propertyNames": {"maxLength": 2}},
    {"type": "object", "propertyNames": {"enum": ["x", "y"]}, "additionalProperties": {"type": "boolean"}},
    {"type": "object", "propertyNames": {"format": "uuid"}, "additionalProperties": _NULL},
    {"type": "object", "propertyNames": {"$ref": "#/$defs/k"}, "$defs": {"k": {"type": "string", "const": "k"}}},
    {"type": "object", "minProperties": 1}, {"type": "object", "maxProperties": 2}, {"type": "object",
    "maxProperties": 0},
    {"type": "object", "minProperties": 1, "maxProperties": 3, "additionalProperties": {"type": "boolean"}},
    {"type": "object", "required": ["a"], "minProperties": 2}, closed({"a": _NULL, "b": _NULL}) | {"minProperties": 1},
    closed({"a": _NULL, "b": _NULL, "c": _NULL}, "b") | {"maxProperties": 2}, closed({"a": _NULL,
    "b": _NULL}) | {"maxProperties": 1},
    closed({"a": _NULL, "b": _NULL}) | {"maxProperties": 1, "minProperties": 1},
    {"type": "object", "properties": {"a": _NULL}, "unevaluatedProperties": False},
    closed({f"p{index}": {"type": "boolean"} for index in range(40)}, "p3"),
    {"additionalProperties": False, "type": "object", "required": ["b", "a"], "properties": {"a": _NULL,
    "b": {"type": "boolean"}}},
    closed({"const": {"const": 1}, "$ref": _NULL, "enum": {"type": "boolean"}, "type": {"type": "string"}}, "type"),
]  # fmt: skip

ARRAYS: list[Schema] = [
    {"type": "array"}, {"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": False},
    {"type": "array", "items": _PERSON, "minItems": 1, "maxItems": 3}, {"type": "array", "minItems": 2,
    "items": {"type": "boolean"}},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}, {"type": "array", "maxItems": 0},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False, "minItems": 2},
    {"type": "array", "prefixItems": [_NULL], "items": {"type": "integer"}, "minItems": 3, "maxItems": 4},
    {"type": "array", "prefixItems": [_NULL], "unevaluatedItems": {"type": "integer"}}, {"items": {"type": "integer"}},
    {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": _NULL}}},
]  # fmt: skip

TOGETHER: list[Schema] = [
    _TREE, {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 4}]}, {"type": ["string", "null"]},
    {"minimum": 3},
    {"type": ["object", "array"], "items": _NULL, "additionalProperties": {"type": "integer"}}, {"required": ["a"]},
    {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 9}, {"multipleOf": 2}]}, {"minLength": 2,
    "pattern": "^a"},
    {"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, closed({"a": {"minimum": 5},
    "b": _NULL})]},
    {"allOf": [{"pattern": "^a"}, {"pattern": "b$"}, {"maxLength": 6}], "type": "string"},
    {"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"],
     "anyOf": [closed({"kind": {"const": "a"}, "x": {"type": "integer"}}, "x"), closed({"kind": {"const": "b"}})]},
    {"oneOf": [closed({"kind": {"const": "cat"}, "lives": {"type": "integer"}}, "kind"), {"$ref": "#/$defs/dog"}],
     "$defs": {"dog": closed({"kind": {"enum": ["dog", "wolf"]}, "bark": {"type": "boolean"}}, "kind")},
     "discriminator": {"propertyName": "kind"}},
    {"oneOf": [{"type": "integer", "maximum": 3}, {"type": "integer", "minimum": 5}, {"type": "string"}]},
    {"oneOf": [closed({"a": _NULL}, "a"), closed({"b": _NULL}, "b")]}, {"oneOf": [{"maxLength": 2, "type": "string"},
     {"minLength": 4, "type": "string"}]}, {"oneOf": [{"enum": ["a", "b"]}, {"const": "c"}, {"type": "null"}]},
    {"oneOf": [{"type": "string"}, {"type": "integer"}], "anyOf": [{"minimum": 3}, {"maxLength": 2}]},
    {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"type": "integer"}, {"type": "array",
    "items": {"$ref": "#/$defs/a"}}]}}},
    {"$ref": "#/$defs/a", "maxLength": 5, "$defs": {"a": {"type": "string", "minLength": 2}}},
    closed({"person": {"$ref": "#/$defs/p", "description": "who"}, "of": {"type": "array",
    "items": {"$ref": "#/$defs/p"}}}, "person")
    | {"$defs": {"p": _PERSON}},
    closed({"x": {"$ref": "#a"}, "y": {"$ref": "#/$defs/deep~1er/properties/q"}}, "x", "y")
    | {"$defs": {"one": {"$anchor": "a", "type": "boolean"}, "deep/er": {"properties": {"q": {"type": "integer"}}}}},
    {"$id": "https://example.com/root", "$ref": "item", "$defs": {"i": {"$id": "item", "$ref": "#/$defs/n",
    "$defs": {"n": _NULL}}}},
    {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, _NULL]}, "v": {"type": "boolean"}},
    "required": ["v", "next"],
     "additionalProperties": False},
    closed({"never": {"$ref": "#/$defs/loop"}, "v": _NULL}) | {"$defs": {"loop": {"$ref": "#/$defs/loop"}}},
    {"$defs": {"expr": {"anyOf": [{"type": "number"}, closed({"op": {"enum": ["+", "*"]}, "args": {"type": "array",
    "items":
     {"$ref": "#/$defs/expr"}, "minItems": 2, "maxItems": 2}}, "op", "args")]}}, "$ref": "#/$defs/expr"},
    {"title": "t", "description": "d", "examples": [1], "default": 3, "deprecated": True, "readOnly": True,
    "x-mine": {"not": 1},
     "$comment": "c", "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "integer",
     "uniqueItems": False},
    {"type": "integer", "not": False}, {"anyOf": [{"type": "string", "const": "a"}, {"type": "string"}]},
    {"anyOf": [_PERSON, closed({"name": {"type": "integer"}}, "name"), _NULL]}, {"allOf": [{"enum": ["a", "b", 1]},
    {"enum": ["b", 1, 2]}]},
    {"type": "string", "enum": ["ab", "b"], "pattern": "^a"}, {"allOf": [{"type": ["integer", "string"]},
    {"type": ["string", "null"]}]},
    {"allOf": [_PERSON, {"type": "object", "required": ["age"]}]}, {"anyOf": [{"type": "object", "required": ["a"]},
    {"type": "array"}]},
    {"type": "object", "properties": {"a": {"type": "string"}}, "allOf": [{"required": ["a"]},
    {"properties": {"a": {"minLength": 2}}}]},
    {"type": "array", "items": {"oneOf": [{"type": "string"}, {"type": "number"}]}, "maxItems": 4},
]  # fmt: skip


def corpus() -> list[Schema]:
    """Every building block alone, as what is required, optional, one of several, in lists and behind a reference."""
    return list(_corpus())


def _corpus() -> Iterator[Schema]:
    yield from LEAVES
    yield from OBJECTS
    yield from ARRAYS
    yield from TOGETHER
    for index, leaf in enumerate(LEAVES):
        other = LEAVES[(index * 7 + 3) % len(LEAVES)]
        yield closed({"id": {"type": "integer"}, "it": leaf, "more": other}, "it")
        if index % 2:
            yield {"type": "array", "items": leaf, "minItems": 1, "maxItems": 3}
        else:
            yield {"type": "object", "properties": {"a": leaf}, "additionalProperties": other}
        if index % 3 == 0:
            yield {"anyOf": [leaf, closed({"it": other}, "it"), {"type": "null"}]}
        elif index % 3 == 1:
            yield closed(
                {"a": {"$ref": "#/$defs/it"}, "b": {"type": "array", "items": {"$ref": "#/$defs/it"}}}, "a"
            ) | {"$defs": {"it": leaf}}


OLDER: list[Schema] = [
    {"$schema": "http://json-schema.org/draft-07/schema#", "type": "array", "items": [_NULL, {"type": "integer"}],
     "additionalItems": False},
    {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a",
    "definitions": {"a": {"type": "boolean"}}},
    {"$schema": "http://json-schema.org/draft-04/schema#", "type": "number", "minimum": 0, "exclusiveMinimum": True,
    "maximum": 1},
    {"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://x/y", "type": "array", "items": [_NULL],
     "additionalItems": {"type": "integer"}},
]  # fmt: skip
"""In the spellings of earlier drafts."""


REFUSED: list[tuple[Any, str, str]] = [
    ({"type": "array", "uniqueItems": 1}, ".uniqueItems", "true or false"), ({"$dynamicRef": "#a"}, ".$dynamicRef",
    "anchor"), ({"not": {"multipleOf": 3}, "type": "integer"}, ".not", "cannot be written"),
    ({"if": {"format": "uri"}, "then": {"maxLength": 3}}, ".if", "opposite"), ({"contains": True, "minContains": 3,
    "maxContains": 2}, ".maxContains", "less than"),
    ({"dependentRequired": {"a": [1]}}, ".dependentRequired.a", "names"),
    ({"type": "any"}, ".type", "among"),
    ({"type": []}, ".type", "type"), ({"format": 3}, ".format", "a string"),
    ({"pattern": "a(?=b)"}, ".pattern", "lookaround"), ({"pattern": "^(?!a(?=b))c"},
    ".pattern", "lookahead"), ({"pattern": "(a)\\1"}, ".pattern", "back reference"),
    ({"pattern": "\\bx"}, ".pattern", "boundary"), ({"pattern": "(a"}, ".pattern", "not closed"),
    ({"pattern": "^\\x01$"}, ".pattern", "only as a"), ({"pattern": "(^a|b)c"}, ".pattern", "anchor"),
    ({"patternProperties": {"(a": True}}, '.patternProperties["(a"]', "not closed"), ({"pattern": 3}, ".pattern",
    "string"),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, ".oneOf", "anyOf"), ({"oneOf": []}, ".oneOf", "list"),
    ({"type": "object", "minProperties": 2,
    "additionalProperties": False}, ".minProperties", "exceeds"), ({"maxItems": 10**9}, ".maxItems",
    "at most"),
    ({"propertyNames": {"anyOf": []}}, ".propertyNames", "enum"), ({"multipleOf": 999999937}, ".multipleOf", "at most"),
    ({"multipleOf": 0}, ".multipleOf", "above 0"), ({"minimum": "3"}, ".minimum", "number"), ({"minLength": -1},
    ".minLength", "0 or more"),
    ({"maxLength": 10**12}, ".maxLength", "at most"), ({"minimum": 1e300}, ".minimum", "beyond"),
    ({"const": 10**19 + 1}, ".const", "double"),
    ({"enum": [1, 1e23]}, ".enum", "double"), ({"enum": []}, ".enum", "list"), ({"const": "\x01"}, ".const", "U+0001"),
    ({"$ref": "#/nope"}, ".$ref", "nothing"), ({"$ref": "https://example.com/s"}, ".$ref", "outside the schema"),
    ({"$ref": "#nope"}, ".$ref", "anchor"), ({"$ref": 3}, ".$ref", "string"), ({"items": 3}, ".items", "a schema"),
    ({"properties": []}, ".properties", "object of schemas"), ({"required": "a"}, ".required", "list of names"),
    # No document can be valid.
    (False, "", "no document"), ({"not": {}}, "", "no document"), ({"type": "integer", "minimum": 5, "maximum": 1},
    ".minimum", "no integer"),
    ({"type": "number", "exclusiveMinimum": 1, "maximum": 1}, ".exclusiveMinimum", "no number"), ({"type": "string",
    "enum": [1]}, ".enum", "string"),
    ({"minLength": 3, "maxLength": 2}, ".minLength", "maxLength"), ({"minItems": 3, "maxItems": 2}, ".minItems", "2"),
    ({"type": "array", "prefixItems": [True], "items": False, "minItems": 2}, ".minItems", "1"),
    ({"type": "integer", "multipleOf": 7, "minimum": 1, "maximum": 3}, ".multipleOf", "within"),
    ({"type": "object", "required": ["z"], "additionalProperties": False}, ".required", "'z'"),
    ({"required": ["a", "b"], "maxProperties": 1}, ".maxProperties", "required"), ({"$ref": "#"}, "", "finite"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, ".$defs.a", "finite"),
    ({"type": "object", "properties": {"n": {"$ref": "#"}}, "required": ["n"]}, "", "finite"),
    ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, "", "finite"),
]  # fmt: skip
"""Schema, path of what is refused in it, a word of why."""
