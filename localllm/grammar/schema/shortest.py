"""Estimates how long the shortest documents of a schema are, for those who have to end one in time.

    {"type": "array", "items": {"required": ["x"], ...}}      a further item takes {"x": 0}, eight bytes

Works on rewritten schemas. Knows nothing of tokens; what a pattern asks for is guessed.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from typing import Any, NamedTuple

from localllm.grammar.schema.rewriting import Schema
from localllm.grammar.texts.complements import SourcedPattern
from localllm.grammar.texts.opposites import example
from localllm.grammar.texts.patterns import PatternRefused

OF_ANYTHING = 8
"""Bytes of a name and a value that no schema describes."""
OF_PATTERN = 40
"""Bytes that a pattern or format may ask of a text."""
MAX_ROUNDS = 8
"""How often references are followed around."""
MAX_WORDS = 12
"""Words of patterns; each is tried at a place of a text."""

_DEFS = "#/$defs/"
_ANYTHING = "(?s:.*)"
"""In rewritten patterns: what may come before or behind what is asked for."""
_BARE = {"null": 4, "boolean": 4, "integer": 1, "number": 1, "string": 2, "array": 2, "object": 2}
_WORD = re.compile(r"(?:\[(?:\\x\{[0-9A-F]+\}|[^\]\\-]){1,2}\])+")
"""In rewritten patterns: characters, each a class of its own, or with its other case."""
_CHARACTER = re.compile(r"\[(?:\\x\{([0-9A-F]+)\}|(.))")


class Outline(NamedTuple):
    """What is known of a schema's shortest documents."""

    part_bytes: int = OF_ANYTHING
    """The most that a property or an item adds to a document, if each is as short as possible."""
    words: tuple[str, ...] = ()
    """What patterns spell, such as `.json`: a text may lack one of these to be whole."""


def outline(schema: dict[str, Any]) -> Outline:
    found = _Sizes(schema.get("$defs", {}))
    for _ in range(MAX_ROUNDS):
        before = dict(found.of_defs)
        found.of_defs = {name: found.of(one) for name, one in found.defs.items()}
        if found.of_defs == before:
            break
    part = max(found.of(schema), found.largest)
    return Outline(OF_ANYTHING if math.isinf(part) else int(part), tuple(found.words)[:MAX_WORDS])


class _Sizes:
    """Of the parts of one schema: bytes of the shortest documents; infinite if there are none."""

    def __init__(self, defs: dict[str, Schema]) -> None:
        self.defs = defs
        self.of_defs = dict.fromkeys(defs, math.inf)
        self.largest: float = OF_ANYTHING
        self.words: dict[str, None] = {}
        self._patterns: set[str] = set()

    def of(self, schema: Schema) -> float:
        if isinstance(schema, bool):
            return 1 if schema else math.inf
        sizes: list[float] = [self.of(one) for one in schema.get("allOf", ())]
        sizes += [min(map(self.of, schema[name])) for name in ("anyOf", "oneOf") if name in schema]
        if "$ref" in schema:
            sizes.append(self.of_defs.get(schema["$ref"].removeprefix(_DEFS), 1))
        if "const" in schema or "enum" in schema:
            values = schema["enum"] if "enum" in schema else [schema["const"]]
            return min(len(json.dumps(value, ensure_ascii=False).encode()) for value in values)
        types = schema.get("type", ())
        types = [types] if isinstance(types, str) else [*types]
        if not types:
            types = [kind for kind, names in _SHAPES.items() if schema.keys() & names]
        if types:
            sizes.append(min(self._typed(kind, schema) for kind in types))
        return sum(sizes) if sizes else 1

    def _typed(self, kind: str, schema: dict[str, Any]) -> float:
        if kind == "object":
            return self._object(schema)
        if kind == "array":
            return self._array(schema)
        if kind == "string":
            if isinstance(pattern := schema.get("pattern"), str):
                self._spell(pattern)
            least: int = schema.get("minLength", 0)
            return _BARE[kind] + least + OF_PATTERN * bool(schema.keys() & {"pattern", "format"})
        bounds = [str(schema[name]) for name in ("minimum", "maximum", "multipleOf") if name in schema]
        return max(map(len, bounds), default=_BARE[kind])

    def _spell(self, pattern: str) -> None:
        """Keep words of a pattern; of one that may occur anywhere, a text in which it does."""
        if pattern in self._patterns or len(self._patterns) >= MAX_WORDS:
            return
        self._patterns.add(pattern)
        if isinstance(pattern, SourcedPattern) and _ANYTHING in pattern:
            with contextlib.suppress(PatternRefused):
                self.words |= dict.fromkeys(filter(None, [example(pattern.required, pattern.excluded)]))
        self.words |= dict.fromkeys(_words(pattern))

    def _object(self, schema: dict[str, Any]) -> float:
        properties, required = schema.get("properties", {}), schema.get("required", ())
        sizes = {name: len(name.encode()) + 6 + self.of(one) for name, one in properties.items()}
        others = [self.of(one) for one in schema.get("patternProperties", {}).values()]
        for pattern in schema.get("patternProperties", ()):
            self._spell(pattern)
        others.append(self.of(schema.get("additionalProperties", True)))
        other = OF_ANYTHING + min(others)
        self._part(other)
        for size in sizes.values():
            self._part(size)
        num_more = max(0, schema.get("minProperties", 0) - len(required))
        optional = min([other, *(size for name, size in sizes.items() if name not in required)])
        return (
            _BARE["object"]
            + sum(sizes.get(name, len(name.encode()) + other) for name in required)
            + (num_more * optional if num_more else 0)
        )

    def _array(self, schema: dict[str, Any]) -> float:
        prefix = [2 + self.of(one) for one in schema.get("prefixItems", ())]
        item = 2 + self.of(schema.get("items", True))
        for size in (*prefix, item):
            self._part(size)
        least = schema.get("minItems", 0)
        num_more = max(0, least - len(prefix))
        return _BARE["array"] + sum(prefix[:least]) + (num_more * item if num_more else 0)

    def _part(self, size: float) -> None:
        if not math.isinf(size):
            self.largest = max(self.largest, size)


_SHAPES = {
    "object": {"properties", "required", "additionalProperties", "patternProperties", "minProperties"},
    "array": {"items", "prefixItems", "minItems"},
}


def _words(pattern: str) -> list[str]:
    """What a rewritten pattern spells letter by letter."""
    words = (_CHARACTER.findall(word) for word in _WORD.findall(pattern))
    return ["".join(chr(int(code, 16)) if code else letter for code, letter in word) for word in words]
