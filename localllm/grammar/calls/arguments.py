"""Lark rules for the arguments of functions, in the notation of a format.

JSON enforces the same keywords as structured answers; `tagged` and `shapes` say what other notations enforce. Keywords
that cannot be enforced are left out, with a note that gives the path; if nothing remains, arguments may be any object.
For a strict function, such keywords are rejected.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from localllm.errors import InvalidParameter
from localllm.grammar.calls.tagged import TaggedNotation
from localllm.grammar.calls.texts import ALL_TYPES, NotWritable, Schema
from localllm.grammar.calls.values import Shapes, Writing, typed
from localllm.grammar.calls.writings import Bare, NestedNotation, Python, PythonCall
from localllm.grammar.refusals import refused, under, unsupported
from localllm.grammar.rules import Rules
from localllm.grammar.schema.documents import json_of
from localllm.grammar.schema.keywords import OF_TYPE
from localllm.grammar.schema.loosening import found, loosened
from localllm.grammar.schema.notes import Notes
from localllm.grammar.schema.schemas import checked
from localllm.grammar.texts.literals import either, joined
from localllm.types.conversation import Function
from localllm.types.formats import AnswerSource, BareArguments, JsonArguments, PythonArguments, TaggedArguments
from localllm.types.schemas.value_schemas import ValueSchema
from localllm.types.structures import Structure

JSON_ALONE = ("allOf", "maxProperties", "minProperties", "patternProperties")
"""Keywords that no other notation can enforce."""
ANY_OBJECT: dict[str, Any] = {"type": "object"}
NOT_KEPT = "arguments-not-kept"

Loose = frozenset[int | tuple[int, str]]
"""Functions by index whose arguments may be any object, and arguments by name that may be any value of their type."""


class Bounded(NamedTuple):
    """A terminal that some text must match for an argument to have a value."""

    place: tuple[int, str]
    """Index of the function, and the argument's name."""
    terminal: str
    path: str


class ArgumentRules:
    """Rules for the functions of one source."""

    def __init__(self, rules: Rules, source: AnswerSource, loose: Loose | None) -> None:
        """`loose`: see `answers.grammars_of_answer`. Raises `InvalidParameter` for strict functions."""
        self._rules = rules
        self._kind = JsonArguments() if source.format.calls is None else source.format.calls.arguments
        self.notes: list[str] = []
        self.bounded: list[Bounded] = []
        self._written: dict[Function, str] = {}
        self._annotations = Notes()
        for place, function in enumerate(source.functions if source.choice != "none" else ()):
            is_loose = not function.is_strict and (loose is None or place in loose)
            names = [each[1] for each in loose or () if isinstance(each, tuple) and each[0] == place]
            self._written[function] = self._kept(place, function, names, is_loose=is_loose)
        self.notes += self._annotations.all

    def of(self, function: Function) -> str:
        """The expression for the function's arguments."""
        return self._written[function]

    def _kept(self, place: int, function: Function, loose: Iterable[str], *, is_loose: bool) -> str:
        """An expression that enforces as much of the schema as possible; notes what it does not."""
        unwritten = self._unwritten(function)
        if function.is_strict:
            if unwritten:
                raise unsupported(unwritten[0], "this model's format of calls cannot enforce it")
            try:
                schema = checked(_source_of(function), function.param, self._annotations)
                written, names = self._expression(place, function, schema)
            except NotWritable:
                raise unsupported(function.param, "this model's format of calls cannot express it") from None
            if names:
                raise unsupported(_path(function, names[0]), "this model's format of calls cannot enforce it")
            return written
        try:
            left_out = Notes(is_loose=True)
            schema = ANY_OBJECT if is_loose else loosened(_source_of(function), function.param, left_out)
            paths = [function.param] if is_loose else [*left_out.left_out]
            for what, note in left_out.annotations.items():
                self._annotations.add(what, note)
            written, names = self._expression(place, function, _loosened(function, schema, loose))
            paths += [_path(function, name) for name in (*names, *loose)]
        except (InvalidParameter, NotWritable):
            paths, is_loose = [function.param], True
        paths = paths if is_loose else [*dict.fromkeys((*paths, *unwritten))]
        if is_loose:
            schema = ANY_OBJECT if isinstance(self._kind, JsonArguments) else outline_of(function)
            written, _ = self._expression(place, function, schema)
        self.notes += [f"{NOT_KEPT}: {path}" for path in paths]
        return written

    def _unwritten(self, function: Function) -> list[str]:
        """Paths of keywords in its schema that this notation does not enforce. Tagged values are JSON."""
        if isinstance(self._kind, JsonArguments):
            return []
        try:
            source = _source_of(function)
        except InvalidParameter:
            return []  # noted where it is written
        return found(source, function.param, JSON_ALONE, is_deep=not isinstance(self._kind, TaggedArguments))

    def _expression(self, place: int, function: Function, schema: dict[str, Any]) -> tuple[str, list[str]]:
        """A rule, and names of arguments that it does not fully enforce. Raises `NotWritable`."""
        rules, kind = self._rules, self._kind
        if isinstance(kind, JsonArguments):
            return rules.rule(rules.json(schema)), []
        definitions = schema.get("$defs", {})
        schema = {key: value for key, value in schema.items() if key != "$defs"}
        if isinstance(kind, PythonArguments):
            writing: Writing = PythonCall(rules, Shapes(rules, Python(rules), definitions))
        elif isinstance(kind, TaggedArguments):
            writing = TaggedNotation(rules, kind, ValueSchema.of(function))
        else:
            writing = Bare(rules, kind) if isinstance(kind, BareArguments) else NestedNotation(rules, kind)
        shapes = Shapes(rules, writing, definitions)
        written = either(_objects(shapes, writing, schema))
        self.bounded += [Bounded((place, name), text, _path(function, name)) for name, text in shapes.bounded]
        return rules.rule(written), shapes.loose


def _path(function: Function, name: str) -> str:
    return under(function.param, "properties", name)


def _loosened(function: Function, schema: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The schema in which these arguments may be any value of their types, and those that lost a keyword only that."""
    known = schema.get("properties")
    if not isinstance(known, dict):
        return schema
    values = ValueSchema.of(function)
    found = {
        name: typed(values.member(name).types & ALL_TYPES) if name in names or one in (True, {}) else one
        for name, one in known.items()
    }
    return schema | {"properties": found}


def _objects(shapes: Shapes, writing: Writing, schema: Schema, depth: int = 20) -> list[str]:
    """Expressions for the objects that a schema allows, one per alternative. Raises `NotWritable`."""
    if not isinstance(schema, dict) or not depth:
        raise NotWritable
    apart = schema.keys() & {"$ref", "allOf", "anyOf", "enum", "const"}
    if not apart:
        literals = shapes.rules.literals
        return [joined([literals.written(writing.opening), shapes.members(schema), literals.written(writing.closing)])]
    if schema.keys() - apart - {"type"} or len(apart) > 1:
        raise NotWritable
    others = schema.get("anyOf", schema.get("allOf", []))
    if "$ref" in schema:
        others = [shapes.resolved({"$ref": schema["$ref"]})]
    if not others or (len(others) > 1 and "anyOf" not in schema):
        raise NotWritable
    return [written for one in others for written in _objects(shapes, writing, one, depth - 1)]


def outline_of(function: Function) -> dict[str, Any]:
    """A schema with only the names and types of a function's arguments."""
    try:
        schema = json_of(Structure(kind="json_schema", source=function.parameters or "{}", param=function.param))
    except InvalidParameter:
        return ANY_OBJECT
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return ANY_OBJECT
    return ANY_OBJECT | {"properties": {name: _outline(one) for name, one in properties.items()}}


def _outline(schema: Any) -> dict[str, Any]:
    named = schema.get("type") if isinstance(schema, dict) else None
    return {"type": named} if isinstance(named, str) and named in OF_TYPE else {}


def _source_of(function: Function) -> Any:
    """The schema of a function's arguments, as sent. Raises `InvalidParameter`."""
    if not function.parameters:
        return ANY_OBJECT
    schema = json_of(Structure(kind="json_schema", source=function.parameters, param=function.param))
    return _of_object(schema, function.param)


def _of_object(schema: Any, path: str) -> Any:
    """The schema, restricted to objects."""
    if schema is True or schema is None:
        return ANY_OBJECT
    if not isinstance(schema, dict):
        return schema
    types = schema.get("type")
    if types == "object":
        return schema
    if types is None:
        return ANY_OBJECT | schema
    if isinstance(types, list) and "object" in types:
        return schema | {"type": "object"}
    raise refused(f"{path}.type", f"must be object, not {json.dumps(types)[:80]}")
