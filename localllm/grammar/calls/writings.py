"""Notations of a call's arguments other than JSON, for `shapes`.

For texts, lengths and patterns are enforced by a regular expression; for numbers, the same keywords as in JSON. Texts
never contain the literal that ends them. Knows nothing of calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from localllm.grammar.calls.texts import NotWritable, Schema, of_types
from localllm.grammar.calls.unmarked import unmarked
from localllm.grammar.calls.values import Shapes
from localllm.grammar.rules import Rules
from localllm.grammar.texts.literals import ANY, either, joined, quoted
from localllm.types.formats import BareArguments, NestedArguments

NAME = "[A-Za-z_][A-Za-z0-9_.-]*"
"""Names of members that the schema does not list."""
PARTED = frozenset({"array", "object"})
BLANK = r"/\s*/"


class Plain:
    """The common part of the notations; one that only writes members leaves values to another."""

    opening = separator = closing = list_opening = list_closing = ""
    keeps_all = True

    def text(self, _shapes: Shapes, _schema: Schema, _closing: str) -> str:
        raise NotWritable

    def constant(self, _value: Any, _closing: str) -> str:
        raise NotWritable

    def any(self, _schema: dict[str, Any], _closing: str) -> str:
        raise NotWritable

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def scalar(self, schema: dict[str, Any], closing: str) -> str:
        return self._then(self._rules.json(schema), closing)

    def alternatives(self, shapes: Shapes, schemas: Sequence[Schema], closing: str) -> str:
        return self._then(either([shapes.value(one) for one in schemas]), closing)

    def item(self) -> tuple[str, str]:
        return "", ""

    def _then(self, value: str, closing: str) -> str:
        return joined([value, self._rules.literals.written(closing)])


class Python(Plain):
    """`{"city": "Ulm", "days": [3, None]}`; JSON's constants are accepted as well."""

    opening, separator, closing = "{", ", ", "}"
    list_opening, list_closing = "[", "]"

    def text(self, shapes: Shapes, schema: Schema, closing: str) -> str:
        whole = shapes.whole(schema)
        written = self._rules.json(whole)
        if whole.keys() <= {"type"}:
            written = either([written, self._rules.terminal(r"/'[^'\\]*'/")])
        return self._then(written, closing)

    def scalar(self, schema: dict[str, Any], closing: str) -> str:
        words = {"boolean": ("True", "False", "true", "false"), "null": ("None", "null")}.get(schema["type"])
        return self._then(self._rules.json(schema) if words is None else either([*map(quoted, words)]), closing)

    def constant(self, value: Any, closing: str) -> str:
        return self._rules.literals.written(_python(value) + closing)

    def any(self, schema: dict[str, Any], closing: str) -> str:
        return self._then(self._rules.json(schema), closing)

    def member(self, shapes: Shapes, name: str, schema: Schema) -> str:
        return joined([quoted(json.dumps(name, ensure_ascii=False) + ": "), shapes.value(schema)])

    def other_member(self, shapes: Shapes, schema: Schema, but: Sequence[str]) -> str:
        name = other_name(f'"{NAME}"', [f'"{name}"' for name in but])
        return joined([self._rules.terminal(name), quoted(": "), shapes.value(schema)])


class PythonCall(Plain):
    """`city="Ulm", days=3`: the arguments of a call, whose values are `Python`."""

    separator = ", "

    def __init__(self, rules: Rules, values: Shapes) -> None:
        super().__init__(rules)
        self._values = values

    def member(self, _shapes: Shapes, name: str, schema: Schema) -> str:
        if not name or name != name.strip() or set(name) & set("=,()[]{}'\""):
            raise NotWritable
        return joined([quoted(f"{name}="), self._values.value(schema)])

    def other_member(self, _shapes: Shapes, schema: Schema, but: Sequence[str]) -> str:
        return joined([self._rules.terminal(other_name(NAME, but)), quoted("="), self._values.value(schema)])


class Bare(Plain):
    """`{city:<|"|>Ulm<|"|>,days:3}`: texts in the format's own quotes, which they never contain."""

    opening, separator, closing = "{", ",", "}"
    list_opening, list_closing = "[", "]"
    keeps_all = False

    def __init__(self, rules: Rules, kind: BareArguments) -> None:
        super().__init__(rules)
        self._quote = kind.quote
        self._any = ""

    def text(self, shapes: Shapes, schema: Schema, closing: str) -> str:
        return self._quoted(shapes.until(self._quote, shapes.text_of(schema)), closing)

    def _quoted(self, text: str, closing: str = "") -> str:
        return self._then(joined([self._rules.literals.written(self._quote), text]), closing)

    def constant(self, value: Any, closing: str) -> str:
        if isinstance(value, dict | list) or (isinstance(value, str) and self._quote in value):
            return ""
        text = f"{self._quote}{value}{self._quote}" if isinstance(value, str) else json.dumps(value)
        return self._rules.literals.written(text + closing)

    def any(self, _schema: dict[str, Any], closing: str) -> str:
        """Any value; the schema is not enforced."""
        if not self._any:
            self._any = self._rules.reserved()
            scalar = self._rules.json({"type": ["number", "boolean", "null"]})
            member = joined([self._rules.terminal(other_name(NAME, [])), quoted(":"), self._any])
            members, items = (f'({one} ("," {one})*)?' for one in (member, self._any))
            ways = [self._quoted(self._rules.until(self._quote)), scalar, f'"{{" {members} "}}"', f'"[" {items} "]"']
            self._rules.define(self._any, " | ".join(ways))
        return self._then(self._any, closing)

    def member(self, shapes: Shapes, name: str, schema: Schema) -> str:
        if not name or name != name.strip() or set(name) & set(':{}[],"'):
            raise NotWritable
        return joined([self._rules.literals.written(f"{name}:"), shapes.value(schema)])

    def other_member(self, shapes: Shapes, schema: Schema, but: Sequence[str]) -> str:
        return joined([self._rules.terminal(other_name(NAME, but)), quoted(":"), shapes.value(schema)])


class NestedNotation(Plain):
    """`<city>Ulm</city><days><item>3</item></days>`, each tag after a prefix."""

    keeps_all = False

    def __init__(self, rules: Rules, kind: NestedArguments) -> None:
        super().__init__(rules)
        self._prefix = kind.prefix

    def text(self, shapes: Shapes, schema: Schema, closing: str) -> str:
        return shapes.until(closing, shapes.text_of(schema))

    def constant(self, value: Any, closing: str) -> str:
        text = value if isinstance(value, str) else json.dumps(value)
        return "" if isinstance(value, dict | list) or closing in text else self._rules.literals.written(text + closing)

    def any(self, _schema: dict[str, Any], closing: str) -> str:
        """Any text, which readers may take for a number; the schema is not enforced."""
        return self._rules.until(closing, "/[^<]*/")

    def alternatives(self, shapes: Shapes, schemas: Sequence[Schema], closing: str) -> str:
        schema: Schema = {"anyOf": [*schemas]}
        types = shapes.types(schema)
        if types and "string" not in types:
            return either([shapes.value(one, closing) for one in schemas])
        parted = of_types(schema, PARTED, shapes.resolved)
        ways = [*unmarked(shapes, schema, types, closing, partial(self._texts, closing), but=PARTED)]
        if isinstance(parted, dict):
            ways += [shapes.value(one, closing) for one in parted["anyOf"]]
        if not ways:
            raise NotWritable
        return either(ways)

    def _texts(self, closing: str, shapes: Shapes, terminal: str, *, is_only: bool = True) -> Iterator[str]:
        yield shapes.until(closing, f"({terminal}) & ~({BLANK} {quoted(f'{self._prefix}<')} {ANY})", is_only=is_only)

    def member(self, shapes: Shapes, name: str, schema: Schema) -> str:
        if not name or set(name) & set("<>"):
            raise NotWritable
        opening = self._rules.literals.written(f"{self._prefix}<{name}>")
        return joined([opening, shapes.value(schema, f"{self._prefix}</{name}>")])

    def other_member(self, _shapes: Shapes, _schema: Schema, _but: Sequence[str]) -> str:
        """None, because its closing tag would have to repeat the name, which no rule can remember."""
        return ""

    def item(self) -> tuple[str, str]:
        return f"{self._prefix}<item>", f"{self._prefix}</item>"


def other_name(pattern: str, but: Sequence[str]) -> str:
    """A terminal for this pattern, excluding these names."""
    return f"/{pattern}/ & ~({' | '.join(map(quoted, but))})" if but else f"/{pattern}/"


def _python(value: Any) -> str:
    if isinstance(value, dict):
        members = (f"{json.dumps(key, ensure_ascii=False)}: {_python(one)}" for key, one in value.items())
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_python, value)) + "]"
    if value is None or isinstance(value, bool):
        return str(value)
    return json.dumps(value, ensure_ascii=False)
