"""Structures that take llguidance seconds, minutes or all memory, or that end it, unless something bounds it."""

from __future__ import annotations

import json
from typing import Any

from localllm.types.structures import Structure


def _nested(depth: int) -> str:
    return '{"type":"array","items":' * depth + "{}" + "}" * depth


def _pattern(text: str) -> dict[str, Any]:
    return {"type": "string", "pattern": text}


_SCHEMAS: dict[str, Any] = {
    "a megabyte of properties": {
        "properties": {f"k{number}": {"description": "x" * 150, "type": "string"} for number in range(4000)}
    },
    "10,000 alternatives": {
        "anyOf": [
            {"type": "object", "properties": {f"k{number}": {"type": "integer"}}, "required": [f"k{number}"]}
            for number in range(10_000)
        ]
    },
    "10,000 values": {"enum": [f"v{number}" for number in range(10_000)]},
    "5,000 properties": {"properties": {f"k{number}": {"type": "integer"} for number in range(5000)}},
    "5,000 required properties": {
        "properties": {f"k{number}": {"type": "string", "maxLength": 100} for number in range(5000)},
        "required": [f"k{number}" for number in range(5000)],
        "additionalProperties": False,
    },
    "required recursion": {
        "type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"], "additionalProperties": False,
    },
    "a reference to itself": {"$ref": "#"},
    "references in a circle": {
        "$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
    },
    "(a|a)*b": _pattern("^(a|a)*b$"),
    "nested repetitions": _pattern("^((a{1,1000}){1,1000}){1,1000}$"),
    "overlapping repetitions": _pattern("^(.*a.{20,40})+$"),
    "2,000 optional letters": _pattern("^" + "(a?)" * 2000 + "a{2000}$"),
    "30 letters ago": _pattern(".*[ab].{30}$"),
    "deep parentheses": _pattern("(" * 5000 + "a" + ")" * 5000),
    "all of 30 patterns": {"allOf": [_pattern(f"[a-z]{{1,50}}{number}") for number in range(30)]},
    "maxLength 10^9": {"type": "string", "maxLength": 10**9},
    "minLength 10^9": {"type": "string", "minLength": 10**9},
    "minItems 10^9": {"type": "array", "items": {"type": "string"}, "minItems": 10**9},
    "maxItems 10^6": {"type": "array", "items": {"type": "string"}, "maxItems": 10**6},
    "multipleOf of large primes": {
        "allOf": [{"type": "integer", "multipleOf": prime} for prime in (999999937, 999999929, 999999893)]
    },
    "bounds of 1e300": {"type": "number", "minimum": -1e300, "maximum": 1.23456789e300},
    "a string of a megabyte": {"const": "a" * 900_000},
    "a name of 400 KB, required": {"properties": {"a" * 400_000: {}}, "required": ["a" * 400_000]},
}  # fmt: skip

_SOURCES: list[tuple[str, Structure]] = [
    *((name, Structure(kind="json_schema", source=json.dumps(schema))) for name, schema in _SCHEMAS.items()),
    ("100,000 levels", Structure(kind="json_schema", source=_nested(38_000))),
    ("2,000 levels", Structure(kind="json_schema", source=_nested(2000))),
    ("a huge choice", Structure(kind="choice", source=json.dumps([f"choice {number} " * 3 for number in range(9999)]))),
    ("a catastrophic regex", Structure(kind="regex", source="(x+x+)+y")),
    ("a regex of nested repetitions", Structure(kind="regex", source="((a{1,1000}){1,1000}){1,1000}")),
    ("a million letters", Structure(kind="regex", source="a{1000000}")),
    ("left recursion, GBNF", Structure(kind="gbnf", source='root ::= root "a" | root | ""')),
    ("empty loop, GBNF", Structure(kind="gbnf", source='root ::= ("a"? | ""*)*')),
    ("repetitions, GBNF", Structure(kind="gbnf", source='root ::= ((("a"{1,999}){1,999}){1,999}){1,999}')),
    ("left recursion, Lark", Structure(kind="lark", source='start: start "a" | start | ""')),
    (
        "doubling rules, Lark",
        Structure(
            kind="lark",
            source="\n".join(
                ["start: r40", 'r0: "a"', *(f"r{number}: r{number - 1} r{number - 1}" for number in range(1, 41))]
            ),
        ),
    ),
    (
        "doubling terminals, Lark",
        Structure(
            kind="lark",
            source="\n".join(
                ["start: R40", 'R0: "a"', *(f"R{number}: R{number - 1} R{number - 1}" for number in range(1, 41))]
            ),
        ),
    ),
    (
        "ambiguity, Lark",
        Structure(kind="lark", source='start: a a a a a a a a\na: b | b a | a b\nb: "x" | "x" b | b "x"'),
    ),
    ("a rule of a megabyte, Lark", Structure(kind="lark", source="start: " + '"a" | ' * 160_000 + '"a"')),
    ("deep parentheses, Lark", Structure(kind="lark", source="start: " + "(" * 20_000 + '"a"' + ")" * 20_000)),
]  # fmt: skip
HOSTILE: dict[str, Structure] = dict(_SOURCES)
