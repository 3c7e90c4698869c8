"""Schemas whose parts have to be taken together: what tells alternatives apart stands beside them, conditions depend on
one property, names match two patterns, and parts that no document matches are never written.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from localllm.errors import InvalidParameter
from localllm.types.structures import GrammarLimits, Structure
from localllm.worker.grammars.grammar_request import GrammarRequest, SpecialTokens
from localllm.worker.grammars.grammar_trial import checked_grammar
from tests.nonsense import TOKENS, accepts, compiled, document
from tests.unit.grammar.test_grammar_schemas import check, exact, validator_of

KINDS = [f"kind{number}" for number in range(12)]


def tried(schema: Any) -> tuple[str, tuple[str, ...]]:
    """The grammar as a worker tries it, and its notes."""
    structure = Structure(kind="json_schema", source=json.dumps(schema), param="f")
    found = checked_grammar(GrammarRequest(structure, None, GrammarLimits(), SpecialTokens(len(TOKENS), ())))
    return found.grammar, found.notes


def kind(name: str, **more: Any) -> dict[str, Any]:
    return {"properties": {"kind": {"enum": [name]}, **more}}


CONDITIONS = {
    "type": "object",
    "properties": {"kind": {"type": "string"}, "size": {"type": "integer"}},
    "required": ["kind"],
    "allOf": [
        {"if": kind(name), "then": {"properties": {"size": {"minimum": number}}, "required": ["size"]}}
        for number, name in enumerate(KINDS)
    ],
}
NEEDS = {
    "type": "object",
    "properties": {name: {"type": "integer"} for name in "abcdefgh"},
    "additionalProperties": False,
    "anyOf": [{"required": [name]} for name in "abcd"],
    "dependencies": {
        "a": {"not": {"required": ["b"]}},
        "b": {"not": {"anyOf": [{"required": [name]} for name in "cdefgh"]}},
        "c": {"not": {"anyOf": [{"required": [name]} for name in "defgh"]}},
        "d": {"anyOf": [{"required": [name]} for name in "efgh"]},
        "e": ["f"], "f": ["g"], "g": ["h"],
    },
}  # fmt: skip
TREE: dict[str, Any] = {
    "$defs": {
        "node": {
            "properties": {
                "children": {"type": "object", "additionalProperties": {"type": "object", "$ref": "#/$defs/node"}}
            }
        }
    },
    "type": "object",
    "$ref": "#/$defs/node",
}

CASES: list[tuple[Any, list[str], list[str]]] = [
    # What is required beside a oneOf, or in another part of an option, tells its options apart.
    ({"type": "object", "required": ["kind"], "oneOf": [kind("a", x={"type": "string"}), kind("b")]},
     ['{"kind": "a", "x": "1"}', '{"kind": "b"}'], ['{"kind": "c"}', '{"x": "1"}', '{"kind": "a", "x": 1}']),
    ({"oneOf": [{"allOf": [{"type": "object", "required": ["kind"]}, kind(name)]} for name in "ab"]},
     ['{"kind": "a"}', '{"kind": "b"}'], ["{}", "[]"]),
    # An option excludes the others by what only they require, where their opposites cannot be written.
    ({"$defs": {"q": {"oneOf": [{"type": "object", "properties": {name: {"$ref": "#/$defs/q"}}, "required": [name]}
                                for name in "ab"] + [{"type": "object", "properties": {"c": {"pattern": "^x"}},
                                                      "required": ["c"]}]}}, "$ref": "#/$defs/q"},
     ['{"c": "x"}', '{"a": {"b": {"c": "xy"}}}'], ['{"c": "y"}', "{}", '{"a": {"c": "x"}, "b": {"c": "x"}}']),
    ({"properties": {"x": {"type": "string", "oneOf": [{"format": "date"}, {"format": "date-time"}]}}},
     ['{"x": "2024-02-29"}', '{"x": "2024-02-29T12:30:00Z"}'], ['{"x": "12:30:00Z"}']),
    # Conditions on one property, and on which properties there are.
    (CONDITIONS, ['{"kind": "kind11", "size": 11}', '{"kind": "other"}', '{"kind": "kind0", "size": 0}'],
     ['{"kind": "kind11", "size": 10}', '{"kind": "kind3"}']),
    (NEEDS, ['{"a": 1}', '{"b": 1}'], ["{}", '{"a": 1, "b": 1}', '{"b": 1, "c": 1}', '{"d": 1}']),
    # Names.
    ({"patternProperties": {"^a": {"type": "integer"}, "b$": {"maximum": 3}}, "additionalProperties": False},
     ['{"a": 9, "ab": 3, "b": 1}'], ['{"ab": 4}', '{"ab": 2.5}', '{"c": 1}']),
    ({"patternProperties": {".*": {"type": "integer"}, "^x": {"type": "integer"}}},
     ['{"x": 1, "y": 2}'], ['{"y": "1"}']),
    ({"patternProperties": {"^(?!@@)[@a-z]+$": {"type": "null"}}, "additionalProperties": False},
     ['{"@a": null}'], ['{"@@a": null}', '{"A": null}']),
    ({"properties": {"aa": {"type": "null"}, "b": True}, "patternProperties": {"": {"type": ["null", "integer"]}},
      "propertyNames": {"pattern": "^a", "maxLength": 3}}, ['{"aa": null, "abc": 1}', "{}"],
     ['{"b": 1}', '{"aa": 1}', '{"abc": "1"}', '{"abcd": 1}']),
    ({"propertyNames": {"allOf": [{"pattern": "^[a-z]*$"}, {"not": {"enum": ["if", "or"]}}]}},
     ['{"iff": 1}'], ['{"if": 1}', '{"A": 1}']),
    ({"properties": {"a": {"type": "integer"}}, "propertyNames": {"enum": ["a", "b"]},
      "additionalProperties": {"type": "null"}}, ['{"a": 1, "b": null}'], ['{"b": 1}', '{"c": null}']),
    # References beside other keywords in a schema that contains itself.
    (TREE, ['{"children": {"x": {"children": {"y": {}}}}}'], ['{"children": {"x": {"children": {"y": 1}}}}']),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "valid", "invalid"), CASES)
def test_they_take_what_is_valid_and_nothing_else(schema: Any, valid: list[str], invalid: list[str]) -> None:
    matcher = compiled(tried(schema)[0])
    assert [text for text in valid if not accepts(matcher, text)] == []
    assert [text for text in invalid if accepts(matcher, text)] == []
    check(schema, 3, 1)


NEVER: list[tuple[Any, str]] = [
    ({"type": "object", "enum": ["YES", "NO"]}, ".enum"),
    ({"type": "string", "minLength": 3, "maxLength": 2}, ".minLength"),
    ({"type": "array", "minItems": 3, "maxItems": 2}, ".minItems"),
    ({"type": "integer", "minimum": 3, "maximum": 2}, ".minimum"),
    ({"type": "object", "properties": {"a": True}, "additionalProperties": False, "required": ["b"]}, ".required"),
    ({"oneOf": [{"type": "string"}, {"type": "string"}]}, ".oneOf"),
]


@pytest.mark.parametrize(("part", "path"), NEVER)
def test_a_part_that_no_document_matches_is_noted_and_never_written(part: Any, path: str) -> None:
    grammar, notes = tried({"type": "object", "properties": {"x": part, "y": {"type": "null"}}})
    assert notes == (f"never-valid: f.properties.x{path}",)
    matcher = compiled(grammar)
    assert accepts(matcher, '{"y": null}')
    assert not accepts(matcher, '{"x": "YES"}')
    for whole in (part, {"type": "object", "properties": {"x": part}, "required": ["x"]}, {"anyOf": [part]}):
        with pytest.raises(InvalidParameter) as refusal:
            tried(whole)
        assert str(refusal.value.param).startswith("f")


def test_a_definition_that_no_document_matches_does_not_refuse_the_others() -> None:
    schema = {
        "$defs": {"never": {"type": "object", "required": ["a"], "allOf": [{"properties": {"a": {"type": "string"}}},
                                                                           {"properties": {"a": {"type": "null"}}}]}},
        "properties": {"x": {"$ref": "#/$defs/never"}, "y": {"type": "null"}},
    }  # fmt: skip
    grammar, notes = tried(schema)
    assert notes == ("never-valid: f.$defs.never",)
    assert accepts(compiled(grammar), '{"y": null}')


def test_an_alternative_that_cannot_be_expressed_is_never_taken() -> None:
    grammar, notes = tried({"anyOf": [{"type": "string", "pattern": "\\bx"}, {"type": "integer"}]})
    assert notes == ("anyOf-narrowed: f.anyOf[0]",)
    assert accepts(compiled(grammar), "1")


def test_of_too_many_combinations_some_are_taken() -> None:
    parts = [
        {"anyOf": [{"required": [f"{first}{second}"], "properties": {f"{first}{second}": {"minimum": second}}}
                   for second in range(6)]}
        for first in "abcdefg"
    ]  # fmt: skip
    schema = {"type": "object", "allOf": parts}
    grammar, notes = tried(schema)
    assert notes == ("cases-narrowed: f",)
    matcher, validator = compiled(grammar), validator_of(schema)
    assert accepts(matcher, json.dumps({f"{first}0": 0 for first in "abcdefg"}))
    for seed in range(3):
        text = document(matcher, random.Random(seed))
        assert text is None or not [*validator.iter_errors(exact(text))], text


def test_bounds_beyond_what_a_double_counts_are_moved_inward() -> None:
    matcher = compiled(tried({"type": "number", "minimum": 0, "maximum": 2**63})[0])
    assert accepts(matcher, "5")
    assert not accepts(matcher, "-1")
