"""Answers with calls: what a grammar lets a model write a reader reads as calls of declared functions with arguments
that are valid, and what a writer writes the grammar takes. Formats and the model are in `tests/answering.py`.
"""

from __future__ import annotations

import functools
import json
import random
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localllm.chat.formats.reader import reader_of
from localllm.chat.formats.writer import written, written_calls
from localllm.errors import InvalidParameter
from localllm.grammar.compose import composed
from localllm.types.conversation import Function, ToolCall
from localllm.types.formats import CallChoice, ChatFormat
from localllm.types.structures import Preface, Tags
from tests.answering import FORMATS, FUNCTIONS, OPTIONAL, WEATHER, Vocabulary, function, markers_of, structure
from tests.each import each
from tests.later import jsonschema

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

ANSWERS = 3
"""Of each format and choice: enough for each of its ways in and out now and then; more run in minutes."""
SCHEMAS = {each.name: json.loads(each.parameters) for each in FUNCTIONS}
HERMES = FORMATS["hermes"]
PING = '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'


@functools.cache
def validator_of(function: str) -> Validator:
    return jsonschema.Draft202012Validator(SCHEMAS[function])


class Answer(NamedTuple):
    text: str
    calls: list[tuple[str, str]]
    notes: list[str]


def read(format_: ChatFormat, pieces: list[str]) -> Answer:
    reader = reader_of(format_, FUNCTIONS)
    found = [*(reader.feed(piece) for piece in pieces), reader.flush()]
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    for delta in (delta for one in found for delta in one.calls):
        names[delta.index] = names.get(delta.index, "") + delta.name
        arguments[delta.index] = arguments.get(delta.index, "") + delta.arguments
    calls = [(name, arguments[index]) for index, name in names.items()]
    return Answer("".join(one.text for one in found), calls, [note for one in found for note in one.notes])


@pytest.mark.parametrize("choice", ["auto", "required", "none"])
@pytest.mark.parametrize("has_markers", [False, True])
@each("name", FORMATS)
def test_what_a_grammar_allows_is_read_as_valid_calls(name: str, choice: CallChoice, *, has_markers: bool) -> None:
    format_ = FORMATS[name]
    vocabulary = Vocabulary(markers_of(format_) if has_markers else ())
    if has_markers and not vocabulary.special:
        return
    for parallel in (True, False):
        matcher = vocabulary.matcher(structure(format_, choice, parallel=parallel))
        for seed in range(ANSWERS):
            text = vocabulary.answer(matcher, format_, random.Random(seed))
            if text is None:
                continue
            answer = read(format_, [text])
            assert read(format_, list(text)) == answer, text
            for called, arguments in answer.calls:
                validator_of(called).validate(json.loads(arguments))
            if choice == "required":
                assert answer.calls, text
                assert not answer.text, text
                assert not answer.notes, text
            assert choice != "none" or not answer.calls, text
            assert parallel or len(answer.calls) <= 1, text


CITIES = st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from(" \"'\\{}[]"), max_size=8)
MADE: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "weather": st.fixed_dictionaries(
        {
            "city": CITIES,
            "at": st.fixed_dictionaries(
                {"lat": st.integers(-90, 90)}, optional={"names": st.lists(CITIES, max_size=2)}
            ),
        }
    ),
    "weather_now": st.fixed_dictionaries(
        {}, optional={"limit": st.integers(0, 9), "query": CITIES.map(lambda text: text[:5])}
    ),
    "ping": st.just({}),
}
CALLS = st.lists(
    st.sampled_from(sorted(MADE)).flatmap(lambda name: st.tuples(st.just(name), MADE[name])), min_size=1, max_size=3
)


@lru_cache(maxsize=2)
def vocabulary_of(*markers: str) -> Vocabulary:
    return Vocabulary(markers)


def plain(value: Any) -> bool:
    """No text in it has what formats write around values."""
    text = json.dumps(value, ensure_ascii=False)
    return not any(mark in text for mark in ("<", ">", "]["))


NAMES = [*WEATHER["properties"], *WEATHER["$defs"]["place"]["properties"], *OPTIONAL["properties"]]


def in_order(value: Any) -> Any:
    """Members as the schemas list them."""
    if isinstance(value, dict):
        return {name: in_order(value[name]) for name in sorted(value, key=NAMES.index)}
    return value


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=8, deadline=None)
@given(made=CALLS.filter(plain))
def test_what_a_writer_writes_a_grammar_takes(name: str, made: list[tuple[str, dict[str, Any]]]) -> None:
    format_ = FORMATS[name]
    assert format_.calls is not None
    made = made[:1] if format_.calls.is_single else made
    calls = [
        ToolCall(name=called, arguments=json.dumps(in_order(arguments)), id="a1b2c3d4e") for called, arguments in made
    ]
    vocabulary, text = vocabulary_of(), written_calls(format_.calls, calls).removeprefix(format_.opened)
    assert vocabulary.takes(vocabulary.matcher(structure(format_, "required")), text.lstrip()), text
    assert vocabulary.takes(vocabulary.matcher(structure(format_, "auto")), text), text
    marked = vocabulary_of(*markers_of(format_))
    assert marked.takes(marked.matcher(structure(format_, "auto")), text), text


@pytest.mark.parametrize("has_markers", [False, True])
@pytest.mark.parametrize(
    ("choice", "text", "is_taken"),
    [
        ("auto", "Hello <b>!", True),
        ("auto", "", True),
        ("auto", f"Well: {PING} and {PING} done", True),
        ("auto", "<tool_call>\n{", False),
        ("auto", '<tool_call>\n{"name": "pong', False),
        ("auto", PING.replace("{}}", '{"a": 1}}'), False),
        ("required", PING, True),
        ("required", f"{PING}\n{PING}", True),
        ("required", f"Well: {PING}", False),
        ("required", "", False),
        ("none", "Hello <b>! {}", True),
        ("none", PING, False),
    ],
)
def test_calls_come_where_they_may_and_are_whole(
    choice: CallChoice, text: str, *, is_taken: bool, has_markers: bool
) -> None:
    vocabulary = Vocabulary(["<tool_call>", "</tool_call>", "<other>"] if has_markers else ())
    assert vocabulary.takes(vocabulary.matcher(structure(HERMES, choice)), text) is is_taken


def test_white_space_in_an_opening_may_be_missing_where_text_is_free() -> None:
    vocabulary = Vocabulary()
    auto, none = (vocabulary.matcher(structure(HERMES, choice)) for choice in ("auto", "none"))
    assert vocabulary.takes(auto, PING.replace("call>\n{", "call> {"))
    assert not vocabulary.takes(auto, '<tool_call>{"name": "pong"}</tool_call>')
    assert not vocabulary.takes(none, "<tool_call>  {")
    assert vocabulary.takes(auto, "A <tool_call> is a tag.")
    assert vocabulary.takes(none, "A <tool_call> is a tag.")


def test_free_text_may_hold_special_tokens_that_open_nothing() -> None:
    vocabulary = Vocabulary(["<tool_call>", "<image>"])
    for choice in ("auto", "none"):
        matcher = vocabulary.matcher(structure(HERMES, choice))
        assert vocabulary.takes(matcher, "Look: <image>!")
        assert vocabulary.allowed(matcher)[-1] == vocabulary.special["<image>"] or choice == "auto"
        after = matcher.deep_copy()
        assert after.try_consume_tokens([vocabulary.special["<tool_call>"]]) == (choice == "auto")


BARE = {
    "llama-3": ('{"name": "ping", "parameters": {}}', '{"name": "ping", "parameters": {"a": 1}}'),
    "llama-4": ('{"name": "ping", "parameters": {}}', '{"name": "ping", "parameters": {"a": 1}}'),
    "xlam": ('[{"name": "ping", "arguments": {}}]', '[{"name": "ping", "arguments": {"a": 1}}]'),
    "pythonic": ("[ping()]", "[ping(a=1)]"),
}


@pytest.mark.parametrize("has_markers", [False, True])
@pytest.mark.parametrize("name", BARE)
def test_where_only_brackets_open_a_call_a_declared_name_tells_it_from_an_answer(
    name: str, *, has_markers: bool
) -> None:
    format_, (call, wrong) = FORMATS[name], BARE[name]
    vocabulary = Vocabulary(markers_of(format_) if has_markers else ())
    auto, none = (vocabulary.matcher(structure(format_, choice)) for choice in ("auto", "none"))
    nested = f'{{"tool": {call.removeprefix("[")}'
    for text in (
        '{"answer": 42}',
        "[1, 2]",
        '{"name": "Bob", "age": 3}',
        "[pong()]",
        "<response>{}</response>",
        nested,
    ):
        assert vocabulary.takes(auto, text), text
        assert vocabulary.takes(none, text), text
        assert read(format_, [text]) == Answer(text, [], [])
    for text in (call, f"Look: {call}", f"\n {call}"):
        assert vocabulary.takes(auto, text), text
        assert not vocabulary.takes(none, text), text
    assert not vocabulary.takes(auto, wrong)
    assert not vocabulary.takes(auto, f"Look: {wrong}")
    code = "<|python_tag|>print(1)" if name == "llama-3" else "<|python_start|>print(1)<|python_end|>"
    assert vocabulary.takes(auto, code)


def test_names_are_any_text() -> None:
    names = ["a", "a_b", 'say "hi"', "zurück", "a\\b"]
    vocabulary = Vocabulary()
    matcher = vocabulary.matcher(structure(HERMES, "required", [function(name) for name in names]))
    for name in names:
        text = written_calls(HERMES.calls, [ToolCall(name=name, arguments='{"x": 1}')]) if HERMES.calls else ""
        assert vocabulary.takes(matcher, text)


THOUGHT = Tags("<think>", "</think>")


@pytest.mark.parametrize("has_markers", [False, True])
@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("choice", ["auto", "required", "none"])
def test_a_call_within_a_thought_is_none(choice: CallChoice, *, is_open: bool, has_markers: bool) -> None:
    vocabulary = Vocabulary(["<tool_call>", "</tool_call>", "<think>", "</think>"] if has_markers else ())
    behind = "\n\n" if choice == "required" else ""
    matcher = vocabulary.matcher(structure(HERMES, choice), Preface(thought=THOUGHT, is_open=is_open, behind=behind))
    thought = ("" if is_open else "<think>") + 'So <tool_call>\n{"name": "pong"}.</think>' + behind
    assert vocabulary.takes(matcher, thought + PING) is (choice != "none")
    assert vocabulary.takes(matcher, thought + "Well.") is (choice != "required")
    assert not vocabulary.takes(matcher, thought + '<tool_call>\n{"name": "pong"}')
    assert vocabulary.takes(matcher, PING) is (not is_open and choice != "none")
    assert not vocabulary.takes(matcher, thought.removesuffix("</think>" + behind))


def test_a_thought_and_a_text_that_begin_with_the_same_special_token_are_told_apart() -> None:
    format_ = FORMATS["harmony"]
    vocabulary = Vocabulary(markers_of(format_))
    matcher = vocabulary.matcher(structure(format_, "auto"), Preface(thought=format_.thought, behind=""))
    called = written(format_, "Hm.", "", [ToolCall("ping")])
    assert vocabulary.takes(matcher, called)
    assert vocabulary.takes(matcher, written(format_, "Hm.", "Hello."))
    assert not vocabulary.takes(matcher, called.replace("functions.ping", "functions.pong"))
    assert vocabulary.takes(matcher, written(format_, "Is it <|channel|>commentary to=functions.pong?", "Hello."))


def test_an_answer_whose_prompt_opened_a_text_or_a_call_is_one_of_them() -> None:
    format_, vocabulary = FORMATS["functionary-3.2"], Vocabulary()
    auto, required, none = (vocabulary.matcher(structure(format_, choice)) for choice in ("auto", "required", "none"))
    for text, in_auto, in_required, in_none in (
        ("all\nHello", True, False, True),
        ("ping\n{}>>>ping\n{}", True, True, False),
        ("all\nHello>>>ping\n{}", True, False, False),
        ("pong\n{}", False, False, False),
        ("all\nHello>>>pong", False, False, False),
    ):
        assert [vocabulary.takes(each, text) for each in (auto, required, none)] == [in_auto, in_required, in_none], (
            text
        )


LEFT_OUT = {
    "type": "object",
    "properties": {
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "n": {"type": "integer"},
    },
    "required": ["tags"],
}


def test_of_a_schema_only_what_cannot_be_kept_is_left_out_and_said() -> None:
    asked = structure(HERMES, "required", [function("f", LEFT_OUT), function("g", WEATHER)])
    assert composed(asked).notes == ("arguments-not-kept: tools.f.properties.tags.uniqueItems",)
    vocabulary = Vocabulary()
    matcher = vocabulary.matcher(asked)
    for arguments, is_taken in (('{"tags": []}', True), ("{}", False), ('{"tags": [], "n": "x"}', False)):
        text = f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>'
        assert vocabulary.takes(matcher, text) is is_taken


def test_a_strict_function_is_refused_with_its_path() -> None:
    strict = Function(name="f", parameters=json.dumps(LEFT_OUT), is_strict=True, param="tools[0].function.parameters")
    with pytest.raises(InvalidParameter) as caught:
        composed(structure(HERMES, "auto", [strict]))
    assert caught.value.param == "tools[0].function.parameters.properties.tags.uniqueItems"
    assert composed(structure(HERMES, "none", [strict])).notes == ()


JSON_ALONE = {
    "type": "object",
    "properties": {
        "a": {"type": "object", "patternProperties": {"^x": {"type": "string"}}},
        "allOf": {"type": "string"},
    },
    "maxProperties": 3,
}


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("hermes", []),
        ("qwen3-coder", ["maxProperties"]),
        ("lfm2", ["maxProperties", "properties.a.patternProperties"]),
        ("gemma-4", ["maxProperties", "properties.a.patternProperties"]),
    ],
)
def test_what_only_json_keeps_of_a_schema_is_said_in_other_writings_and_refused_if_strict(
    name: str, left_out: list[str]
) -> None:
    """An argument of Qwen's is JSON by itself, so that only what is said of them all is lost."""
    asked = structure(FORMATS[name], "auto", [function("f", JSON_ALONE)])
    assert sorted(composed(asked).notes) == [f"arguments-not-kept: tools.f.{path}" for path in left_out]
    strict = Function(name="f", parameters=json.dumps(JSON_ALONE), is_strict=True, param="tools.f")
    if left_out:
        with pytest.raises(InvalidParameter, match="cannot enforce it"):
            composed(structure(FORMATS[name], "auto", [strict]))
    else:
        composed(structure(FORMATS[name], "auto", [strict]))


@pytest.mark.parametrize("name", ["hermes", "qwen3-coder", "lfm2", "gemma-4", "minimax-m3", "typed"])
@pytest.mark.parametrize(
    "parameters",
    [
        "[]", "null", "{", "false", "[" * 5000, '{"type": "string"}', '{"a": 1, "a": 2}', '{"$ref": "#"}',
        '{"allOf": 3}',
        '{"$ref": "https://example.com/"}', '{"properties": []}', '{"type": "object", "required": ["", "x=(<"]}',
        '{"anyOf": [{"properties": {"a": {}}}, {"type": "object", "patternProperties": {"^x": {}}}]}',
        '{"properties": {"a": {"enum": []}, "b": {"enum": ["</parameter>"]}}, "required": ["b"]}',
        '{"properties": {"a": {"pattern": "(?=x)"}, "b": {"not": {}}, "c": {"allOf": [{"minimum": 3}, {"type": []}]}}}',
    ],
)  # fmt: skip
def test_no_schema_of_a_function_that_is_not_strict_is_refused(name: str, parameters: str) -> None:
    """And another function can still be called."""
    odd = Function(name="odd", parameters=parameters, param="tools[0].function.parameters")
    calls = FORMATS[name].calls
    assert calls is not None
    vocabulary = Vocabulary()
    matcher = vocabulary.matcher(structure(FORMATS[name], "required", [odd, function("ping")]))
    assert vocabulary.takes(matcher, written_calls(calls, [ToolCall(name="ping", arguments="{}")]).lstrip())


@pytest.mark.parametrize("name", ["qwen3-coder", "deepseek-v4", "lfm2", "gemma-4", "minimax-m3"])
def test_texts_keep_their_lengths_and_patterns_in_every_writing(name: str) -> None:
    format_ = FORMATS[name]
    assert format_.calls is not None
    vocabulary = Vocabulary()
    matcher = vocabulary.matcher(structure(format_, "required", [function("f", OPTIONAL)]))
    for arguments, is_taken in (
        ({"query": "12345", "code": "ab"}, True),
        ({"query": "123456"}, False),
        ({"code": "ad"}, False),
        ({"code": "abc"}, False),
        ({"limit": 3}, True),
        ({"limit": None}, True),
        ({"limit": "x"}, False),
        ({"other": 3}, False),
    ):
        text = written_calls(format_.calls, [ToolCall(name="f", arguments=json.dumps(arguments))])
        assert vocabulary.takes(matcher, text.lstrip()) is is_taken, text
