"""The arguments of functions as rules of Lark, in the way in which a format has them written.

JSON keeps every keyword of the schema that a structured answer keeps. A function whose schema cannot be kept takes any
object, and a note says so; one that is strict is refused.
"""

from __future__ import annotations

import json
from typing import Any

from localllm.conversation import Function
from localllm.errors import InvalidParameter
from localllm.formats import AnswerSource, BareArguments, JsonArguments, PythonArguments, TaggedArguments
from localllm.grammar.keywords import OF_TYPE
from localllm.grammar.literals import joined
from localllm.grammar.refusals import refused, unsupported
from localllm.grammar.rules import Rules
from localllm.grammar.schemas import checked
from localllm.grammar.shapes import NotWritable, Shapes, Writing
from localllm.grammar.sources import json_of
from localllm.grammar.tagged import Tagged
from localllm.grammar.writings import Bare, Nested, Python, PythonCall
from localllm.structures import Structure

ANY_OBJECT: dict[str, Any] = {"type": "object"}
NOT_KEPT = "arguments-not-kept"


class ArgumentRules:
    """Of the functions of one source."""

    def __init__(self, rules: Rules, source: AnswerSource, loose: frozenset[int] | None) -> None:
        """`loose`: see `answers.grammars_of_answer`. Raises `InvalidParameter` for strict functions."""
        self._rules = rules
        self._kind = JsonArguments() if source.format.calls is None else source.format.calls.arguments
        self.notes: list[str] = []
        self._written: dict[Function, str] = {}
        for place, function in enumerate(source.functions if source.choice != "none" else ()):
            is_loose = not function.is_strict and (loose is None or place in loose)
            self._written[function] = self._kept(function, is_loose=is_loose)

    def of(self, function: Function) -> str:
        """The expression for its arguments."""
        return self._written[function]

    def _kept(self, function: Function, *, is_loose: bool) -> str:
        """Its arguments as its schema has them, or as any object, with a note."""
        try:
            if not is_loose:
                return self._rules.rule(self._expression(schema_of(function)))
        except InvalidParameter:
            if function.is_strict:
                raise
        except NotWritable:
            if function.is_strict:
                raise unsupported(function.param, "this model's format of calls has no way to write it") from None
        self.notes.append(f"{NOT_KEPT}: {function.param}")
        schema = ANY_OBJECT if isinstance(self._kind, JsonArguments) else outline_of(function)
        return self._rules.rule(self._expression(schema))

    def _expression(self, schema: dict[str, Any]) -> str:
        """Raises `NotWritable`."""
        rules, kind = self._rules, self._kind
        if isinstance(kind, JsonArguments):
            return rules.json(schema)
        definitions = schema.get("$defs", {})
        schema = {key: value for key, value in schema.items() if key != "$defs"}
        if isinstance(kind, PythonArguments):
            writing: Writing = PythonCall(rules, Shapes(rules, Python(rules), definitions))
        elif isinstance(kind, TaggedArguments):
            writing = Tagged(rules, kind)
        else:
            writing = Bare(rules, kind) if isinstance(kind, BareArguments) else Nested(rules, kind)
        shapes = Shapes(rules, writing, definitions)
        whole = shapes.resolved(schema)
        while isinstance(whole, dict) and whole.keys() == {"allOf"}:
            others = [one for one in whole["allOf"] if one != ANY_OBJECT]
            if len(others) > 1:
                raise NotWritable
            whole = shapes.resolved(others[0] if others else ANY_OBJECT)
        if not isinstance(whole, dict) or whole.keys() & {"anyOf", "allOf", "enum", "const", "$ref"}:
            raise NotWritable
        literals = rules.literals
        return joined([literals.written(writing.opening), shapes.members(whole), literals.written(writing.closing)])


def outline_of(function: Function) -> dict[str, Any]:
    """The names of its arguments and their types, and no more."""
    schema = json.loads(function.parameters or "{}")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return ANY_OBJECT
    return ANY_OBJECT | {"properties": {name: _outline(one) for name, one in properties.items()}}


def _outline(schema: Any) -> dict[str, Any]:
    named = schema.get("type") if isinstance(schema, dict) else None
    return {"type": named} if isinstance(named, str) and named in OF_TYPE else {}


def schema_of(function: Function) -> dict[str, Any]:
    """Of its arguments, rewritten as `checked` does. Raises `InvalidParameter`."""
    if not function.parameters:
        return ANY_OBJECT
    schema = json_of(Structure(kind="json_schema", source=function.parameters, param=function.param))
    return checked(_of_object(schema, function.param), function.param)


def _of_object(schema: Any, path: str) -> Any:
    """The same, for objects alone."""
    if schema is True or schema is None:
        return ANY_OBJECT
    if not isinstance(schema, dict):
        return schema
    types = schema.get("type")
    if types == "object":
        return schema
    if types is None:
        combines = {"$ref", "allOf", "anyOf", "oneOf"} & schema.keys()
        return {"allOf": [{"type": "object"}, schema]} if combines else {"type": "object"} | schema
    if isinstance(types, list) and "object" in types:
        return schema | {"type": "object"}
    raise refused(f"{path}.type", f"must be object, not {json.dumps(types)[:80]}")
