"""A schema without the parts that cannot be enforced: keyword after keyword is left out, as errors name them.

For tools, whose arguments may be held to less than was asked for, unlike a structured answer. The path of each omitted
keyword is reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from copy import deepcopy
from typing import Any

from localllm.errors import InvalidParameter
from localllm.grammar.refusals import under
from localllm.grammar.schemas import checked

MAX_LEFT_OUT = 20
_BY_NAME = ("properties", "patternProperties", "$defs", "definitions")
"""Their members are schemas by name."""


def loosened(schema: Any, param: str) -> tuple[dict[str, Any], list[str]]:
    """The schema in llguidance's form, and the paths of what was left out.

    Raises `InvalidParameter` where leaving out does not help, or too much would have to be left out.
    """
    schema = deepcopy(schema)
    paths: list[str] = []
    while True:
        try:
            return checked(schema, param), paths
        except InvalidParameter as refusal:
            if len(paths) == MAX_LEFT_OUT or not _leave_out(schema, param, refusal.param or ""):
                raise
            paths.append(refusal.param or param)


def found(schema: Any, param: str, keywords: Collection[str], *, is_deep: bool) -> list[str]:
    """Paths of these keywords in it, or only at its root; `allOf` only where it has several schemas."""
    return [
        where
        for parent, key, where, is_named in _places(schema, param)
        if isinstance(parent, dict) and not is_named and key in keywords and (is_deep or parent is schema)
        if key != "allOf" or len(parent[key]) > 1
    ]


def _leave_out(schema: Any, param: str, path: str) -> bool:
    """Removes what is at this path, if it is found; a schema becomes one that allows everything."""
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
    """Everything in it: its container, its key there, its path, and whether it is a named schema."""
    waiting: list[tuple[Any, str, bool]] = [(schema, param, False)]
    while waiting:
        node, path, is_named = waiting.pop()
        members = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in [*members]:
            where = under(path, key)
            yield node, key, where, is_named
            waiting.append((value, where, isinstance(node, dict) and not is_named and key in _BY_NAME))
