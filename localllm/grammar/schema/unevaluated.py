"""Which properties and items other keywords evaluate, so that `unevaluatedProperties` becomes `additionalProperties`.

Each way through `anyOf`, `oneOf` and `if` is a case of its own. Knows nothing of the rewriting that follows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from localllm.grammar.refusals import under, unsupported
from localllm.grammar.schema.keywords import REFERENCES
from localllm.grammar.schema.located import Located, either, together
from localllm.grammar.schema.negation import Negation
from localllm.grammar.schema.references import References, base_of

MAX_CASES = 64
MAX_DEPTH = 20


@dataclass(frozen=True)
class _Case:
    """One way to match a schema, and what is evaluated then."""

    parts: tuple[Any, ...] = ()
    names: dict[str, Any] = field(default_factory=dict)
    patterns: dict[str, Any] = field(default_factory=dict)
    num_items: int = 0
    has_all_names: bool = False
    has_all_items: bool = False

    def with_(self, other: _Case) -> _Case:
        return _Case(
            self.parts + other.parts,
            self.names | other.names,
            self.patterns | other.patterns,
            max(self.num_items, other.num_items),
            self.has_all_names or other.has_all_names,
            self.has_all_items or other.has_all_items,
        )


class Unevaluated:
    """For the schemas of one document."""

    def __init__(self, references: References, negation: Negation) -> None:
        self._references = references
        self._negation = negation

    def part(self, name: str, schema: dict[str, Any], path: str, base: str) -> Any:
        """A schema that replaces this keyword, `unevaluatedProperties` or `unevaluatedItems`."""
        here = under(path, name)
        rest, options = Located(schema[name], here, base), []
        own = {key: value for key, value in schema.items() if key not in ("unevaluatedProperties", "unevaluatedItems")}
        for case in self._cases(own, path, base, here, 0):
            closed: dict[str, Any] = {}
            if name == "unevaluatedProperties" and not case.has_all_names:
                closed = {
                    "properties": case.names,
                    "patternProperties": case.patterns,
                    "additionalProperties": rest,
                }
                closed = {key: value for key, value in closed.items() if value != {} or key == "additionalProperties"}
            elif name == "unevaluatedItems" and not case.has_all_items:
                closed = {"prefixItems": [True] * case.num_items, "items": rest}
            options.append(together([*case.parts, *([closed] if closed else [])]))
        return either(options)

    def _cases(self, schema: Any, path: str, base: str, asked: str, depth: int) -> list[_Case]:
        if isinstance(schema, bool) or not isinstance(schema, dict):
            return [_Case()]
        if depth > MAX_DEPTH:
            raise unsupported(asked, "the schemas beside it refer to each other too deeply")
        if "contains" in schema and asked.endswith("unevaluatedItems"):
            raise unsupported(asked, "not beside contains; write items")
        base = base_of(schema, base)
        found = [self._own(schema)]
        for name in REFERENCES:
            if name in schema:
                find = self._references.target if name == "$ref" else self._references.dynamic_target
                target = find(schema[name], under(path, name), base)
                found = self._product(found, self._cases(*target, asked, depth + 1), asked)
        for index, one in enumerate(schema.get("allOf", ())):
            found = self._product(found, self._cases(one, under(path, "allOf", index), base, asked, depth + 1), asked)
        for name in ("anyOf", "oneOf"):
            if name in schema:
                options: list[_Case] = []
                for index, one in enumerate(schema[name]):
                    where = under(path, name, index)
                    inner = self._cases(one, where, base, asked, depth + 1)
                    options += [replace(each, parts=(Located(one, where, base), *each.parts)) for each in inner]
                found = self._product(found, options, asked)
        if "if" in schema:
            found = self._product(found, self._conditional(schema, path, base, asked, depth), asked)
        for name, one in _members(schema, "dependentSchemas"):
            where = under(path, "dependentSchemas", name)
            present = {"type": "object", "required": [name]}
            inner = self._cases(one, where, base, asked, depth + 1)
            with_it = [replace(each, parts=(present, Located(one, where, base), *each.parts)) for each in inner]
            found = self._product(found, [_Case(({"properties": {name: False}},)), *with_it], asked)
        return found

    def _own(self, schema: dict[str, Any]) -> _Case:
        first = schema.get("items")
        return _Case(
            names=dict.fromkeys(dict(_members(schema, "properties")), True),
            patterns=dict.fromkeys(dict(_members(schema, "patternProperties")), True),
            num_items=len(first) if isinstance(first, list) else len(schema.get("prefixItems", ())),
            has_all_names="additionalProperties" in schema or "unevaluatedProperties" in schema,
            has_all_items=isinstance(first, dict | bool)
            or ("additionalItems" in schema and isinstance(first, list))
            or "unevaluatedItems" in schema,
        )

    def _conditional(self, schema: dict[str, Any], path: str, base: str, asked: str, depth: int) -> list[_Case]:
        first, then, other = (
            Located(schema.get(name, True), under(path, name), base) for name in ("if", "then", "else")
        )
        met = self._product(self._cases(*first, asked, depth + 1), self._cases(*then, asked, depth + 1), asked)
        unmet = self._cases(*other, asked, depth + 1)
        opposite = self._negation.of(*first)
        return [
            *(replace(each, parts=(first, then, *each.parts)) for each in met),
            *(replace(each, parts=(opposite, other, *each.parts)) for each in unmet),
        ]

    def _product(self, some: list[_Case], others: list[_Case], asked: str) -> list[_Case]:
        if len(some) * len(others) > MAX_CASES:
            raise unsupported(asked, f"the schemas beside it leave more than {MAX_CASES} cases; write them apart")
        return [one.with_(other) for one in some for other in others]


def _members(schema: dict[str, Any], name: str) -> list[tuple[str, Any]]:
    value = schema.get(name)
    return [*value.items()] if isinstance(value, dict) else []
