"""The arguments of functions as rules of Lark, in the way in which a format has them written.

JSON keeps every keyword of the schema that a structured answer keeps. A function whose schema cannot be kept takes any
object, and a note says so; one that is strict is refused.
"""

from __future__ import annotations

import json
from typing import Any

from localllm.conversation import Function
from localllm.errors import InvalidParameter
from localllm.formats import AnswerSource
from localllm.grammar.refusals import refused
from localllm.grammar.rules import Rules
from localllm.grammar.schemas import checked
from localllm.grammar.sources import json_of
from localllm.structures import Structure

ANY_OBJECT: dict[str, Any] = {"type": "object"}
NOT_KEPT = "arguments-not-kept"


class ArgumentRules:
    """Of the functions of one source."""

    def __init__(self, rules: Rules, source: AnswerSource, loose: frozenset[int] | None) -> None:
        """`loose`: see `answers.grammars_of_answer`."""
        self._rules = rules
        self._format = source.format
        self.notes: list[str] = []
        self._schemas: dict[Function, dict[str, Any]] = {}
        if source.choice == "none":
            return
        for place, function in enumerate(source.functions):
            is_loose = not function.is_strict and (loose is None or place in loose)
            self._schemas[function] = self._schema(function, is_loose=is_loose)

    def of(self, function: Function) -> str:
        """The expression for its arguments."""
        return self._rules.json(self._schemas[function])

    def _schema(self, function: Function, *, is_loose: bool) -> dict[str, Any]:
        """Rewritten, of an object."""
        try:
            if not is_loose:
                return schema_of(function)
        except InvalidParameter:
            if function.is_strict:
                raise
        self.notes.append(f"{NOT_KEPT}: {function.param}")
        return ANY_OBJECT


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
