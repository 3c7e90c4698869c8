"""Collects the rules of one Lark grammar and the JSON grammars they refer to. Knows nothing of their meaning."""

from __future__ import annotations

import json
from typing import Any

from localllm.grammar.texts.literals import ANY, Literals, joined, parts_of, quoted

Grammar = dict[str, Any]
"""One entry of llguidance's list: `name` and either `json_schema` or `lark_grammar`."""


class Rules:
    """The rules of one grammar."""

    def __init__(self, literals: Literals, options: dict[str, Any]) -> None:
        """`options`: options for JSON grammars, from `whitespace.options`."""
        self.literals = literals
        self.grammars: list[Grammar] = []
        self._options = options
        self._lines: list[str] = []
        self._names: dict[tuple[str, str, bool], str] = {}
        self._json: dict[str, str] = {}

    def rule(self, body: str, options: str = "") -> str:
        """The name of a rule with this body."""
        return self._named(body, options, is_terminal=False)

    def terminal(self, body: str) -> str:
        """The name of a terminal: one regular expression, possibly with `&` and `~`."""
        return self._named(body, "", is_terminal=True)

    def reserved(self) -> str:
        """The name of a rule to be defined later, as recursion requires."""
        name = f"r{len(self._names)}"
        self._names[name, "reserved", False] = name
        return name

    def define(self, name: str, body: str) -> None:
        self._lines.append(f"{name}: {body}")

    def json(self, schema: dict[str, Any]) -> str:
        """An expression for a JSON document of a rewritten schema."""
        text = json.dumps(schema, ensure_ascii=False)
        if text not in self._json:
            name = f"json{len(self._json)}"
            self._json[text] = f"@{name}"
            self.grammars.append({"name": name, "json_schema": schema | {"x-guidance": self._options}})
        return self._json[text]

    def until(self, closing: str, body: str = ANY) -> str:
        """An expression for a text followed by this literal.

        The text matches the terminal `body` and contains no special tokens. It contains neither the literal nor the
        part of it that readers take for the end, see `mark_of`.
        """
        mark = quoted(mark_of(closing))
        free = f"(({body}) & ~({ANY} {mark} {ANY}))"
        segments = self.literals.segments(closing)
        if all(isinstance(part, str) for part in segments):
            return self.rule(self.terminal(f"{free} {quoted(closing)}"), "[lazy]")
        first = quoted(segments[0]) if isinstance(segments[0], str) else ""
        behind = closing[len(segments[0]) if isinstance(segments[0], str) else 0 :]
        return joined([self.terminal(joined([free, first])), self.literals.written(behind)])

    def text(self, start: str) -> str:
        """The grammar's text, with this start expression.

        Lazy rules come first: of several terminals that match the same text, llguidance takes the first one defined.
        """
        lines = sorted(self._lines, key=lambda line: "[lazy]:" not in line)
        return "\n".join(["%llguidance {}", *lines, f"start: {start}", ""])

    def _named(self, body: str, options: str, *, is_terminal: bool) -> str:
        key = body, options, is_terminal
        if key not in self._names:
            self._names[key] = name = f"{'T' if is_terminal else 'r'}{len(self._names)}"
            self._lines.append(f"{name}{options}: {body}")
        return self._names[key]


def mark_of(literal: str) -> str:
    """The part of a closing literal that readers look for: its first part, without surrounding white space."""
    return next(iter(parts_of(literal)), literal)
