"""Values of arguments in formats that write texts without JSON's quotes: what the grammar allows is read as a value
that the schema allows, and every value that it allows can be written.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher

from localllm.chat.formats.reader import reader_of
from localllm.chat.formats.writer import written_calls
from localllm.errors import InvalidParameter
from localllm.grammar.compose import ComposedGrammar
from localllm.types.conversation import Function, ToolCall
from localllm.types.formats import ChatFormat, JsonArguments
from localllm.types.structures import GrammarLimits
from localllm.worker.grammars.grammar_request import GrammarRequest, SpecialTokens
from localllm.worker.grammars.grammar_trial import checked_grammar
from tests.answering import FORMATS, Vocabulary, structure
from tests.each import each
from tests.later import jsonschema

UNQUOTED = [name for name, one in FORMATS.items() if one.calls and not isinstance(one.calls.arguments, JsonArguments)]
VOCABULARY = Vocabulary()
DEFINITIONS = {"Color": {"type": "string", "enum": ["red", "green"]}, "Day": {"type": "string", "format": "date"}}

texts = st.sampled_from(
    [
        {"type": "string"}, {"type": "string", "enum": ["red", "green"], "minLength": 1}, {"const": "x y"},
        {"type": "string", "minLength": 1, "maxLength": 3}, {"type": "string", "pattern": "^[0-9]{2}$"},
        {"type": "string", "pattern": '^"?n(ull|one)$'}, {"type": "string", "format": "date"}, {"format": "time"},
        {"$ref": "#/$defs/Color"}, {"allOf": [{"$ref": "#/$defs/Color"}], "default": "red"}, {"pattern": "^x+$"},
        {"type": "string", "enum": ["null", "true", "3", "[1]", '"q"', " padded "]},
        {"allOf": [{"type": "string", "maxLength": 2}, {"pattern": "^a"}]},
    ]
)  # fmt: skip
others = st.sampled_from(
    [
        {"type": "integer", "minimum": 1, "maximum": 30}, {"type": "null"}, {"type": "boolean"}, {"const": True},
        {"enum": [1, None, False]}, {"type": "array", "items": {"type": "string", "maxLength": 2}, "maxItems": 2},
    ]
)  # fmt: skip
one = texts | others
schemas = (
    one
    | st.lists(one, min_size=2, max_size=3).map(lambda some: {"anyOf": some})
    | st.lists(texts, min_size=2, max_size=2).map(lambda some: {"oneOf": some})
    | st.sampled_from([{"enum": ["a", "b", None, 3, True]}, {"type": ["string", "null"], "maxLength": 3}])
    | st.sampled_from([{"type": ["string", "integer"], "minLength": 2}, {"type": "string", "maxLength": 10**9}])
)
VALUES: list[Any] = [
    "red", "x y", "a", "ab", "12", "null", "true", "3", "[1]", '"q"', " padded ", "2024-02-29", "12:30:00Z", "xx",
    "nope", "", 7, 1, 3, None, True, False, [], ["u"],
]  # fmt: skip


def function(schema: dict[str, Any], *, is_strict: bool = False) -> Function:
    parameters = {
        "type": "object", "properties": {"v": schema}, "required": ["v"], "additionalProperties": False,
        "$defs": DEFINITIONS,
    }  # fmt: skip
    return Function(name="f", parameters=json.dumps(parameters), param="tools.f", is_strict=is_strict)


def tried(format_: ChatFormat, called: Function) -> ComposedGrammar:
    special = SpecialTokens(len(VOCABULARY.tokens), ())
    asked = structure(format_, "required", [called], parallel=False)
    return checked_grammar(GrammarRequest(asked, None, GrammarLimits(), special))


def matcher_of(grammar: ComposedGrammar) -> LLMatcher:
    matcher = LLMatcher(VOCABULARY.tokenizer, grammar.grammar, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    return matcher


def value_in(format_: ChatFormat, called: Function, text: str) -> Any:
    reader = reader_of(format_, [called])
    read = [reader.feed(text), reader.flush()]
    return json.loads("".join(call.arguments for part in read for call in part.calls))["v"]


@each("name", UNQUOTED)
@settings(max_examples=3)
@example(schema={"anyOf": [{"format": "date"}, {"format": "time"}]}, seed=0)
@example(schema={"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "^b"}]}, seed=1)
@given(schema=schemas, seed=st.integers(0, 99))
def test_what_a_grammar_allows_is_read_as_a_value_of_the_schema(name: str, schema: dict[str, Any], seed: int) -> None:
    """Unless a note says that this one argument is not enforced; there is no dead end, either."""
    format_, called = FORMATS[name], function(schema)
    grammar = tried(format_, called)
    text = VOCABULARY.answer(matcher_of(grammar), format_, random.Random(seed), most=60)
    assert all(": tools.f.properties.v" in note for note in grammar.notes)
    if text is None:  # it goes on and on
        return
    value = value_in(format_, called, text)
    if not any("not-kept" in note for note in grammar.notes):
        jsonschema.validate(value, schema | {"$defs": DEFINITIONS}, format_checker=jsonschema.FormatChecker(["date"]))


def meant(schema: dict[str, Any]) -> dict[str, Any]:
    """What only asks something of texts is a text; formats are patterns."""
    found = dict(schema)
    for key in {"anyOf", "allOf"} & schema.keys():
        found[key] = [meant(each) for each in schema[key]]
    if "format" in found:
        found["pattern"] = "^....-..-..$" if found["format"] == "date" else "^..:..:..Z$"
    return {"type": "string"} | found if "pattern" in found else found


@pytest.mark.exhaustive
@each("name", [name for name in UNQUOTED if name != "lfm2"])
@settings(max_examples=3)
@given(schema=schemas)
def test_every_value_of_a_schema_can_be_written(name: str, schema: dict[str, Any]) -> None:
    """As it stands, or in quotes where readers would take it for something else."""
    format_, called = FORMATS[name], function(schema)
    calls = format_.calls
    assert calls is not None
    matcher = matcher_of(tried(format_, called))
    validator = jsonschema.Draft202012Validator(meant(schema) | {"$defs": DEFINITIONS})
    if any(key in json.dumps(schema) for key in ("oneOf", "[1]", "padded", "1000000000")):
        return
    for value in VALUES:
        if not validator.is_valid(value) or (name == "minimax-m3" and value in (None, "", [])):
            continue
        ways = [value, json.dumps(value)] if isinstance(value, str) else [value]
        written = [
            written_calls(calls, [ToolCall(name="f", arguments=json.dumps({"v": way}))]).lstrip() for way in ways
        ]
        good = [text for text in written if VOCABULARY.takes(matcher, text)]
        assert any(value_in(format_, called, text) == value for text in good), (value, written)


@pytest.mark.parametrize("name", ["qwen3-coder", "minimax-m3", "gemma-4"])
def test_a_strict_argument_that_no_text_satisfies_is_refused_by_name(name: str) -> None:
    schema = {"type": "string", "enum": ["red"], "minLength": 9}
    with pytest.raises(InvalidParameter, match="v") as caught:
        tried(FORMATS[name], function(schema, is_strict=True))
    assert caught.value.param == "tools.f.properties.v"
