"""Documents never repeat what must be distinct, whatever a model wants, and however its tokens run over the seams."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.engine.constraint.constraint import ConstraintFailed
from localllm.engine.constraint.distinct import DistinctTracker
from localllm.engine.constraint.distinctness import Distinctness, TokenBytes
from localllm.engine.constraint.matcher import MatcherConstraint
from localllm.grammar.compose import composed
from localllm.types.structures import Structure
from tests.nonsense import END, TOKENS, compiled

TOKEN_BYTES = TokenBytes(len(TOKENS), lambda token: b"" if token == END else TOKENS[token], [END])


def constraint(schema: Any) -> MatcherConstraint:
    found = composed(Structure(kind="json_schema", source=json.dumps(schema), whitespace="minimal"))
    assert found.checks
    tracker = DistinctTracker(json.loads(found.checks))
    distinctness = Distinctness(tracker, TOKEN_BYTES, (len(TOKENS) + 31) // 32 * 4)
    return MatcherConstraint(
        compiled(found.grammar), num_tokens=len(TOKENS), end_tokens=[END], distinctness=distinctness
    )


def tokens_of(one: MatcherConstraint, rng: random.Random, most: int = 150) -> Iterator[int]:
    """Drawn freely as long as the constraint allows the draw, and otherwise with its mask, as the engine does."""
    for _ in range(most):
        if one.forced:
            token = one.forced[0]
        else:
            bits = np.unpackbits(one.masks((), 1)[0].view(np.uint8), bitorder="little")[: len(TOKENS)]
            token = rng.randrange(len(TOKENS))
            if rng.random() < 0.5 or not one.allows(token, 0):
                choice = np.flatnonzero(bits).tolist()
                closing = [each for each in choice if each == END or TOKENS[each] in (b'"', b"}", b"]", b",")]
                token = rng.choice(closing if closing and rng.random() < 0.6 else choice)
            else:
                assert bits[token]
        if token == END:
            return
        one.take(token)
        yield token
        if one.is_complete:
            return


def pairs_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), f"a name comes twice: {pairs}"
    return dict(pairs)


def is_distinct(items: list[Any]) -> bool:
    return all(json.dumps(one) != json.dumps(other) for at, one in enumerate(items) for other in items[:at])


COLOURS = {"enum": ["red", "redder", "green", 3]}
POINT = {"properties": {"x": {"enum": [0, 1]}}, "required": ["x"], "type": "object"}
SCHEMAS: list[Any] = [
    {"type": "array", "items": {"type": "string", "maxLength": 1}, "uniqueItems": True},
    {"type": "array", "items": COLOURS, "uniqueItems": True, "minItems": 3},
    {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 12}, "uniqueItems": True},
    {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True},
    {"type": "array", "items": POINT, "uniqueItems": True},
    {"type": "array", "items": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2}, "uniqueItems": True},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_items_are_distinct_and_no_choice_of_few_values_ends_in_a_dead_end(schema: Any) -> None:
    num_ended = 0
    for seed in range(12):
        one = constraint(schema)
        text = b"".join(TOKENS[token] for token in tokens_of(one, random.Random(seed)))
        try:
            found = json.loads(text)
        except ValueError:
            continue
        num_ended += 1
        assert is_distinct(found), text
        assert len(found) >= schema.get("minItems", 0)
    assert num_ended > 6


def test_names_are_distinct_so_that_they_can_be_counted() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "null"}, "minProperties": 4, "maxProperties": 6}
    num_ended = 0
    for seed in range(12):
        text = b"".join(TOKENS[token] for token in tokens_of(constraint(schema), random.Random(seed)))
        if text.endswith(b"null}"):
            assert 4 <= len(json.loads(text, object_pairs_hook=pairs_once)) <= 6
            num_ended += 1
    assert num_ended > 6


def test_only_items_of_marked_arrays_must_be_distinct() -> None:
    schema = {"properties": {"a": {"type": "array", "uniqueItems": True}, "b": {"type": "array"}}, "type": "object"}
    tracker = DistinctTracker(json.loads(composed(Structure.json(schema)).checks))
    assert tracker.allows(b'{"a": [1, "x", [1, 1], {"k": 1}], "b": [1, 1]}')
    for repeated in (b"1, 1.0,", b'"x", "x"', b"[1], [1]", b'{"k": 1, "l": 2}, {"l": 2, "k": 1}', b"true, true]"):
        assert not tracker.allows(b'{"b": [1, 1], "a": [' + repeated), repeated
    assert tracker.allows(b'{"a": [1, true, "1", null, 10')


def test_where_nothing_else_can_come_the_request_fails_by_name() -> None:
    one = constraint({"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True, "minItems": 3})
    with pytest.raises(ConstraintFailed, match="uniqueItems"):
        for _ in tokens_of(one, random.Random(1)):
            pass


DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text('ab"\\é', max_size=2),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=12,
)


@given(DOCUMENTS, st.lists(st.integers(1, 9), max_size=30))
def test_a_document_is_followed_alike_at_every_split(document: Any, sizes: list[int]) -> None:
    schema = {"type": "array", "uniqueItems": True}
    text = json.dumps(document, ensure_ascii=False).encode()
    whole, split = DistinctTracker(schema), DistinctTracker(schema)
    expected, at = whole.allows(text), 0
    assert expected is (not isinstance(document, list) or is_distinct(document))
    if expected:
        for size in sizes:
            assert split.feed(text[at : at + size])
            at += size
        assert split.feed(text[at:])


def test_what_comes_before_the_document_is_skipped() -> None:
    schema = {"type": "array", "uniqueItems": True}
    for before in (b"", b'<think>[1, 1] "a" </think>\n\n'):
        for size in (1, 3, 100):
            tracker = DistinctTracker(schema, skipped=(b"<think>", b"</think>"))
            text = before + b"[1, 2"
            assert all(tracker.feed(text[at : at + size]) for at in range(0, len(text), size))
            assert not tracker.allows(b", 1,")
            assert tracker.allows(b", 3]")
