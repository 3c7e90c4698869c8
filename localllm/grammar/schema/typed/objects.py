"""Rewrites the keywords of objects. Properties come in the order of `properties`, then of `required`, then all others.

An object that lists properties, without keywords for others, has only those, unless another schema adds to it.

A grammar cannot keep the names of unlisted properties distinct: a document may have one of them twice, of which readers
take the last. So a `minProperties` that counts more than one of them is rejected where that is not checked otherwise.
"""

from __future__ import annotations

import re
from typing import Any

from localllm.grammar.refusals import impossible, refused, under, unsupported
from localllm.grammar.schema.cases import counted
from localllm.grammar.schema.keywords import REFERENCES
from localllm.grammar.schema.located import Located
from localllm.grammar.schema.rewriting import Rewriter
from localllm.grammar.schema.typed import property_names, strings

MAX_PROPERTIES = 2**31 - 1
_UNLISTED = frozenset({
    *REFERENCES, "patternProperties", "additionalProperties", "propertyNames", "unevaluatedProperties"
})  # fmt: skip
"""Keywords with which a schema may mention properties that it does not list."""


def rewritten(rewriter: Rewriter, named: dict[str, Any], path: str, base: str) -> dict[str, Any]:
    """The keywords in llguidance's form. Raises `InvalidParameter`."""
    found: dict[str, Any] = {}
    for name in named:
        here = under(path, name)
        if name == "properties" or name == "patternProperties":
            found[name] = {
                key: rewriter.schema(one, under(here, key), base) for key, one in _members(named[name], here).items()
            }
        elif name == "additionalProperties":
            found[name] = rewriter.schema(named[name], here, base)
        elif name == "required":
            found[name] = _required(named[name], here)
        elif name in ("minProperties", "maxProperties"):
            found[name] = strings.count(named[name], here, MAX_PROPERTIES)
    _once(found)
    if "unevaluatedProperties" in named and "additionalProperties" not in found:
        here = under(path, "unevaluatedProperties")
        found["additionalProperties"] = rewriter.schema(named["unevaluatedProperties"], here, base)
    found = property_names.rewritten(rewriter, named, found, path, base)
    if not rewriter.is_part and _lists_all(found):
        found["additionalProperties"] = False
    _count(found, path, names_are_distinct=rewriter.names_are_distinct)
    _check_required(found, path)
    return found


def _once(found: dict[str, Any]) -> None:
    """Leave a property's schema to a pattern of its name that asks the same: llguidance combines both, which it cannot
    where they are recursive."""
    for pattern, same in found.get("patternProperties", {}).items():
        for name, one in found.get("properties", {}).items():
            if isinstance(one, dict) and one == same and name.isascii() and _matches(pattern, name):
                found["properties"][name] = True


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name, re.ASCII) is not None
    except re.error:
        return False


def lists_all(named: dict[str, Any], parts: list[Any]) -> bool:
    """Whether a schema lists properties without a keyword for others, and the `parts` of its cases mention no
    others."""
    listed = named.get("properties")
    if not isinstance(listed, dict) or not _lists_all(named) or "propertyNames" in named:
        return False
    waiting, names = [*parts], set[str]()
    while waiting:
        one = waiting.pop()
        one = one.schema if isinstance(one, Located) else one
        if not isinstance(one, dict):
            continue
        if one.keys() & {
            *REFERENCES,
            "patternProperties",
            "additionalProperties",
            "propertyNames",
            "unevaluatedProperties",
        }:
            return False
        inner = one.get("properties")
        names |= {*(inner if isinstance(inner, dict) else ()), *filter(_is_text, one.get("required", ()))}
        for name in ("allOf", "anyOf", "oneOf"):
            waiting += one.get(name, ())
        waiting += [one[name] for name in ("not", "if", "then", "else") if name in one]
    return names <= listed.keys()


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _lists_all(found: dict[str, Any]) -> bool:
    """Whether it lists properties and has no keyword for others, which are then excluded: documents remain valid, and a
    model allowed to add properties might never stop."""
    if "properties" not in found or {"additionalProperties", "patternProperties", "minProperties"} & found.keys():
        return False
    return bool(found["properties"].keys() >= set(found.get("required", ())))


def _members(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise refused(path, "must be an object of schemas by name")
    return value


def _required(value: Any, path: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise refused(path, "must be a list of names")
    return list(dict.fromkeys(value))


def _check_required(found: dict[str, Any], path: str) -> None:
    properties, is_closed = found.get("properties", {}), found.get("additionalProperties") is False
    for name in found.get("required", ()):
        is_impossible = properties.get(name) is False
        if is_impossible or (is_closed and name not in properties and "patternProperties" not in found):
            raise impossible(under(path, "required"), f"names {name[:80]!r}, which the schema does not allow")


def _count(found: dict[str, Any], path: str, *, names_are_distinct: bool) -> None:
    """Drop `minProperties` and `maxProperties` if other keywords imply them; reject what cannot be enforced."""
    num_required = len(found.get("required", ()))
    required = set(found.get("required", ()))
    optional = [name for name, one in found.get("properties", {}).items() if name not in required and one is not False]
    is_closed = found.get("additionalProperties") is False and "patternProperties" not in found
    most = found.get("maxProperties")
    if most is not None and most < max(num_required, found.get("minProperties", 0)):
        raise impossible(under(path, "maxProperties"), "is less than required or minProperties demands")
    if most is not None and is_closed and most >= num_required + len(optional):
        del found["maxProperties"]
    least = found.get("minProperties", 0)
    if least <= num_required:
        found.pop("minProperties", None)
    elif is_closed and least > num_required + len(optional):
        raise impossible(under(path, "minProperties"), "exceeds the number of properties that the schema allows")
    elif least > num_required + max(1, len(optional)):
        if not names_are_distinct:
            raise unsupported(
                under(path, "minProperties"), f"at most {num_required + 1} here; list more of them in required"
            )
        if optional:  # llguidance counts only where none is optional
            found["required"], optional = [*found.get("required", ()), *optional], []
    if optional and {"minProperties", "maxProperties"} & found.keys():
        _count_optional(found, optional, path)


def _count_optional(found: dict[str, Any], optional: list[str], path: str) -> None:
    """Write how many of the optional properties there must be, or may be, as cases: llguidance counts them only if no
    property is optional."""
    num_required = len(found.get("required", ()))
    least, most = found.pop("minProperties", 0), found.pop("maxProperties", None)
    part = counted(optional, max(0, least - num_required), None if most is None else most - num_required)
    if part is None:
        name = "maxProperties" if most is not None else "minProperties"
        raise unsupported(under(path, name), "not beside so many optional properties; list them in required")
    if most is not None:
        found["additionalProperties"] = False
    if part is not True:
        found["allOf"] = [part]
