"""The notation, for `shapes`, of arguments enclosed in literals of their own (Qwen3-Coder, GLM, DeepSeek's DSML).

Texts are unquoted and never contain the literal that follows; `enum`, lengths and patterns are enforced. Everything
else is JSON, with every keyword. A text that is one of several alternatives is written as JSON or does not look like
JSON, unless the format marks types.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from localllm.grammar.calls.values import NotWritable, Schema, Shapes
from localllm.grammar.calls.writings import NAME, UNLIKE_JSON, Plain, body_of, other_name
from localllm.grammar.rules import Rules, mark_of
from localllm.grammar.texts.literals import either, joined
from localllm.types.formats import TaggedArguments

_SIMPLE = {"type", "$defs"}
STRING = frozenset({"string"})


class TaggedNotation(Plain):
    """The notation of one format."""

    def __init__(self, rules: Rules, kind: TaggedArguments) -> None:
        super().__init__(rules)
        self._kind = kind
        self._marks = dict(kind.type_marks) if kind.before_type else {}
        self.separator = kind.between

    def text(self, schema: dict[str, Any], closing: str) -> str:
        return self._rules.until(closing, body_of(schema))

    def constant(self, value: Any, closing: str) -> str:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return "" if mark_of(closing) in text else self._rules.literals.written(text + closing)

    def any(self, schema: dict[str, Any], closing: str) -> str:
        return self._then(self._rules.json(schema), closing)

    def member(self, shapes: Shapes, name: str, schema: Schema) -> str:
        ends = mark_of(self._kind.before_type or self._kind.behind_key)
        if not name or name != name.strip() or ends in name:
            raise NotWritable
        return self._member(shapes, self._rules.literals.written(self._kind.before + name), schema)

    def other_member(self, shapes: Shapes, schema: Schema, but: Sequence[str]) -> str:
        name = self._rules.terminal(other_name(NAME, but))
        return self._member(shapes, joined([self._rules.literals.written(self._kind.before), name]), schema)

    def _member(self, shapes: Shapes, begun: str, schema: Schema) -> str:
        literals, kind = self._rules.literals, self._kind
        if not self._marks:
            return joined([begun, literals.written(kind.behind_key), self._unmarked(shapes, schema)])
        ways = [
            joined([literals.written(kind.before_type + mark + kind.behind_key), value])
            for mark, value in self._marked(shapes, schema)
        ]
        return joined([begun, either(ways)])

    def _unmarked(self, shapes: Shapes, schema: Schema) -> str:
        types, whole, after = shapes.types(schema), shapes.whole(schema), self._kind.after
        if types == STRING:
            return self._string(shapes, schema)
        if not whole:
            return self._rules.until(after)
        if any(_is_free(shapes, one) for one in _parts(shapes, schema)):
            return either([self._rules.until(after, UNLIKE_JSON), self.any(whole, after)])
        return self.any(whole, after)

    def _marked(self, shapes: Shapes, schema: Schema) -> Iterator[tuple[str, str]]:
        """Each possible type mark, and the values after it."""
        others: dict[str, list[Schema]] = {}
        for one in _parts(shapes, schema):
            types = shapes.types(one)
            if "string" in self._marks and types == STRING:
                yield self._marks["string"], self._string(shapes, one)
            elif "string" in self._marks and not types:
                yield self._marks["string"], self._rules.until(self._kind.after)
                others.setdefault(self._marks.get("*", ""), []).append(
                    {"type": ["number", "boolean", "object", "array"]}
                )
            else:
                mark = next((self._marks[each] for each in types if each in self._marks), self._marks.get("*", ""))
                others.setdefault(mark, []).append(one)
        for mark, schemas in others.items():
            yield mark, either([self.any(shapes.whole(one), self._kind.after) for one in schemas])

    def _string(self, shapes: Shapes, schema: Schema) -> str:
        """A value whose schema allows only texts."""
        whole = shapes.resolved(schema)
        if isinstance(whole, dict) and {"anyOf", "enum", "const", "type"} & whole.keys():
            return shapes.value(whole, self._kind.after)
        return self._rules.until(self._kind.after)


def _parts(shapes: Shapes, schema: Schema) -> Iterator[Schema]:
    """The alternatives of a schema, each of a single type if it lists types."""
    schema = shapes.resolved(schema)
    if isinstance(schema, dict) and schema.keys() == {"anyOf"}:
        for one in schema["anyOf"]:
            yield from _parts(shapes, one)
    elif isinstance(schema, dict) and isinstance(schema.get("type"), list) and not {"enum", "const"} & schema.keys():
        yield from (schema | {"type": one} for one in schema["type"])
    else:
        yield schema


def _is_free(shapes: Shapes, schema: Schema) -> bool:
    return isinstance(schema, dict) and schema.keys() <= _SIMPLE and shapes.types(schema) == STRING
