"""Rewrites the keywords of arrays, including older spellings."""

from __future__ import annotations

from typing import Any

from localllm.grammar.refusals import impossible, refused, under
from localllm.grammar.schema.rewriting import Rewriter
from localllm.grammar.schema.typed.strings import count

MAX_ITEMS = 10_000
"""Limit for bounds: each item up to the bound becomes a rule of the grammar."""


def rewritten(rewriter: Rewriter, named: dict[str, Any], path: str, base: str) -> dict[str, Any]:
    """`prefixItems`, `items`, `minItems` and `maxItems`. Raises `InvalidParameter`."""
    named = _current(named, path)
    found: dict[str, Any] = {}
    if "prefixItems" in named:
        prefix = named["prefixItems"]
        where = under(path, named.get("_prefix", "prefixItems"))
        if not isinstance(prefix, list):
            raise refused(where, "must be a list of schemas")
        found["prefixItems"] = [rewriter.schema(one, under(where, index), base) for index, one in enumerate(prefix)]
    if "items" in named:
        found["items"] = rewriter.schema(named["items"], under(path, named.get("_items", "items")), base)
    for name in ("minItems", "maxItems"):
        if name in named:
            found[name] = count(named[name], under(path, name), MAX_ITEMS)
    least = found.get("minItems", 0)
    most = min(found.get("maxItems", MAX_ITEMS), _open_ended(found))
    if least > most:
        raise impossible(under(path, "minItems"), f"is above {most}, the maximum number of items")
    return found


def _open_ended(found: dict[str, Any]) -> int:
    return len(found.get("prefixItems", ())) if found.get("items") is False else MAX_ITEMS


def _current(named: dict[str, Any], path: str) -> dict[str, Any]:
    """Convert to the spelling of Draft 2020-12; `_prefix` and `_items` hold the original names for paths."""
    named = dict(named)
    if isinstance(named.get("items"), list):
        if "prefixItems" in named:
            raise refused(under(path, "items"), "must be a schema if prefixItems is present")
        named |= {"prefixItems": named.pop("items"), "_prefix": "items"}
        if "additionalItems" in named:
            named |= {"items": named["additionalItems"], "_items": "additionalItems"}
    if "unevaluatedItems" in named and "items" not in named:
        named |= {"items": named["unevaluatedItems"], "_items": "unevaluatedItems"}
    return named
