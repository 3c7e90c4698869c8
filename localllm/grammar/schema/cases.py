"""Rewrites keywords that are cases in disguise, such as `if` and `not`, to `anyOf` and `allOf`.

The result allows only documents that the keyword allows, though not always all of them: an item that must be contained
comes among the first few. Knows nothing of the rewriting that follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from localllm.errors import InvalidParameter
from localllm.grammar.refusals import refused, under, unsupported
from localllm.grammar.schema.located import Located, either, together, types_but
from localllm.grammar.schema.negation import Negation

MAX_BEFORE = 3
"""How many other items may come before those that must be contained."""
MAX_CONTAINED = 50
MAX_CHOICES = 64
"""The most choices of properties among which `minProperties` or `maxProperties` is written as cases."""


class Cases:
    """For the schemas of one document."""

    def __init__(self, negation: Negation) -> None:
        self._negation = negation

    def parts(self, name: str, schema: dict[str, Any], path: str, base: str) -> list[Any]:
        """Schemas that, together with the other keywords, replace this one. Raises `InvalidParameter`."""
        match name:
            case "not":
                return [self._negation.of(schema[name], under(path, name), base)]
            case "if":
                return [self._conditional(schema, path, base)] if schema.keys() & {"then", "else"} else []
            case "dependentRequired" | "dependentSchemas" | "dependencies":
                return list(self._dependent(schema[name], under(path, name), base))
            case "contains":
                return [self._contains(schema, path, base)]
        return []

    def _conditional(self, schema: dict[str, Any], path: str, base: str) -> Any:
        asked, then, other = (
            Located(schema.get(name, True), under(path, name), base) for name in ("if", "then", "else")
        )
        first = together([asked, then])
        try:
            return either([first, together([self._negation.of(*asked), other])])
        except InvalidParameter:
            raise unsupported(asked.path, "its opposite cannot be written; write the cases as anyOf") from None

    def _dependent(self, dependents: Any, path: str, base: str) -> Iterator[Any]:
        if not isinstance(dependents, dict):
            raise refused(path, "must be an object")
        for name, value in dependents.items():
            here = under(path, name)
            if isinstance(value, str):  # Draft 3
                value = [value]
            if isinstance(value, list) and not all(isinstance(one, str) for one in value):
                raise refused(here, "must be a list of names")
            if value in ([], True, {}):
                continue
            present: Any = {"type": "object", "required": [name, *value] if isinstance(value, list) else [name]}
            if not isinstance(value, list):
                present = {"allOf": [present, Located(value, here, base)]}
            yield either([{"properties": {name: False}}, present])

    def _contains(self, schema: dict[str, Any], path: str, base: str) -> Any:
        one = Located(schema["contains"], under(path, "contains"), base)
        least = _count(schema.get("minContains", 1), under(path, "minContains"))
        most = schema.get("maxContains")
        options: list[Any] = [{"type": types_but("array")}]
        if most is None:
            if not least:
                return True
            for before in range(MAX_BEFORE + 1):
                options.append(_items([True] * before + [one] * least, True))
            return either(options)
        most = _count(most, under(path, "maxContains"))
        if most < least:
            raise refused(under(path, "maxContains"), "is less than minContains")
        other = self._negation.of(*one)
        for num in range(least, min(most, least + MAX_BEFORE) + 1):
            for before in range(MAX_BEFORE + 1 if num else 1):
                options.append(_items([other] * before + [one] * num, other))
        return either(options)


def _items(first: list[Any], others: Any) -> dict[str, Any]:
    return {"type": "array", "prefixItems": first, "items": others, "minItems": len(first)}


def _count(value: Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1 or value < 0:
        raise refused(path, "must be an integer, 0 or more")
    if value > MAX_CONTAINED:
        raise unsupported(path, f"at most {MAX_CONTAINED}")
    return int(value)


def counted(names: list[str], least: int, most: int | None) -> Any:
    """Objects with at least `least` and at most `most` of these properties; None if there are too many cases."""
    num = len(names)
    options: list[Any] = []
    if least > 0:
        chosen = _choices(names, least)
        if chosen is None:
            return None
        options.append(either([{"type": "object", "required": list(some)} for some in chosen]))
    if most is not None and most < num:
        chosen = _choices(names, num - most)
        if chosen is None:
            return None
        options.append(either([{"properties": dict.fromkeys(some, False)} for some in chosen]))
    return together(options)


def _choices(names: list[str], num: int) -> list[tuple[str, ...]] | None:
    found: list[tuple[str, ...]] = []
    for some in combinations(names, num):
        if len(found) == MAX_CHOICES:
            return None
        found.append(some)
    return found
