"""Finds the keyword at fault when llguidance rejects a schema, because llguidance does not say which one it is.

Tries subschemas alone, from the outside in, and then leaves out one keyword after another. The caller compiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from localllm.errors import InvalidParameter
from localllm.grammar.compose import grammar_of_schema
from localllm.grammar.refusals import under
from localllm.grammar.schema.documents import json_of
from localllm.grammar.schema.keywords import KEPT
from localllm.grammar.schema.notes import NONE, Concessions, Notes
from localllm.grammar.schema.references import base_of
from localllm.grammar.schema.schemas import DocumentRewriter, Part
from localllm.types.structures import Structure

MAX_TRIES = 300

_BY_NAME = ("properties", "patternProperties")
_LISTS = ("prefixItems", "items", "allOf", "anyOf", "oneOf")
_SINGLE = ("items", "additionalProperties", "additionalItems", "unevaluatedProperties", "unevaluatedItems")


def culprit(structure: Structure, compiles: Callable[[str], bool], concessions: Concessions = NONE) -> str:
    """Path of the smallest schema that does not compile, with the keyword if one alone is at fault; otherwise the
    structure's own path.

    `compiles`: whether llguidance accepts this grammar within the same limits. `concessions`: what is left out.
    """
    if structure.kind != "json_schema":
        return structure.param
    search = _Search(structure, compiles, concessions)
    here: Part = (search.root, structure.param, "")
    if search.is_fine(here):
        return structure.param
    while True:
        inner = next((part for part in search.parts(here) if not search.is_fine(part)), None)
        if inner is None:
            break
        here = inner
    schema, path, base = here
    named = [name for name in schema if name in KEPT] if isinstance(schema, dict) else []
    for name in named if len(named) > 1 else ():
        if name != "type" and search.is_fine(({key: one for key, one in schema.items() if key != name}, path, base)):
            return under(path, name)
    return under(path, named[0]) if len(named) == 1 else path


class _Search:
    """Search in one schema, with a bounded number of attempts."""

    def __init__(self, structure: Structure, compiles: Callable[[str], bool], concessions: Concessions) -> None:
        self.root = json_of(structure)
        self._structure = structure
        self._compiles = compiles
        self._concessions = concessions
        self._tries = 0
        self._visited = {structure.param}

    def is_fine(self, part: Part) -> bool:
        """Whether the part compiles alone. True, too, after too many attempts."""
        self._tries += 1
        if self._tries > MAX_TRIES:
            return True
        try:
            notes = Notes(is_loose=not self._structure.is_strict, concessions=self._concessions, is_checked=True)
            schema = DocumentRewriter(self.root, self._structure.param, notes).result(part)
        except InvalidParameter:
            return False
        return self._compiles(grammar_of_schema(self._structure, schema))

    def parts(self, part: Part) -> Iterator[Part]:
        """Its direct subschemas and the schemas that it refers to, each once."""
        schema, path, base = part
        if not isinstance(schema, dict):
            return
        base = base_of(schema, base)
        for one, where, its_base in self._inside(schema, path, base):
            if where not in self._visited:
                self._visited.add(where)
                yield one, where, its_base

    def _inside(self, schema: dict[str, Any], path: str, base: str) -> Iterator[Part]:
        for name, value in schema.items():
            here = under(path, name)
            if name in _BY_NAME and isinstance(value, dict):
                yield from ((one, under(here, key), base) for key, one in value.items())
            elif name in _LISTS and isinstance(value, list):
                yield from ((one, under(here, index), base) for index, one in enumerate(value))
            elif name in _SINGLE:
                yield value, here, base
            elif name == "$ref":
                yield DocumentRewriter(self.root, self._structure.param).target(value, here, base)
