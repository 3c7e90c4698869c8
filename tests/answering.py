"""Formats, functions, and a model that wants nonsense of answers: any token that a grammar of answers allows, and now
and then the beginning of a call.

Its vocabulary is that of `tests.nonsense`; with `markers`, the markers of a format are special tokens of it.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from localllm.chat.formats.known import DESCRIBED
from localllm.grammar.compose import composed
from localllm.grammar.texts.literals import Literals
from localllm.types.conversation import Function
from localllm.types.formats import (
    AnswerSource,
    CallChoice,
    Calls,
    ChatFormat,
    ObjectCall,
    PatternCall,
    Slot,
    TaggedArguments,
)
from localllm.types.structures import Preface, Structure
from tests.nonsense import END, TOKENS

_MARKER = re.compile(r"""<[^<>\s"=]+>|\[[A-Z_]+\]""")

OTHERS = (
    ChatFormat(
        name="typed",
        calls=Calls(
            call=PatternCall(before='<call tool="', slots=(Slot("name", '">'), Slot("arguments", "</call>"))),
            arguments=TaggedArguments(
                before='<argument key="', before_type='" type="', behind_key='">', after="</argument>",
                type_marks=(("string", "string"), ("integer", "number"), ("number", "number"), ("*", "object")),
            ),
        ),
    ),
    ChatFormat(
        name="numbered",
        calls=Calls(
            call=ObjectCall(keys=(("number", "index"), ("name", "tool"), ("arguments", "input"), ("id", "id"))),
            begin="CALLS [", between=", ", end="]",
        ),
    ),
)  # fmt: skip
FORMATS = {format_.name: format_ for format_ in (*DESCRIBED, *OTHERS)}

WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 2, "maximum": 14},
        "unit": {"enum": ["C", "F", "K per day"]},
        "exact": {"type": "boolean"},
        "note": {"type": ["string", "null"]},
        "hours": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
        "at": {"$ref": "#/$defs/place"},
    },
    "required": ["city", "at"],
    "additionalProperties": False,
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"lat": {"type": "number"}, "names": {"type": "array", "items": {"type": "string"}}},
            "required": ["lat"],
        }
    },
}
OPTIONAL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "query": {"type": "string", "maxLength": 5},
        "code": {"type": "string", "pattern": "^[a-c]{2}$"},
    },
}


def function(name: str, schema: dict[str, Any] | None = None) -> Function:
    return Function(name=name, parameters="" if schema is None else json.dumps(schema), param=f"tools.{name}")


FUNCTIONS = (
    function("weather", WEATHER),
    function("weather_now", OPTIONAL),
    function("ping", {"type": "object", "properties": {}}),
)


def structure(
    format_: ChatFormat, choice: CallChoice, functions: Sequence[Function] = FUNCTIONS, *, parallel: bool = True
) -> Structure:
    source = AnswerSource(format=format_, functions=tuple(functions), choice=choice, parallel=parallel)
    return Structure(kind="answer", source=msgspec.json.encode(source).decode(), param="tools")


class Vocabulary:
    """All bytes, pieces that run over seams, an end, and the markers of a format if they are special tokens."""

    eos_token_id = END
    bos_token_id = None

    def __init__(self, markers: Sequence[str] = ()) -> None:
        self.tokens = [*TOKENS, *(marker.encode() for marker in markers)]
        self.special = {marker: END + 1 + place for place, marker in enumerate(markers)}
        self.special_token_ids = (END, *self.special.values())
        self.literals = Literals(self.special | {"</s>": END}, (END,))

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text if isinstance(text, bytes) else text.encode())

    @cached_property
    def tokenizer(self) -> LLTokenizer:
        return LLTokenizer(TokenizerWrapper(self), slices=[])

    def spelled(self, text: str) -> list[int]:
        """The tokens of a text with markers in it."""
        parts = self.literals.segments(text)
        return [token for part in parts for token in ([part] if isinstance(part, int) else part.encode())]

    def matcher(self, asked: Structure, preface: Preface | None = None) -> LLMatcher:
        """Fails the test if it does not compile."""
        matcher = LLMatcher(self.tokenizer, composed(asked, preface, self.literals).grammar, log_level=0)
        assert not matcher.is_error(), matcher.get_error()
        return matcher

    def takes(self, matcher: LLMatcher, text: str) -> bool:
        """It is a whole answer."""
        matcher, tokens = matcher.deep_copy(), self.spelled(text)
        return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()

    def allowed(self, matcher: LLMatcher) -> list[int]:
        bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8), bitorder="little")
        found: list[int] = np.flatnonzero(bits[: len(self.tokens)]).tolist()
        return found

    def answer(self, matcher: LLMatcher, format_: ChatFormat, rng: random.Random, *, most: int = 250) -> str | None:
        """What the model writes; None if it has not ended after `most` tokens and twice as many in a hurry."""
        matcher, written = matcher.deep_copy(), b""
        openings = [self.spelled(text) for text in begun(format_)]
        for count in range(3 * most):
            choice = self.allowed(matcher)
            assert choice, f"nothing is allowed behind {written!r}: {matcher.get_error()[:300]}"
            is_late = count > most
            if END in choice and rng.random() < (0.9 if is_late else 0.1):
                break
            if END in choice and not is_late and rng.random() < 0.2:
                tokens = rng.choice(openings)
                tokens = tokens[: matcher.validate_tokens(tokens)]
                assert matcher.consume_tokens(tokens)
                written += b"".join(self.tokens[token] for token in tokens)
                continue
            ending = [token for token in choice if self.tokens[token][:1] in CLOSING]
            token = rng.choice(ending if ending and rng.random() < (0.9 if is_late else 0.2) else choice)
            if token == END:
                break
            assert matcher.consume_token(token), matcher.get_error()
            written += self.tokens[token]
            if matcher.is_stopped():
                break
        else:
            return None
        return written.decode()


CLOSING = {bytes([byte]) for byte in b"\"'}]<>)\n|"}


def begun(format_: ChatFormat) -> list[str]:
    """How calls may begin, and what only looks like it."""
    assert format_.calls is not None
    calls = format_.calls
    begins = [begin + calls.opening.removeprefix(calls.begin) for begin in (calls.begin, *calls.also_begins)]
    return [*begins, *(begin.replace("\n", "") for begin in begins), *(begin[: len(begin) // 2] for begin in begins)]


def markers_of(format_: ChatFormat) -> list[str]:
    """What may be a special token of it."""
    return sorted({marker for literal in format_.literals for marker in _MARKER.findall(literal)})
