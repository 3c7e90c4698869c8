"""Every document of a grammar validates under its schema, and what cannot be kept of a schema is refused by name.

The documents are those of a model that wants nonsense (`tests/nonsense.py`); who validates is the package `jsonschema`,
Draft 2020-12 with formats asserted. Numbers are read as decimals: as doubles, 0.3 is no multiple of 0.1.
"""

from __future__ import annotations

import decimal
import itertools
import json
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher

from localllm.errors import InvalidParameter
from localllm.grammar.compose import composed, grammar_of
from localllm.types.structures import Structure
from tests import schemas
from tests.later import jsonschema
from tests.nonsense import accepts, compiled, document
from tests.schema_cases import CASES

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

CORPUS = [*schemas.corpus(), *schemas.OLDER, *CASES]


def matcher_of(schema: Any, **how: Any) -> LLMatcher:
    return compiled(grammar_of(Structure(kind="json_schema", source=json.dumps(schema), **how)))


def exact(text: str) -> Any:
    """With decimals, but for exponents beyond theirs, which nonsense has."""

    def number(written: str) -> Decimal | float:
        return Decimal(written) if len(written.lower().partition("e")[2]) < 6 else float(written)

    return json.loads(text, parse_float=number)


def validator_of(schema: Any) -> Validator:
    newest = jsonschema.Draft202012Validator
    of_draft = jsonschema.validators.validator_for(schema, default=newest)
    checked: Validator = of_draft(exact(json.dumps(schema)), format_checker=newest.FORMAT_CHECKER)
    return checked


def check(schema: Any, num_documents: int, seed: int) -> int:
    """How many documents of it ended, each of which is valid."""
    matcher, validator, rng = matcher_of(schema), validator_of(schema), random.Random(seed)
    ended = 0
    with decimal.localcontext(prec=2000):
        for _ in range(num_documents):
            text = document(matcher, rng)
            if text is not None:
                errors = list(validator.iter_errors(exact(text)))
                assert not errors, f"{json.dumps(schema)[:500]}\nallowed {text[:500]}\n{errors[0].message[:200]}"
                ended += 1
    return ended


def test_the_corpus_is_large_and_has_no_schema_twice() -> None:
    assert len({json.dumps(schema) for schema in CORPUS}) == len(CORPUS) >= 400


def test_documents_of_the_corpus_validate() -> None:
    ended = sum(check(schema, 1, seed) for seed, schema in enumerate(CORPUS))
    assert ended > 0.9 * len(CORPUS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(8))
def test_many_documents_of_the_corpus_validate(seed: int) -> None:
    assert sum(check(schema, 10, seed) for schema in CORPUS[seed::8]) > 0.9 * 10 * len(CORPUS[seed::8])


NAMES = st.sampled_from(["a", "b", "name", "", "é", "日本", 'say "x"', "a/b", "x y", "😀", "\n"])
TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\x7f"), max_size=6)
INTEGERS = st.integers(-(10**9), 10**9)


@st.composite
def pairs(draw: st.DrawFn, depth: int = 3) -> tuple[Any, Any]:
    """A schema and a document that is valid under it, its properties in the order of the schema."""
    value: Any
    kinds = ["null", "boolean", "integer", "number", "string", "enum", "const", "pattern", "any"]
    kind = draw(
        st.sampled_from([*kinds, "object", "array", "tuple", "anyOf", "allOf", "ref", "map"] if depth else kinds)
    )
    deeper = pairs(depth=depth - 1)
    match kind:
        case "null":
            return {"type": "null"}, None
        case "boolean":
            return {"type": "boolean"}, draw(st.booleans())
        case "integer":
            value, below, above = draw(INTEGERS), draw(st.integers(0, 10**6)), draw(st.integers(0, 10**6))
            bounds = {"minimum": value - below, "maximum": value + above, "exclusiveMaximum": value + above + 1}
            chosen = draw(st.lists(st.sampled_from(sorted(bounds)), unique=True))
            return {"type": "integer"} | {name: bounds[name] for name in chosen}, value
        case "number":
            value = draw(st.integers(-(10**6), 10**6)) / 1000
            around = {"minimum": value - 1, "exclusiveMaximum": value + 0.5, "exclusiveMinimum": value - 0.25}
            chosen = draw(st.lists(st.sampled_from(sorted(around)), unique=True))
            return {"type": "number"} | {name: around[name] for name in chosen}, value
        case "string":
            value = draw(TEXTS)
            bounds = {"minLength": max(0, len(value) - 1), "maxLength": len(value) + draw(st.integers(0, 3))}
            chosen = draw(st.lists(st.sampled_from(sorted(bounds)), unique=True))
            return {"type": "string"} | {name: bounds[name] for name in chosen}, value
        case "pattern":
            return {"type": "string", "pattern": r"^[a-z]{2,}-\d+$"}, draw(
                st.from_regex(r"[a-z]{2,5}-[0-9]{1,3}", fullmatch=True)
            )
        case "enum":
            values = draw(st.lists(st.one_of(st.none(), st.booleans(), INTEGERS, TEXTS), min_size=1, max_size=5))
            return {"enum": values}, draw(st.sampled_from(values))
        case "const":
            value = draw(
                st.recursive(
                    st.none() | INTEGERS | TEXTS,
                    lambda one: st.lists(one, max_size=3) | st.dictionaries(NAMES, one, max_size=3),
                    max_leaves=4,
                )
            )
            return {"const": value}, value
        case "any":
            return draw(st.sampled_from([True, {}])), draw(
                st.one_of(st.none(), INTEGERS, TEXTS, st.lists(INTEGERS, max_size=2))
            )
        case "object":
            members = draw(st.dictionaries(NAMES, deeper, max_size=4))
            required = [name for name in members if draw(st.booleans())]
            given_ = {name: one[1] for name, one in members.items() if name in required or draw(st.booleans())}
            schema: Any = {
                "type": "object",
                "properties": {name: one[0] for name, one in members.items()},
                "required": required,
            }
            return schema | ({"additionalProperties": False} if draw(st.booleans()) else {}), given_
        case "map":
            inner, value = draw(deeper)
            return {"type": "object", "additionalProperties": inner}, dict.fromkeys(
                draw(st.lists(NAMES, unique=True, max_size=2)), value
            )
        case "array":
            inner, value = draw(deeper)
            count = draw(st.integers(0, 3))
            return {"type": "array", "items": inner, "minItems": max(0, count - 1), "maxItems": count + 1}, [
                value
            ] * count
        case "tuple":
            items = draw(st.lists(deeper, max_size=3))
            return {"type": "array", "prefixItems": [one[0] for one in items], "items": False}, [
                one[1] for one in items
            ]
        case "anyOf":
            options = draw(st.lists(deeper, min_size=1, max_size=3))
            return {"anyOf": [one[0] for one in options]}, draw(st.sampled_from([one[1] for one in options]))
        case "allOf":
            inner, value = draw(deeper)
            return {"allOf": [inner, True, {"title": "t"}]}, value
        case _:
            inner, value = draw(deeper)
            return {"$defs": {"inner": inner}, "$ref": "#/$defs/inner"}, value


def lifted(schema: Any, found: dict[str, Any]) -> Any:
    """With all `$defs` at the root, where pointers look for them, each under a name of its own."""
    if isinstance(schema, list):
        return [lifted(one, found) for one in schema]
    if not isinstance(schema, dict) or "const" in schema or "enum" in schema:
        return schema
    if "$ref" in schema and "$defs" in schema:
        name = f"n{len(found)}"
        found[name] = True  # taken
        found[name] = lifted(schema["$defs"]["inner"], found)
        return {"$ref": f"#/$defs/{name}"}
    return {name: lifted(one, found) for name, one in schema.items()}


@settings(max_examples=100)
@given(pairs(), st.integers(0, 2**32))
@example(({"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": 1}), 0)
def test_a_drawn_schema_takes_its_instance_and_allows_only_valid_documents(pair: tuple[Any, Any], seed: int) -> None:
    definitions: dict[str, Any] = {}
    schema = lifted(pair[0], definitions)
    if definitions:
        schema = (
            {"allOf": [schema]} | {"$defs": definitions}
            if not isinstance(schema, dict)
            else schema | {"$defs": definitions}
        )
    text = json.dumps(pair[1], ensure_ascii=False)
    assert accepts(matcher_of(schema), text), f"{schema} does not take {text}"
    check(schema, 2, seed)


BOUND = st.one_of(st.integers(-30, 30), st.integers(-(10**15), 10**15), st.integers(-3000,
3000).map(lambda n: n / 1000),
                  st.sampled_from([0, 1, -1, 0.5, 9.99, -0.1, 1e-5, 100, 99.5]))  # fmt: skip
BOUNDS = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number"])},
    optional=dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], BOUND)
    | {"multipleOf": st.sampled_from([2, 3, 7, 0.5, 0.25, 0.1, 12, 1.5])},
)


@settings(max_examples=200)
@given(BOUNDS, st.integers(0, 2**32))
@example({"type": "number", "exclusiveMinimum": 0, "maximum": 0.5}, 1)  # llguidance alone takes 0
@example({"type": "number", "exclusiveMinimum": -1.295, "exclusiveMaximum": -1}, 1)  # and here -1
@example({"type": "integer", "minimum": 2**53 + 1}, 1)  # and here 2**53
@example({"type": "number", "exclusiveMinimum": -0.501, "exclusiveMaximum": 0, "multipleOf": 0.5}, 0)  # and finds none
def test_numbers_stay_within_their_bounds(schema: dict[str, Any], seed: int) -> None:
    try:
        matcher_of(schema)
    except InvalidParameter:
        assert refusal(schema).param in {f"response_format.{name}" for name in schema}
    else:
        check(schema, 3, seed)


def refusal(schema: Any, **how: Any) -> InvalidParameter:
    with pytest.raises(InvalidParameter) as caught:
        grammar_of(
            Structure(kind="json_schema", source=schema if isinstance(schema, str) else json.dumps(schema), **how)
        )
    assert caught.value.code == "invalid_parameter"
    return caught.value


@pytest.mark.parametrize(("schema", "path", "word"), schemas.REFUSED)
def test_what_cannot_be_kept_is_refused_with_its_path(schema: Any, path: str, word: str) -> None:
    error = refusal(schema, param="response_format.json_schema.schema")
    assert error.param == f"response_format.json_schema.schema{path}"
    assert word in error.message


def notes_of(schema: Any, **how: Any) -> list[str]:
    return list(composed(Structure(kind="json_schema", source=json.dumps(schema), param="f", **how)).notes)


def test_unknown_keywords_and_formats_are_annotations_and_noted_once() -> None:
    schema = {
        "self": {"vendor": "x"}, "_comment": "c", "requried": ["a"], "$schema": "http://json-schema.org/schema#",
        "properties": {"a": {"minLenght": 1, "type": "string", "format": "cuid2"}, "b": {"_comment": 1, "colour": 2}},
    }  # fmt: skip
    assert notes_of(schema) == [
        "keyword-unknown: f.self",
        "keyword-unknown: f._comment",
        "keyword-unknown: f.requried (did you mean required?)",
        "keyword-unknown: f.properties.a.minLenght (did you mean minLength?)",
        "format-not-enforced: f.properties.a.format",
        "keyword-unknown: f.properties.b.colour",
    ]
    assert accepts(matcher_of(schema), '{"a": "", "b": null}')


def test_of_a_schema_that_is_not_strict_what_can_be_enforced_is() -> None:
    tags = {"type": "array", "items": {"type": "integer"}, "not": {"contains": {"multipleOf": 2}}}
    schema = {"properties": {"tags": tags, "b": {"not": {}}, "c": {"pattern": "\\bx", "maxLength": 2}}}
    assert notes_of(schema, is_strict=False) == [
        "keyword-not-enforced: f.properties.tags.not", "keyword-not-enforced: f.properties.c.pattern"
    ]  # fmt: skip
    matcher = matcher_of(schema, is_strict=False)
    assert accepts(matcher, '{"tags": [1, 1], "c": "ab"}')
    assert not accepts(matcher, '{"tags": ["x"]}')
    assert not accepts(matcher, '{"c": "abc"}')


def test_targets_of_references_under_long_names_are_kept_apart() -> None:
    names = [f"{'a' * 90}{end}" for end in "xy"]
    definitions = {names[0]: {"const": 1}, names[1]: {"const": 2}}
    schema = schemas.closed({end: {"$ref": f"#/definitions/{name}"} for end, name in zip("xy", names, strict=True)})
    assert accepts(matcher_of(schema | {"definitions": definitions}), '{"x": 1, "y": 2}')


PAYMENT = {
    "type": "object",
    "properties": {"kind": {"enum": ["card", "cash"]}, "number": {"type": "integer"}, "cvc": {"type": "integer"}},
    "required": ["kind"],
    "if": {"properties": {"kind": {"const": "card"}}},
    "then": {"required": ["number"]},
    "else": {"not": {"required": ["number"]}},
    "dependentRequired": {"cvc": ["number"]},
}


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        (
            PAYMENT,
            ['{"kind": "card", "number": 1}', '{"kind": "card", "number": 1, "cvc": 2}', '{"kind": "cash"}'],
            ['{"kind": "card"}', '{"kind": "cash", "number": 1}', '{"kind": "cash", "cvc": 2}',
             '{"kind": "cash", "other": 1}'],
        ),
        ({"contains": {"const": 5}, "type": "array"}, ["[5]", "[1, 2, 5, 3]"], ["[]", "[1, 2]"]),
        ({"type": "string", "not": {"enum": ["red", "ready"]}}, ['"read"', '"reds"', '""'], ['"red"', '"ready"']),
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"}, ['{"a": 1}', '{"b": 1, "c": 2}'],
         ['{"a": 1, "b": 2}', "{}"]),
    ],
)  # fmt: skip
def test_cases_take_what_is_valid(schema: Any, valid: list[str], invalid: list[str]) -> None:
    matcher = matcher_of(schema)
    assert [text for text in valid if not accepts(matcher, text)] == []
    assert [text for text in invalid if accepts(matcher, text)] == []


def test_a_refused_keyword_is_named_wherever_it_stands() -> None:
    keyword = {"pattern": "\\bx"}
    places: list[tuple[Any, str]] = [
        ({"properties": {"tags": keyword}}, ".properties.tags"), ({"items": keyword}, ".items"),
        ({"anyOf": [keyword]}, ".anyOf[0]"), ({"prefixItems": [keyword]}, ".prefixItems[0]"),
        ({"additionalProperties": keyword}, ".additionalProperties"), ({"allOf": [{"items": keyword}]},
        ".allOf[0].items"),
        ({"$ref": "#/$defs/x y", "$defs": {"x y": keyword}}, '.$defs["x y"]'), ({"oneOf": [keyword]}, ".oneOf[0]"),
        ({"patternProperties": {"^a": keyword}}, '.patternProperties["^a"]'),
    ]  # fmt: skip
    for schema, path in places:
        assert refusal(schema).param == f"response_format{path}.pattern"


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"propertyNames": {"format": []}}, ".propertyNames"), ({"format": []}, ".format"), ({"format": {}}, ".format"),
        ({"$ref": "http://["}, ".$ref"), ({"$id": "http://[", "$ref": "x"}, ".$ref"),
        ({"$id": "http://[", "allOf": [{"$id": "http://[::1", "$ref": "http://["}]}, ".allOf[0].$ref"),
        ({"id": "http://[", "$ref": "x"}, ".$ref"),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_kind_is_refused_with_its_path(schema: Any, path: str) -> None:
    assert refusal(schema).param == f"response_format{path}"


def test_a_reference_with_an_index_of_thousands_of_digits_is_refused() -> None:
    assert "points to nothing" in refusal({"allOf": [{"$ref": f"#/allOf/{'1' * 5000}"}]}).message


def test_no_character_of_a_class_is_lost_after_half_a_surrogate_pair() -> None:
    matcher = matcher_of({"type": "string", "pattern": r"^[\ud83d\u0041b]$"})
    assert accepts(matcher, '"A"')
    assert accepts(matcher, '"b"')


def test_no_property_comes_twice_in_another_spelling() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": True}
    matcher = matcher_of(schema, whitespace="minimal")
    assert accepts(matcher, '{"a":1,"b":"x"}')
    for text in ('{"\\u0061":"x"}', '{"a":1,"a":2}', '{"b":1,"a":"x"}', '{"a":1,"\\u0061":2}'):
        assert not accepts(matcher, text)


def test_strings_are_written_without_half_pairs_and_are_read_back_the_same() -> None:
    matcher = matcher_of({"type": "string"})
    for text in ("é", "日本", "😀", 'a"b\\c/d\n\t', "\u2028"):
        assert accepts(matcher, json.dumps(text, ensure_ascii=False))
    for written in ('"\\ud800"', '"\ud800"', '"\n"', '"\\x"', b'"\xff"', b'"\xed\xa0\x80"', '"a'):
        encoded = written.encode("utf-8", "surrogatepass") if isinstance(written, str) else written
        assert not accepts(matcher, encoded)


def test_whitespace_is_as_asked() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    texts = ('{"a": [1, 2]}', '{"a":[1,2]}', '{\n  "a": [1, 2]\n}', '{          "a":[1,2]}')
    minimal, pretty = matcher_of(schema, whitespace="minimal"), matcher_of(schema, whitespace="pretty")
    own = matcher_of(schema, whitespace_pattern=r"[ \n\t]*")
    assert [accepts(matcher_of(schema), text) for text in texts] == [True, False, False, False]
    assert [accepts(minimal, text) for text in texts] == [False, True, False, False]
    assert [accepts(pretty, text) for text in texts] == [True, True, True, False]
    assert [accepts(own, text) for text in texts] == [True, True, True, True]
    some = matcher_of(schema, whitespace_pattern=r"\s?")
    assert accepts(some, '{ "a":[]}')
    assert not accepts(some, '{\u00a0"a":[]}')
    for pattern in ("x*", "[ x", r"\w"):
        assert "whitespace_pattern" in refusal(schema, whitespace_pattern=pattern).message


def test_an_object_that_lists_its_properties_has_no_others_where_no_schema_adds_any() -> None:
    point = {"type": "object", "properties": {"a": {"const": 1}}}
    named = {"properties": {"b": {"const": 2}}}
    reference = {"$ref": "#/$defs/p", "$defs": {"p": point}}
    for schema in (point, {"items": [point], "type": "array"}, reference, {"anyOf": [point, {"type": "null"}]}):
        wrapped = "[%s]" if "items" in schema else "%s"
        assert accepts(matcher_of(schema), wrapped % '{"a": 1}')
        assert not accepts(matcher_of(schema), wrapped % '{"a": 1, "b": 2}')
    open_ones: list[Any] = [
        point | {"additionalProperties": True},
        point | {"required": ["b"]},
        {"type": "object"},
        {"allOf": [point, named]},
        reference | named,
    ]
    for schema in open_ones:
        assert accepts(matcher_of(schema), '{"a": 1, "b": 2}'), schema


def test_properties_come_in_the_order_of_the_schema() -> None:
    for names in itertools.permutations(["a", "b", "c"]):
        properties = {name: {"type": "null"} for name in names}
        matcher = matcher_of(schemas.closed(properties, "c", "a", "b"))
        assert accepts(matcher, json.dumps(dict.fromkeys(names)))
        assert not accepts(matcher, json.dumps(dict.fromkeys(reversed(names))))


def test_chains_of_references_are_bounded() -> None:
    chain = {
        f"d{index}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/d{index + 1}"}}} for index in range(3000)
    }
    error = refusal({"$ref": "#/$defs/d0", "$defs": chain | {"d3000": {"type": "null"}}})
    assert "deep" in error.message
    assert str(error.param).startswith("response_format.$defs.d1")


def test_thousands_of_alternatives_are_told_apart() -> None:
    assert accepts(matcher_of({"oneOf": [{"const": f"p{index}"} for index in range(3000)]}), '"p2999"')
