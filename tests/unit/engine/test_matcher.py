"""Grammars of llguidance as constraints, over a vocabulary of letters and a few words."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from localllm.engine.constraint.constraint import ConstraintFailed
from localllm.engine.constraint.matcher import MatcherConstraint
from localllm.engine.sampling.parameters import Mask
from tests.later import jsonschema

END = 0
LETTERS = [bytes([31 + token]) for token in range(1, 96)]
WORDS = [b'{"', b'":', b'":"', b'","', b'"}', b"name", b"na", b"ame", b"tr", b"rue", b"true", b'name"', b"12", b"false"]
VOCABULARY = [b"\xff<end>", *LETTERS, *WORDS]
BY_BYTES = {text: token for token, text in enumerate(VOCABULARY)}


class Words:
    """Greedy: the longest word first, as no merge could do better here."""

    eos_token_id = END
    bos_token_id = None
    tokens = VOCABULARY
    special_token_ids = (END,)

    def __call__(self, text: Any) -> list[int]:
        rest, tokens = text if isinstance(text, bytes) else text.encode(), []
        while rest:
            word = next(rest[:length] for length in range(8, 0, -1) if rest[:length] in BY_BYTES)
            tokens.append(BY_BYTES[word])
            rest = rest[len(word) :]
        return tokens


TOKENIZER = LLTokenizer(TokenizerWrapper(Words()), n_vocab=len(VOCABULARY), eos_token=[END], slices=[])


def matcher(schema: Any, **limits: Any) -> LLMatcher:
    grammar = LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_flexible": False})
    return LLMatcher(TOKENIZER, grammar, log_level=0, limits=LLParserLimits(verbose_errors=False, **limits))


def constraint(schema: Any, **how: Any) -> MatcherConstraint:
    return MatcherConstraint(matcher(schema), num_tokens=len(VOCABULARY), end_tokens=[END], **how)


def allowed(mask: Mask) -> list[int]:
    return [int(token) for token in np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))]


def text_of(tokens: list[int]) -> str:
    return b"".join(VOCABULARY[token] for token in tokens).decode()


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 3}, "true": {"type": "boolean"}},
    "required": ["name", "true"],
    "additionalProperties": False,
}
SCHEMAS: list[Any] = [
    PERSON,
    {"enum": ["name", "names", "naive", 12, 123]},
    {"type": "array", "items": {"anyOf": [{"type": "boolean"}, {"const": "name"}]}, "maxItems": 3},
    {"const": {"name": "false true", "true": [12, 12]}},
    {"type": "integer", "minimum": 11, "maximum": 129},
]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SCHEMAS), st.integers(0, 10_000), st.booleans())
def test_a_walk_through_the_masks_is_a_document_with_and_without_forced_tokens(
    schema: Any, seed: int, logs_rows: bool
) -> None:
    """Forced tokens are all that the masks allow at their places, whoever asks for how many rows."""
    chance = random.Random(seed)
    one, other = constraint(schema), constraint(schema)
    tokens: list[int] = []
    while not one.is_complete:
        forced = list(one.forced)
        assert list(other.forced) == forced
        rows = one.masks(forced, len(forced) + 1)
        assert [allowed(row) for row in rows[:-1]] == [[token] for token in forced]
        last = allowed(rows[-1])
        assert last == allowed(one.masks(forced, 1)[0])
        assert last, "something can come"
        assert one.num_allowed([*forced, 1, 1]) >= len(forced)
        if ends := one.ends_forced:
            assert last == [END]
        for token in forced:
            assert other.masks((), 1)[0][token // 32] == 1 << token % 32
            one.take(token)
            other.take(token)
            tokens.append(token)
        if ends:
            break
        token = chance.choice(last)
        if token == END:
            break
        one.take(token)
        other.take(token)
        tokens.append(token)
    jsonschema.validate(json.loads(text_of(tokens)), schema)
    assert one.is_complete == other.is_complete


COUNTED = (
    'start: "na" body "!x"\nbody[max_tokens=5]: /(?s:.*)/',
    'start: "na" body " end"\nbody[stop=/[ ,.]/]: /(?s:.*)/',
    'start: body "X"\nbody[stop="e", max_tokens=8]: /[a-z ]*/',
)


@pytest.mark.parametrize("rule", COUNTED)
def test_draws_and_rows_that_come_to_nothing_count_for_no_rule_with_a_limit(rule: str) -> None:
    """llguidance gives up no token of such a grammar."""
    grammar = json.dumps({"grammars": [{"name": "document", "lark_grammar": rule}]})
    fresh = LLMatcher(TOKENIZER, grammar, log_level=0)
    for seed in range(20):
        chance = random.Random(seed)
        disturbed, calm = (
            MatcherConstraint(fresh.deep_copy(), num_tokens=len(VOCABULARY), end_tokens=[END], can_roll_back=False)
            for _ in range(2)
        )
        while not calm.is_complete:
            ahead = [chance.randrange(1, len(VOCABULARY)) for _ in range(3)]
            for token in ahead:
                disturbed.allows(token, len(disturbed.forced))
            disturbed.num_allowed([*disturbed.forced, *ahead])
            disturbed.masks([*disturbed.forced, *ahead], 2)
            assert list(disturbed.forced) == list(calm.forced)
            choice = allowed(calm.masks((), 1)[0])
            assert allowed(disturbed.masks((), 1)[0]) == choice
            token = chance.choice(choice)
            if token == END:
                break
            assert disturbed.allows(token, 0)
            disturbed.take(token)
            calm.take(token)


def test_forced_tokens_are_those_of_the_tokenizer() -> None:
    """Up to where what follows could change them: an empty string's quotes may be in one token with what follows."""
    person = constraint(PERSON)
    assert list(person.forced) == Words()('{"name":')
    for token in person.forced:
        person.take(token)
    assert not person.forced
    assert {VOCABULARY[token] for token in allowed(person.masks((), 1)[0])} == {b'"', b'":', b'":"', b'","', b'"}'}
    for token in Words()('"abc'):
        person.take(token)
    assert text_of([*person.forced]) == '","true":'
    assert list(person.forced) == Words()('","true":')
    for token in person.forced:
        person.take(token)
    person.take(BY_BYTES[b"true"])
    assert text_of([*person.forced]) == "}"
    assert person.ends_forced
    assert not person.is_complete
    person.take(person.forced[0])
    assert person.is_complete


def test_guesses_are_cut_where_they_are_not_allowed() -> None:
    person = constraint(PERSON)
    right = Words()('{"name":"ab","true":true}')
    assert person.num_allowed(right) == len(right)
    assert person.num_allowed([*right[:-1], END]) == len(right) - 1
    assert person.num_allowed([BY_BYTES[b"n"]]) == 0
    assert person.num_allowed(right[:2]) == 2
    masks = [mask.copy() for mask in person.masks(right[:-1], len(right))]
    for mask, token in zip(masks, right, strict=True):
        assert token in allowed(mask)
        np.testing.assert_array_equal(mask, person.masks((), 1)[0])
        person.take(token)
    assert person.is_complete


def test_rows_behind_tokens_that_may_not_come_spoil_nothing() -> None:
    person = constraint(PERSON)
    forced = list(person.forced)
    person.masks([*forced, BY_BYTES[b"{"], BY_BYTES[b'"']], 1)
    person.masks([*forced, *Words()('"ab'), END, END, 5], 3)
    for token in [*forced, *Words()('"ab')]:
        person.take(token)
    assert BY_BYTES[b"c"] in allowed(person.masks((), 1)[0])


def test_rows_of_logits_may_be_longer_than_the_vocabulary() -> None:
    long = constraint({"type": "boolean"}, row_length=500)
    mask = long.masks((), 1)[0]
    assert len(mask) == 16
    assert all(VOCABULARY[token][:1] in (b"t", b"f") for token in allowed(mask))


def test_an_end_token_is_allowed_only_where_the_text_may_end() -> None:
    number = constraint({"type": "integer", "minimum": 11, "maximum": 129})
    assert END not in allowed(number.masks((), 1)[0])
    number.take(BY_BYTES[b"12"])
    assert END in allowed(number.masks((), 1)[0])
    assert not number.is_complete
    number.take(BY_BYTES[b"9"])
    assert number.is_complete


@pytest.mark.parametrize("schema", [{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, {"enum": []}])
def test_what_no_text_can_follow_is_refused_at_once(schema: Any) -> None:
    with pytest.raises(ConstraintFailed, match="its grammar"):
        constraint(schema)


def test_a_failure_says_nothing_of_the_grammar() -> None:
    hostile = {"type": "string", "pattern": "^(.*a.{20,40})+$"}
    limited = MatcherConstraint(
        matcher(hostile, max_lexer_states=60), num_tokens=len(VOCABULARY), end_tokens=[END], param="response_format"
    )
    for token in Words()('"aaaaa'):
        limited.take(token)

    def go_on() -> None:
        for _ in range(500):
            limited.take(BY_BYTES[b"a"])
            limited.masks((), 1)

    with pytest.raises(ConstraintFailed) as failure:
        go_on()
    assert str(failure.value) == "its grammar takes more work for a token than the limits allow; simplify it"
    person = constraint(PERSON)
    with pytest.raises(ConstraintFailed, match="a token came that its grammar does not allow"):
        person.take(BY_BYTES[b"z"])


def test_many_rows_make_no_grammar_a_slow_one() -> None:
    """What a mask costs is what the dearest row took, not all of them together: each takes 3 ms here."""
    now_s = 0.0

    class Slow:
        def __init__(self) -> None:
            self._matcher = matcher({"type": "string", "maxLength": 60})

        def __getattr__(self, name: str) -> Any:
            return getattr(self._matcher, name)

        def unsafe_compute_mask_ptr(self, pointer: int, size: int) -> None:
            nonlocal now_s
            now_s += 0.003
            self._matcher.unsafe_compute_mask_ptr(pointer, size)

    slow: Any = Slow()
    one = MatcherConstraint(slow, num_tokens=len(VOCABULARY), end_tokens=[END], clock=lambda: now_s)
    one.masks([BY_BYTES[b'"'], *[BY_BYTES[b"a"]] * 30], 20)
    assert now_s > 0.05
    assert one.cost_s == pytest.approx(0.003)
