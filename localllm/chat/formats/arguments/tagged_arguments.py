"""Converts arguments that are enclosed in literals of their own, as in XML-like formats (Qwen3-Coder, GLM, DeepSeek's
DSML), to JSON and back.

A string is the verbatim text between its literals, and is passed on as it arrives. Other values are passed on when
complete.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from localllm.chat.formats.arguments.json_scan import JsonScanner, value_of
from localllm.chat.formats.arguments.python_arguments import json_of_value
from localllm.chat.formats.arguments.reading import ArgumentsReader
from localllm.chat.formats.arguments.stepped_arguments import Outcome, SteppedReader
from localllm.chat.formats.arguments.words import json_of_word
from localllm.chat.formats.tape import Markers, Steps, parts_of
from localllm.types.conversation import Function
from localllm.types.formats import TaggedArguments
from localllm.types.schemas.value_schemas import ValueSchema, type_of

BLANKS = " \t\r\n"
"""White space that may surround a value other than a text."""
MOST_KEY = 1000
"""Maximum length of an argument's name, in characters."""

_QUOTED = "<&\n"
"""Strings with one of these characters are written in the format's quotes, if it has any."""


class TaggedReader(SteppedReader):
    """Reader for one call. `end`: the literal after the arguments."""

    def __init__(self, kind: TaggedArguments, function: Function | None, end: str) -> None:
        super().__init__()
        self._kind = kind
        self._schema = ValueSchema.of(function)
        self._end = parts_of(end)
        self._before = parts_of(kind.before)
        self._behind_key = parts_of(kind.behind_key)
        self._before_type = parts_of(kind.before_type)
        self._after = parts_of(kind.after)
        self._key_ends = Markers([(self._before_type or self._behind_key)[0]])
        core = self._after[0]
        edge = kind.after[: len(kind.after) - len(kind.after.lstrip())]
        self._value_ends = Markers([core, edge + core])
        self._quoted_ends = Markers([kind.quotes[1] + core, kind.quotes[1] + edge + core, core])
        self._lead = kind.behind_key[len(kind.behind_key.rstrip()) :]
        self._has_begun = False

    def read(self) -> Steps[Outcome]:
        tape = self.tape
        while True:
            tape.record()
            gap = yield from tape.space()
            if self._has_begun and (yield from tape.parts(parts_of(self._kind.between))):
                gap = yield from tape.space()
            if not (yield from tape.parts(self._before, needs_last=True)):
                return (yield from self._over(gap))
            outcome = yield from self._argument()
            if outcome == "broken":
                tape.back(tape.recorded())
                self.out.append("}" * self._has_begun)
            if outcome != "whole":
                return outcome

    def _over(self, gap: str) -> Steps[Outcome]:
        """Finish, because something other than an argument follows."""
        tape = self.tape
        end = yield from tape.literal(self._end)
        tape.back(gap + end)
        if not end and not self._has_begun and (self._end or tape.is_ended):
            return "broken" if tape.size > len(gap) else "cut"
        self.out.append("}" if self._has_begun else "{}")
        return "whole"

    def _argument(self) -> Steps[Outcome]:
        tape = self.tape
        key, literal = yield from tape.until(self._key_ends, MOST_KEY)
        if not literal:
            return self._cut(key)
        tape.take(len(literal))
        types = self._schema.member(key.strip()).types
        if self._before_type:
            yield from tape.parts(self._before_type[1:])
            mark, literal = yield from tape.until(Markers(self._behind_key[:1]), MOST_KEY)
            if not literal:
                return self._cut(key + self._before_type[0] + mark)
            tape.take(len(literal))
            types = self._marked(mark.strip(), types)
        yield from tape.parts(self._behind_key[1:])
        tape.recorded()
        self.out.append((", " if self._has_begun else "{") + json.dumps(key.strip(), ensure_ascii=False) + ": ")
        self._has_begun = True
        if self._lead:
            yield from tape.literal([self._lead, "\n"])
        ends = self._value_ends
        if self._kind.quotes[0] and (yield from tape.literal([self._kind.quotes[0]])):
            ends = self._quoted_ends
        is_whole = yield from (self._text(ends) if types == {"string"} else self._value(types, ends))
        if is_whole:
            yield from tape.parts(self._after[1:])
        return "whole" if is_whole else "cut"

    def _cut(self, key: str) -> Outcome:
        """The outcome if a literal is missing: `cut` at the end of the answer, otherwise `broken`. `key`: what was read
        of an argument's name."""
        if not self.tape.is_ended or self.tape.size:
            return "broken"
        if self._has_begun and key.strip():
            self.out.append(", " + json.dumps(key.strip(), ensure_ascii=False)[:-1])
        return "cut"

    def _marked(self, mark: str, types: frozenset[str]) -> frozenset[str]:
        """The types that a mark stands for, or the schema's if the mark is not specific."""
        named = {each for each, its_mark in self._kind.type_marks if its_mark.strip() == mark}
        if "string" in named:
            return frozenset(["string"])
        return types - {"string"} if named else types

    def _text(self, ends: Markers) -> Steps[bool]:
        self.out.append('"')
        while True:
            text, literal = yield from self.tape.until(ends)
            self.out.append(json.dumps(text, ensure_ascii=False)[1:-1])
            if literal:
                self.tape.take(len(literal))
                self.out.append('"')
                return True
            if not text:
                return False

    def _value(self, types: frozenset[str], ends: Markers) -> Steps[bool]:
        found: list[str] = []
        while True:
            text, literal = yield from self.tape.until(ends)
            found.append(text)
            if literal:
                self.tape.take(len(literal))
                self.out.append(json_of("".join(found), types))
                return True
            if not text:
                self.out.append(cut_json_of("".join(found), types))
                return False


def reader(kind: TaggedArguments, function: Function | None, end: str) -> ArgumentsReader:
    """Reader for one call."""
    return TaggedReader(kind, function, end)


def written(kind: TaggedArguments, arguments: Mapping[str, Any]) -> str:
    """Arguments as models were trained to write them."""
    return kind.between.join(_argument(kind, key, value) for key, value in arguments.items())


def _argument(kind: TaggedArguments, key: str, value: object) -> str:
    marks = dict(kind.type_marks)
    mark = marks.get(type_of(value), marks.get("*", "")) if kind.before_type else ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and any(each in value for each in _QUOTED):
        text = kind.quotes[0] + text + kind.quotes[1]
    return f"{kind.before}{key}{kind.before_type}{mark}{kind.behind_key}{text}{kind.after}"


def json_of(text: str, types: frozenset[str]) -> str:
    """A value as JSON, from JSON or Python syntax; the text itself if it is neither, or if the schema allows texts but
    not that."""
    core = text.strip(BLANKS)
    found = _type_of_json(core)
    if not found:
        word = json_of_value(core) if core[:1] in ("{", "[") else json_of_word(core)
        core, found = (core, "") if word is None else (word, _type_of_json(word))
    is_wanted = "string" not in types or found in types or (found == "integer" and "number" in types)
    if not found or not is_wanted:
        return json.dumps(text, ensure_ascii=False)
    return JsonScanner().feed(core)[0] if core[0] in '{["' else core


def cut_json_of(text: str, types: frozenset[str]) -> str:
    """What there is of a value when the answer ends within it: JSON that may be open."""
    core = text.strip(BLANKS)
    found = json_of(text, types) if core else ""
    if not found.startswith('"'):
        return found
    return core if core.startswith(("{", "[", '"')) else found[:-1]


def _type_of_json(text: str) -> str:
    """JSON Schema's name for the type of a JSON text; empty if it is not JSON."""
    try:
        return type_of(value_of(text))
    except ValueError:
        return ""
