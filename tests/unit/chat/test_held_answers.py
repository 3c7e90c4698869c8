"""Answers that are calls of tools or else one JSON document: what a random model writes under the grammar is read.

A document that looks like a call is one to those formats that write calls as plain JSON: so none here has `name`.
"""

from __future__ import annotations

import json
import random

import msgspec
import pytest

from localllm.chat.formats.reader import reader_of
from localllm.errors import InvalidParameter
from localllm.grammar.compose import composed
from localllm.types.conversation import whole_calls
from localllm.types.formats import AnswerSource, ChatFormat
from localllm.types.structures import Structure
from tests.answering import FORMATS, Vocabulary, function, markers_of
from tests.each import each
from tests.later import jsonschema

SCHEMA = {
    "type": "object",
    "properties": {"place": {"enum": ["ask", "Ulm"]}, "sure": {"type": "boolean"}},
    "required": ["place", "sure"],
    "additionalProperties": False,
}
ASK = {
    "type": "object",
    "properties": {"city": {"enum": ["Ulm", "Bonn"]}},
    "required": ["city"],
    "additionalProperties": False,
}
FUNCTIONS = (
    function("ask", ASK),
    function("ping", {"type": "object", "properties": {}, "additionalProperties": False}),
)
TEXT = Structure.json(SCHEMA)


def held(format_: ChatFormat, text: Structure = TEXT) -> Structure:
    source = AnswerSource(format=format_, functions=FUNCTIONS, text=text)
    return Structure(kind="answer", source=msgspec.json.encode(source).decode(), param="tools")


@pytest.mark.parametrize("is_spelled", [True, False])
@each("name", [name for name, format_ in FORMATS.items() if format_.calls is not None])
def test_every_answer_is_a_call_or_a_document(name: str, is_spelled: bool) -> None:
    format_ = FORMATS[name]
    vocabulary = Vocabulary(() if is_spelled else markers_of(format_))
    matcher = vocabulary.matcher(held(format_))
    rng = random.Random(name)
    for _ in range(12):
        answer = vocabulary.answer(matcher, format_, rng)
        if answer is None:
            continue
        reader = reader_of(format_, FUNCTIONS)
        fed, rest = reader.feed(answer), reader.flush()
        calls = whole_calls([*fed.calls, *rest.calls])
        text = fed.text + rest.text
        assert bool(calls) != bool(text.strip()), answer
        if not calls:
            jsonschema.validate(json.loads(text), SCHEMA)
        for call in calls:
            jsonschema.validate(json.loads(call.arguments), json.loads(FUNCTIONS[call.name == "ping"].parameters))


@pytest.mark.parametrize("name", ["hermes", "harmony", "mistral"])
def test_neither_free_text_nor_another_document_is_an_answer(name: str) -> None:
    format_ = FORMATS.get(name) or next(each for each in FORMATS.values() if each.name.startswith(name))
    vocabulary = Vocabulary()
    matcher = vocabulary.matcher(held(format_))
    opening = "" if format_.text is None else format_.text.opening
    assert vocabulary.takes(matcher, f'{opening}{{"place": "Ulm", "sure": true}}')
    assert not vocabulary.takes(matcher, f'{opening}{{"place": "Bonn", "sure": true}}')
    assert not vocabulary.takes(matcher, f"{opening}Ulm.")
    assert not vocabulary.takes(matcher, opening)


def test_any_object_may_be_the_document_and_a_wrong_schema_is_named() -> None:
    vocabulary = Vocabulary()
    matcher = vocabulary.matcher(held(FORMATS["hermes"], Structure(kind="json_object")))
    assert vocabulary.takes(matcher, '{"b": [1]}')
    assert not vocabulary.takes(matcher, "[1]")
    wrong = Structure.json({"type": "nothing"}, param="text.format.schema")
    with pytest.raises(InvalidParameter) as refused:
        composed(held(FORMATS["hermes"], wrong))
    assert refused.value.param == "text.format.schema.type"
