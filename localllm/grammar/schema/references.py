"""Resolves a schema's `$ref` and `$dynamicRef`: local pointers, anchors and embedded `$id`s. Never fetches anything."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from localllm.grammar.refusals import refused, under

_INDEX = re.compile(r"\d{1,9}")
"""Bounded, because Python refuses to convert thousands of digits."""

_NO_SCHEMAS = frozenset({"enum", "const", "default", "examples", "example"})
"""Members that are data, in which `$id` has no meaning."""

_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Members whose members are schemas under arbitrary names, of which `$id` may be one."""


class Target(NamedTuple):
    """The target of a reference."""

    schema: Any
    path: str
    base: str
    """The base URI for references inside it."""


class References:
    """The references of one document."""

    def __init__(self, root: Any, path: str) -> None:
        self._resources: dict[str, tuple[Any, str]] = {"": (root, path)}
        self._anchors: dict[tuple[str, str], Target] = {}
        self._dynamic: dict[str, dict[str, Target]] = {}
        """Name of a `$dynamicAnchor` -> base URI -> where it is. `$recursiveAnchor` counts as one without a name."""
        if isinstance(root, dict) and isinstance(root.get("id"), str):  # Draft 4
            self._resources[_joined("", root["id"]) or ""] = (root, path)
        self._root_base = base_of(root, "")
        self._survey(root, path)

    def _survey(self, root: Any, path: str) -> None:
        waiting: list[tuple[Any, str, str]] = [(root, path, "")]
        while waiting:
            value, here, base = waiting.pop()
            if isinstance(value, list):
                waiting += [(child, under(here, index), base) for index, child in enumerate(value)]
            if not isinstance(value, dict):
                continue
            base = base_of(value, base)
            self._resources.setdefault(base, (value, here))
            self._note_anchors(value, here, base)
            for name, child in value.items():
                if name in _BY_NAME and isinstance(child, dict):
                    waiting += [(one, under(here, name, key), base) for key, one in child.items()]
                elif name not in _NO_SCHEMAS:
                    waiting.append((child, under(here, name), base))

    def _note_anchors(self, schema: dict[str, Any], path: str, base: str) -> None:
        for keyword in ("$anchor", "$dynamicAnchor", "$id", "id"):
            name = schema.get(keyword)
            if not isinstance(name, str) or (keyword in ("$id", "id") and not name.startswith("#")):
                continue
            self._anchors[base, name.removeprefix("#")] = Target(schema, path, base)  # `#name`: up to Draft 7
            if keyword == "$dynamicAnchor":
                self._dynamic.setdefault(name, {})[base] = Target(schema, path, base)
        if schema.get("$recursiveAnchor") is True:
            self._dynamic.setdefault("", {})[base] = Target(schema, path, base)

    def dynamic_target(self, reference: Any, path: str, base: str) -> Target:
        """The target of a `$dynamicRef` or `$recursiveRef`: of the document's own resource, which is the outermost, if
        it has that anchor. Raises `InvalidParameter`."""
        first = self.target(reference, path, base)
        name = unquote(str(reference).partition("#")[2])
        others = self._dynamic.get(name, {})
        if first.base not in others or others[first.base].schema is not first.schema:
            return first
        if self._root_base in others:
            return others[self._root_base]
        if len(others) > 1:
            raise refused(path, f"may point to several schemas with the anchor {name[:80]!r}; write $ref")
        return first

    def target(self, reference: Any, path: str, base: str) -> Target:
        """The target of the reference at `path`. Raises `InvalidParameter`."""
        if not isinstance(reference, str):
            raise refused(path, "must be a string")
        uri = base if reference.startswith("#") else _joined(base, reference)
        fragment = reference.partition("#")[2]
        if uri is None or uri not in self._resources:
            raise refused(path, f"points outside the schema ({reference[:80]}); copy the target into $defs")
        if fragment and not fragment.startswith("/"):
            anchored = self._anchors.get((uri, unquote(fragment)))
            if anchored is None:
                raise refused(path, f"points to an anchor that the schema does not have ({reference[:80]})")
            return anchored
        schema, where = self._resources[uri]
        for step in unquote(fragment).split("/")[1:]:
            schema, where = _member(schema, where, step.replace("~1", "/").replace("~0", "~"), reference, path)
            uri = base_of(schema, uri)
        return Target(schema, where, uri)


def base_of(schema: Any, base: str) -> str:
    """The base URI of references in the schema, given that of its parent. An invalid `$id` is ignored."""
    identifier = schema.get("$id") if isinstance(schema, dict) else None
    if not isinstance(identifier, str) or identifier.startswith("#"):
        return base
    joined = _joined(base, identifier)
    return base if joined is None else joined


def _joined(base: str, reference: str) -> str | None:
    """The absolute URI of a reference, without its fragment; None if it is invalid."""
    try:
        return urldefrag(urljoin(base, reference) if base else reference).url
    except ValueError:
        return None


def _member(schema: Any, where: str, step: str, reference: str, path: str) -> tuple[Any, str]:
    if isinstance(schema, dict) and step in schema:
        return schema[step], under(where, step)
    if isinstance(schema, list) and _INDEX.fullmatch(step) and int(step) < len(schema):
        return schema[int(step)], under(where, int(step))
    raise refused(path, f"points to nothing: {reference[:80]}")
