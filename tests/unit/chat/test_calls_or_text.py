"""Where tools and a structure are asked for, an answer is calls or a text of the structure, in every format."""

from __future__ import annotations

import json
import random

import msgspec
import pytest

from localllm.chat.formats.reader import reader_of
from localllm.types import whole_calls
from localllm.types.formats import ChatFormat
from localllm.types.structures import Structure
from tests.answering import FORMATS, FUNCTIONS, Vocabulary, markers_of, structure
from tests.each import each

CLOSED = Structure.json({"const": {"ok": True}})
CALLING = sorted(name for name, format_ in FORMATS.items() if format_.calls is not None)


def either(format_: ChatFormat, text: Structure) -> Structure:
    asked = structure(format_, "auto")
    source = json.loads(asked.source) | {"text": msgspec.to_builtins(text)}
    return msgspec.structs.replace(asked, source=json.dumps(source))


@pytest.mark.parametrize("has_markers", [False, True])
@each("name", CALLING)
def test_what_is_drawn_is_read_as_calls_or_as_a_text_of_the_structure(name: str, *, has_markers: bool) -> None:
    format_ = FORMATS[name]
    vocabulary = Vocabulary(markers_of(format_) if has_markers else ())
    matcher = vocabulary.matcher(either(format_, CLOSED))
    around = format_.text
    document = '{"ok": true}' if around is None else f'{around.opening}{{"ok": true}}{around.closing}'
    assert vocabulary.takes(matcher, document)
    assert not vocabulary.takes(matcher, "Hello")
    assert not vocabulary.takes(matcher, document.replace("true", "false"))
    kinds = set()
    for seed in range(12):
        written = vocabulary.answer(matcher, format_, random.Random(seed))
        if written is None:
            continue
        reader = reader_of(format_, FUNCTIONS)
        parts = [reader.feed(written), reader.flush()]
        text = "".join(part.text for part in parts)
        calls = whole_calls(call for part in parts for call in part.calls)
        assert bool(calls) != bool(text), written
        kinds.add(bool(calls))
        if text:
            assert json.loads(text) == {"ok": True}
        for call in calls:
            assert isinstance(json.loads(call.arguments), dict)
    assert kinds, "something has come to an end"
