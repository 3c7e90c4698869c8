"""What llguidance refuses without saying where is found by trying, and named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from llguidance import LLMatcher

from localllm.grammar.schema.blame import MAX_TRIES, culprit
from localllm.types.structures import Structure
from tests.nonsense import TOKENIZER


def compiles(grammar: str) -> bool:
    return not LLMatcher(TOKENIZER, grammar, log_level=0).is_error()


def found(schema: Any) -> str:
    return culprit(Structure(kind="json_schema", source=json.dumps(schema), param="schema"), compiles)


OVERLAPPING = {"type": "object", "patternProperties": {"^[ab]*a[ab]{12}$": {"type": "null"}, "b$": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        (OVERLAPPING, "schema.patternProperties"),
        (
            {"properties": {"deep": {"items": OVERLAPPING}, "fine": True}},
            "schema.properties.deep.items.patternProperties",
        ),
        ({"anyOf": [True, {"$ref": "#/$defs/x"}], "$defs": {"x": OVERLAPPING}}, "schema.$defs.x.patternProperties"),
        (
            {"type": "array", "items": {"type": "string", "pattern": "^a", "enum": ["b", "c"]}, "minItems": 1},
            "schema.items.pattern",
        ),
        ({"type": "object", "properties": {"ok": True}}, "schema"),
    ],
)
def test_the_keyword_at_fault_is_found(schema: Any, path: str) -> None:
    assert found(schema) == path


def test_the_search_ends_in_large_and_recursive_schemas() -> None:
    many = {"anyOf": [{"type": "object", "properties": {"self": {"$ref": "#"}, f"p{n}": True}} for n in range(400)]}
    tries = 0

    def never(grammar: str) -> bool:
        nonlocal tries
        tries += 1
        return False

    assert culprit(Structure(kind="json_schema", source=json.dumps(many), param="schema"), never).startswith(
        "schema.anyOf[0]"
    )
    assert tries <= MAX_TRIES


def test_other_kinds_are_named_as_a_whole() -> None:
    assert culprit(Structure(kind="regex", source="(", param="guided_regex"), compiles) == "guided_regex"
