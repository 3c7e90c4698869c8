"""A document that its limit would cut off is closed before, and is a document of its schema."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localllm.engine.constraint.closing import Closing, ClosingTokens
from localllm.engine.constraint.distinct import DistinctTracker
from localllm.engine.constraint.distinctness import Distinctness
from localllm.engine.constraint.matcher import MatcherConstraint
from localllm.grammar.compose import ComposedGrammar, composed
from localllm.types.structures import Structure
from tests.nonsense import END, TOKENS, compiled
from tests.schemas import Schema, corpus
from tests.unit.engine.test_distinct import TOKEN_BYTES, pairs_once

MASK_BYTES = (len(TOKENS) + 31) // 32 * 4
CLOSING = ClosingTokens(len(TOKENS), TOKENS.__getitem__, [END])
_ADDRESS = {
    "type": "object",
    "properties": {"street": {"type": "string"}, "zip": {"type": "string", "pattern": "^[0-9]{5}$"}},
    "required": ["street", "zip"],
}
SCHEMAS: dict[str, Any] = {
    "free": {"type": "object"},
    "nested": {
        "type": "object",
        "properties": {
            "title": {"type": "string", "minLength": 3},
            "born": {"type": "string", "format": "date"},
            "homes": {"type": "array", "items": _ADDRESS, "uniqueItems": True},
        },
        "required": ["title", "born", "homes"],
    },
    "distinct": {"type": "array", "items": {"enum": ["a", "b", "c", "ab"]}, "uniqueItems": True, "minItems": 4},
    "recursive": {
        "$defs": {"tree": {"type": "object", "properties": {"v": {"type": "number"}, "of": {"$ref": "#/$defs/tree"}}}},
        "type": "array",
        "items": {"$ref": "#/$defs/tree"},
        "minItems": 1,
    },
}


HARD = ("multipleOf", "regex")
"""`jsonschema` divides doubles; and an end may need any brackets."""
CORPUS = [schema for schema in corpus() if not any(word in json.dumps(schema) for word in HARD)]


def grammar_of(schema: Schema) -> ComposedGrammar:
    return composed(Structure(kind="json_schema", source=json.dumps(schema)))


def closing_of(found: ComposedGrammar) -> tuple[Closing, Distinctness | None]:
    distinctness = None
    if found.checks:
        distinctness = Distinctness(DistinctTracker(json.loads(found.checks)), TOKEN_BYTES, MASK_BYTES)
    words = [word.encode() for word in found.outline.words]
    return Closing(CLOSING, MASK_BYTES, distinctness, part=found.outline.part_bytes, words=words), distinctness


def written(schema: Schema, rng: random.Random, limit: int) -> tuple[str, MatcherConstraint]:
    found = grammar_of(schema)
    closing, distinctness = closing_of(found)
    one = MatcherConstraint(
        compiled(found.grammar), num_tokens=len(TOKENS), end_tokens=[END], distinctness=distinctness, closing=closing
    )
    text = b""
    for left in range(limit, 0, -1):
        token = one.forced[0] if one.forced else END
        if token == END:
            mask = one.masks((), 1)[0]
            allowed = [each for each in range(len(TOKENS)) if each != END and mask[each // 32] >> each % 32 & 1]
            if not allowed:
                break
            token = rng.choice(allowed)
        token = one.in_time(token, left)
        one.take(token)
        text += TOKENS[token]
        if one.is_complete:
            break
    return text.decode(), one


@pytest.mark.parametrize("name", SCHEMAS)
def test_whatever_a_model_wants_its_document_is_whole_at_the_limit(name: str) -> None:
    num_closed = 0
    for seed in range(5):
        text, one = written(SCHEMAS[name], random.Random(seed), 80 + 20 * seed)
        assert one.is_complete, text
        document = json.loads(text, object_pairs_hook=pairs_once)
        jsonschema.validate(document, SCHEMAS[name], format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        num_closed += one.is_cut
    assert num_closed or name not in ("free", "nested")


def test_a_text_goes_on_as_long_as_it_can_and_what_has_no_end_in_time_is_cut_off() -> None:
    text, one = written({"type": "object", "properties": {"t": {"type": "string"}}, "required": ["t"]}, Chatty(), 60)
    assert (one.is_cut, json.loads(text)["t"].strip("x"), len(text) > 55) == (True, "", True)
    text, one = written({"type": "string", "minLength": 900}, Chatty(), 60)
    assert (one.is_cut, one.is_complete, len(text) >= 60) == (False, False, True)


@settings(max_examples=40)
@given(st.sampled_from(CORPUS), st.integers(0, 40), st.randoms(use_true_random=False))
def test_any_document_is_whole_at_any_limit_for_which_its_shortest_end_was_found(
    schema: Schema, more: int, rng: random.Random
) -> None:
    found = grammar_of(schema)
    end = closing_of(found)[0].instead(compiled(found.grammar), 400)
    assert end is not None
    text, one = written(schema, rng, len(end) + more)
    assert one.is_complete or one.masks((), 1)[0][END // 32] >> END % 32 & 1
    document = json.loads(text, object_pairs_hook=pairs_once)
    jsonschema.validate(document, schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


ZOD = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"
"""Of the library zod, for email addresses."""


@pytest.mark.parametrize(
    "pattern",
    [
        r"\.json$",
        "^.*(foo|bar).*$",
        "^[0-9a-f]{8}-[0-9a-f]{30}$",
        "^[^/]+/[^@]+@.+$",
        ZOD,
        r"\d{4}-\d{2}T\d{2}.\d{4}",
        "1.2",
    ],
)
def test_a_text_gets_what_its_pattern_asks_for(pattern: str) -> None:
    text, one = written({"type": "string", "pattern": pattern}, Chatty(), 70)
    assert one.is_complete
    jsonschema.validate(json.loads(text), {"pattern": pattern})


def test_a_name_gets_what_its_pattern_asks_for() -> None:
    schema = {
        "type": "object",
        "patternProperties": {"^a": {"type": "integer"}, "b$": {"type": "null"}},
        "additionalProperties": False,
        "minProperties": 1,
    }
    text, one = written(schema, Chatty(), 60)
    assert one.is_complete
    jsonschema.validate(json.loads(text), schema)


def test_far_from_its_limit_no_end_is_looked_for() -> None:
    schema = {"type": "array", "items": SCHEMAS["nested"]}
    closing, _ = closing_of(grammar_of(schema))
    for token in b'[{"title": "abc", "born": "2020-01-01", "homes": [{"street": "x", "zip": "12345"}, {':
        assert not closing.is_due(token, 1000)
        closing.feed(token)
    assert closing.is_due(b","[0], 60)


class Chatty(random.Random):
    """Wants to write x without end."""

    def choice(self, seq: Any) -> Any:
        return b"x"[0] if b"x"[0] in seq else seq[0]
