"""Removes the keywords of a schema that cannot be enforced.

Used for tools and for structured answers with `strict: false`, which may be constrained less than requested. The path
of each removed keyword is noted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from copy import deepcopy
from typing import Any

from localllm.errors import InvalidParameter
from localllm.grammar.refusals import under
from localllm.grammar.schema.notes import Notes
from localllm.grammar.schema.schemas import checked

MAX_LEFT_OUT = 20
_BY_NAME = ("properties", "patternProperties", "$defs", "definitions")
"""Keywords whose members are schemas by name."""


def loosened(schema: Any, param: str, notes: Notes) -> dict[str, Any]:
    """The schema in llguidance's form. Removed keywords are noted in `notes`, which is loose.

    Most are left out at once; others one after another, as errors name them. Raises `InvalidParameter` if that does not
    help, or if there are too many.
    """
    schema = deepcopy(schema)
    for _ in range(MAX_LEFT_OUT):
        try:
            return checked(schema, param, notes)
        except InvalidParameter as refusal:
            if not _leave_out(schema, param, refusal.param or ""):
                raise
            notes.leave_out(refusal.param or param)
    return checked(schema, param, notes)


def found(schema: Any, param: str, keywords: Collection[str], *, is_deep: bool) -> list[str]:
    """Paths of these keywords in the schema, or only at its root; `allOf` counts only with several schemas."""
    return [
        where
        for parent, key, where, is_named in _places(schema, param)
        if isinstance(parent, dict) and not is_named and key in keywords and (is_deep or parent is schema)
        if key != "allOf" or (isinstance(parent[key], list) and len(parent[key]) > 1)
    ]


def _leave_out(schema: Any, param: str, path: str) -> bool:
    """Remove the value at this path, if it is found; a schema becomes `{}`, which allows everything."""
    for parent, key, where, is_named in _places(schema, param):
        if where != path:
            continue
        if isinstance(parent, list) or is_named:
            if parent[key] == {}:
                return False
            parent[key] = {}
        else:
            del parent[key]
        return True
    return False


def _places(schema: Any, param: str) -> Iterator[tuple[Any, Any, str, bool]]:
    """All values in the schema: their container, key and path, and whether they are schemas by name."""
    waiting: list[tuple[Any, str, bool]] = [(schema, param, False)]
    while waiting:
        node, path, is_named = waiting.pop()
        members = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in [*members]:
            where = under(path, key)
            yield node, key, where, is_named
            waiting.append((value, where, isinstance(node, dict) and not is_named and key in _BY_NAME))
