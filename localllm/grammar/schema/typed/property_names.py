"""Rewrites what a schema asks of the names of properties: `propertyNames`, and patterns of which one name matches two.

llguidance takes patterns only if no name matches two of them. So names are divided: those that match both, those that
match only the first, and so on. Knows nothing of what values are asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from localllm.grammar.refusals import refused, under, unsupported
from localllm.grammar.schema.keywords import ANNOTATIONS
from localllm.grammar.schema.rewriting import Rewriter, Schema
from localllm.grammar.schema.typed import strings
from localllm.grammar.schema.typed.formats import FORMATS
from localllm.grammar.texts.complements import SourcedPattern
from localllm.grammar.texts.lookaheads import split_lookaheads
from localllm.grammar.texts.opposites import combined, share_text
from localllm.grammar.texts.patterns import PatternRefused

MAX_PATTERNS = 8
MAX_GROUPS = 32
"""The most groups into which patterns divide names."""


_NOTHING = "[^\\x{0}-\\x{10FFFF}]"


class Names(NamedTuple):
    """Names by the patterns that occur in them, and by those that do not; or a list of them."""

    required: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    listed: tuple[str, ...] | None = None

    def and_(self, other: Names) -> Names:
        listed = self.listed if other.listed is None else other.listed
        if self.listed is not None and other.listed is not None:
            listed = tuple(name for name in self.listed if name in other.listed)
        return Names(
            tuple(dict.fromkeys(self.required + other.required)),
            tuple(dict.fromkeys(self.excluded + other.excluded)),
            listed,
        )

    @property
    def is_empty(self) -> bool:
        return not share_text(self.required, self.excluded)

    def has(self, name: str) -> bool:
        if self.listed is not None and name not in self.listed:
            return False
        return not self.and_(Names((f"^{re.escape(name)}$",))).is_empty

    def but(self, other: Names) -> Iterator[Names]:
        """The names that are not among the others, which are given by patterns."""
        so_far = self
        for pattern in other.required:
            yield so_far.and_(Names((), (pattern,)))
            so_far = so_far.and_(Names((pattern,)))
        for pattern in other.excluded:
            yield so_far.and_(Names((pattern,)))
            so_far = so_far.and_(Names((), (pattern,)))

    def pattern(self, path: str) -> str:
        """For llguidance."""
        if len(self.required) == 1 and not self.excluded:
            return strings.pattern(self.required[0], path)
        found = combined(self.required, self.excluded)
        return SourcedPattern.of(f"^{found or _NOTHING}$", self.required, self.excluded)


def rewritten(rewriter: Rewriter, named: dict[str, Any], found: dict[str, Any], path: str, base: str) -> dict[str, Any]:
    """`found`, whose `patternProperties` are still by the client's patterns, with `propertyNames` and patterns that do
    not overlap. Raises `InvalidParameter`."""
    here = under(path, "patternProperties")
    patterns = [(of_pattern(one, under(here, one)), value) for one, value in found.pop("patternProperties", {}).items()]
    asked = None
    if named.get("propertyNames", True) is not True:
        path = under(path, "propertyNames")
        asked = _asked(rewriter, named["propertyNames"], path, base)
    try:
        if asked is not None and asked != Names():
            return _restricted(found, patterns, asked, path)
        groups = _groups(patterns, Names()) if len(patterns) > 1 else patterns
    except PatternRefused as error:
        if asked is not None:
            raise unsupported(path, f"together with patternProperties, {error}; write one of them") from None
        groups = patterns  # llguidance decides
    if patterns:
        found["patternProperties"] = {names.pattern(here): value for names, value in groups if names.required}
    return found


def of_pattern(pattern: str, path: str) -> Names:
    """The names in which a pattern occurs, which may begin with lookaheads. Raises `InvalidParameter`."""
    try:
        required, excluded, rest = split_lookaheads(pattern)
    except PatternRefused as error:
        raise unsupported(path, f"it has a lookahead, and {error}; write it another way") from None
    if not required and not excluded:
        strings.pattern(pattern, path)
    return Names((rest, *required), tuple(excluded))


def _restricted(found: dict[str, Any], patterns: list[tuple[Names, Schema]], asked: Names, path: str) -> dict[str, Any]:
    """Only the names asked for."""
    properties, others = found.get("properties", {}), found.pop("additionalProperties", True)
    if asked.listed is not None:
        for name in asked.listed:
            values = [value for names, value in patterns if names.has(name)]
            if name not in properties and asked.has(name):
                properties[name] = {"allOf": values} if len(values) > 1 else values[0] if values else others
        patterns = []
    else:
        patterns = _groups(patterns, asked, others)
    properties = {name: value if asked.has(name) else False for name, value in properties.items()}
    found |= {"properties": properties} if properties else {}
    if patterns:
        found["patternProperties"] = {names.pattern(path): value for names, value in patterns}
    return found | {"additionalProperties": False}


def _groups(
    patterns: list[tuple[Names, Schema]], among: Names, others: Schema | None = None
) -> list[tuple[Names, Schema]]:
    """The names, divided by the patterns that they match, with what is asked of each. `others`: of those that match
    none; None if these are left out. Raises `PatternRefused`."""
    if len(patterns) > MAX_PATTERNS:
        raise PatternRefused(f"there are more than {MAX_PATTERNS} patterns")
    groups: list[tuple[Names, list[Schema]]] = [(among, [])]
    for names, value in patterns:
        before, groups = groups, []
        for group, values in before:
            both = group.and_(names)
            if both.is_empty:
                groups.append((group, values))
                continue
            groups.append((_without_needless(both), values if value in values else [*values, value]))
            groups += [(one, values) for one in group.but(names) if not one.is_empty]
        if len(groups) > MAX_GROUPS:
            raise PatternRefused("the patterns overlap too much")
    found = list[tuple[Names, Schema]]()
    for group, values in groups:
        if values or others is not None:
            every: Schema = {"allOf": values} if len(values) > 1 else values[0] if values else (others or False)
            found.append((group, every))
    return found


def _without_needless(names: Names) -> Names:
    """Without patterns that none of the names matches anyway."""
    kept = [one for one in names.excluded if not Names((*names.required, one)).is_empty]
    return names._replace(excluded=tuple(kept))


def _asked(rewriter: Rewriter, names: Any, path: str, base: str) -> Names:
    """What a schema asks of a name. Raises `InvalidParameter`."""
    names, where = rewriter.resolved(names, path, base)
    if isinstance(names, bool):
        return Names() if names else Names(listed=())
    if not isinstance(names, dict):
        raise unsupported(path, "use one of enum, pattern, format, or lengths")
    found = Names()
    for keyword, value in names.items():
        here = under(where, keyword)
        match keyword:
            case "enum" | "const":
                found = found.and_(Names(listed=_listed(value if keyword == "enum" else [value], where)))
            case "pattern" if isinstance(value, str):
                found = found.and_(of_pattern(value, here))
            case "format" if isinstance(value, str) and value in FORMATS:
                found = found.and_(Names((f"^(?:{FORMATS[value]})$",)))
            case "minLength" | "maxLength":
                length = strings.count(value, here, strings.MAX_MIN_LENGTH)
                least, most = (length, "") if keyword == "minLength" else (0, length)
                found = found.and_(Names((f"^[^]{{{least},{most}}}$",)))
            case "not" if value in (True, {}):
                found = found.and_(Names(listed=()))
            case "not" if isinstance(value, dict) and value.keys() - ANNOTATIONS <= {
                "type",
                "pattern",
                "enum",
                "const",
            }:
                found = found.and_(_negated(value, here))
            case "allOf" if isinstance(value, list):
                for index, one in enumerate(value):
                    found = found.and_(_asked(rewriter, one, under(here, index), base))
            case "type" if value == "string":
                continue
            case _ if keyword not in ANNOTATIONS:
                raise unsupported(path, "use one of enum, pattern, format, or lengths")
    return found


def _negated(names: dict[str, Any], path: str) -> Names:
    excluded = [names["pattern"]] if isinstance(names.get("pattern"), str) else []
    listed = _listed(names["enum"] if "enum" in names else [names["const"]] if "const" in names else [], path)
    if len(excluded) + bool(listed) != 1:
        raise unsupported(path, "write one pattern or enum here")
    return Names((), (*excluded, *(f"^{re.escape(one)}$" for one in listed)))


def _listed(values: Any, path: str) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise refused(path, "must allow names, which are strings")
    return tuple(dict.fromkeys(values))
