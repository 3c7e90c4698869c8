"""Schemas whose keywords become cases, and with references that are not plain pointers."""

from __future__ import annotations

from typing import Any

from tests.schemas import Schema, closed

NULL: dict[str, Any] = {"type": "null"}
_CARD = {"properties": {"card": {"type": "string", "maxLength": 3}, "address": {"type": "string", "maxLength": 3}}}
_KINDS = {"properties": {"kind": {"enum": ["a", "b", "c"]}, "n": {"type": "integer"}, "t": {"type": "boolean"}}}
_A = {"properties": {"kind": {"const": "a"}}, "required": ["kind"]}

CASES: list[Schema] = [
    {
        "$defs": {
            "n": {
                "type": "object",
                "properties": {"a": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}},
                "patternProperties": {"^[a-c]$": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}},
                "additionalProperties": False,
            }
        },
        "$ref": "#/$defs/n",
    },
    {"not": {"type": "null"}},
    {"type": ["string", "null"], "not": {"type": "null"}},
    {"not": {"enum": ["a", "ab", 1, 3]}},
    {"type": "string", "not": {"enum": ["red", "reddish", ""]}, "maxLength": 8},
    {"not": {"required": ["a"]}},
    {"type": "object", **_CARD, "not": {"required": ["card", "address"]}},
    {"type": "string", "not": {"pattern": "^a"}},
    {
        "type": "string",
        "pattern": "^[a-f0-9-]+$",
        "not": {"anyOf": [{"pattern": "^[a-f0-9]{2}-[0-9]$"}, {"pattern": "--"}]},
    },
    {"type": "string", "pattern": "^(?!(?:con|aux)$)[a-z]+$", "maxLength": 5},
    {"type": "string", "not": {"minLength": 3}},
    {"type": "integer", "not": {"minimum": 3}},
    {"not": {"not": {"type": "null"}}},
    {"type": "object", **_KINDS, "not": _A},
    {"not": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["a"]}]}},
    {"type": "array", "items": {"type": "integer"}, "not": {"items": {"maximum": 5}}},
    {"not": {"const": True}, "type": "boolean"},
    {
        "type": "object",
        **_KINDS,
        "required": ["kind"],
        "if": _A,
        "then": {"required": ["n"]},
        "else": {"required": ["t"]},
    },
    {"type": "object", **_KINDS, "if": {"properties": {"kind": {"enum": ["a", "b"]}}}, "then": {"required": ["t"]}},
    {"if": {"type": "string"}, "then": {"maxLength": 2}, "else": {"type": "integer"}},
    {"if": True, "then": {"type": "null"}},
    {
        "type": "object",
        **_KINDS,
        "allOf": [{"if": _A, "then": {"required": ["n"]}}, {"if": {"required": ["n"]}, "then": {"required": ["t"]}}],
    },
    {"type": "object", **_CARD, "dependentRequired": {"card": ["address"]}},
    {"type": "object", **_CARD, "dependencies": {"card": ["address"]}},
    {
        "type": "object",
        **_CARD,
        "dependentSchemas": {"card": {"properties": {"address": {"const": "x"}}, "required": ["address"]}},
    },
    {"type": "array", "items": {"type": "integer"}, "contains": {"const": 5}, "maxItems": 4},
    {"type": "array", "contains": {"type": "string"}, "minContains": 2, "maxContains": 3, "maxItems": 5},
    {"contains": {"const": 5}, "maxContains": 1, "type": "array", "maxItems": 3},
    {"contains": {"type": "null"}, "minContains": 0},
    {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object", "properties": {"a": NULL, "b": NULL}},
    {"oneOf": [{"type": ["string", "null"]}, {"type": ["integer", "null"]}]},
    {"oneOf": [{"type": "integer"}, {"minimum": 2}]},
    {"oneOf": [closed({"a": NULL, "b": NULL}, "a"), closed({"a": NULL, "c": NULL}, "a")]},
    {"oneOf": [{"type": "string", "maxLength": 5}, {"enum": ["abc", 3]}]},
    {"oneOf": [{"$ref": "#/$defs/a"}, {"type": "object", "required": ["z"]}], "$defs": {"a": closed({"a": NULL})}},
    {"type": "object", "properties": {"a": NULL, "b": NULL, "c": NULL}, "minProperties": 2},
    {
        "type": "object",
        "properties": {"a": NULL, "b": NULL, "c": NULL},
        "maxProperties": 1,
        "additionalProperties": True,
    },
    {
        "allOf": [{"properties": {"a": NULL}}],
        "properties": {"b": NULL},
        "unevaluatedProperties": False,
        "type": "object",
    },
    {
        "anyOf": [
            {"properties": {"a": {"const": 1}}, "required": ["a"]},
            {"properties": {"b": {"const": 2}}, "required": ["b"]},
        ],
        "unevaluatedProperties": False,
        "type": "object",
    },
    {
        "$ref": "#/$defs/base",
        "unevaluatedProperties": {"type": "boolean"},
        "properties": {"x": NULL},
        "type": "object",
        "$defs": {"base": {"properties": {"a": {"type": "integer"}}}},
    },
    {"type": "array", "allOf": [{"prefixItems": [{"type": "string", "maxLength": 2}]}], "unevaluatedItems": False},
    {
        "type": "object",
        "properties": {"kind": {"enum": ["a", "b"]}},
        "if": _A,
        "then": {"properties": {"n": {"type": "integer"}}},
        "unevaluatedProperties": False,
    },
    {"type": "string", "pattern": r"^(?!\.)(?!.*\.\.)[a-z.]*[a-z]@[a-z]+\.[a-z]{2,}$"},
    {"type": "string", "pattern": "^(?=.*[A-Z])(?=.*[0-9]).{3,8}$"},
    {"type": "string", "pattern": "^(?!foo|bar$)[a-z]{2,5}$"},
    {"type": "string", "pattern": "^(?!(?:foo|bar)$)[a-z]{2,5}$"},
    {
        "$id": "https://example.com/tree",
        "$dynamicAnchor": "node",
        "type": "object",
        "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$dynamicRef": "#node"}}},
    },
    {
        "$ref": "#/$defs/a",
        "required": ["v"],
        "$defs": {"a": {"type": "object", "properties": {"v": NULL, "next": {"$ref": "#/$defs/a"}}}},
    },
    {
        "type": "object",
        "additionalProperties": {},
        "anyOf": [{"$ref": "#/$defs/t"}, {"$ref": "#/$defs/u"}],
        "$defs": {"t": {"type": "object", "properties": {"a": {"$ref": "#/$defs/t"}}}, "u": closed({"b": NULL}, "b")},
    },
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$ref": "#it",
        "definitions": {"x": {"$id": "#it", "type": "integer"}},
    },
]
