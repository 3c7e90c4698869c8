"""Writes `oneOf` as `anyOf`, which is the same if no document satisfies two of the options.

Of options that may share a document, each excludes the others: by what another does not allow, or, if that cannot be
written, by a property that another requires. An option for which neither is possible is never taken.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Protocol

from localllm.errors import InvalidParameter
from localllm.grammar.refusals import unsupported
from localllm.grammar.schema.disjoint import Disjointness
from localllm.grammar.schema.located import Located
from localllm.grammar.schema.negation import Negation
from localllm.grammar.schema.notes import Notes
from localllm.grammar.schema.rewriting import Schema

MAX_OVERLAPPING = 100
"""The most options of a `oneOf` that are told apart by what others do not allow."""


MAX_OPPOSITE_CHARACTERS = 2_000
"""The largest schema whose opposite is written although less would do."""


class OneOf(NamedTuple):
    """A `oneOf` that has been rewritten, but not replaced."""

    out: dict[str, Any]
    """The rewritten schema that contains it."""
    path: str
    sources: list[Located]


class Combining(Protocol):
    """The rewriter's method that is needed."""

    def part(self, schema: Any, path: str, base: str, *, is_opposite: bool = False) -> Schema:
        """Rewrite a schema that a document matches together with others. Raises `InvalidParameter`."""


class OneOfs:
    """Of one document."""

    def __init__(self, rewriter: Combining, negation: Negation, notes: Notes) -> None:
        self._rewriter = rewriter
        self._negation = negation
        self._notes = notes

    def replace(self, one: OneOf, disjointness: Disjointness) -> None:
        """Change its schema in place. Raises `InvalidParameter` if it cannot be replaced."""
        out, options, before = one.out, one.out["oneOf"], dict(one.out)
        if disjointness.overlap(options, before) is not None:
            options = self._apart(options, one, before, disjointness)
        out.clear()
        for name, value in before.items():
            if name != "oneOf":
                out[name] = value
            elif "anyOf" not in before:
                out["anyOf"] = options
        if "anyOf" in before:
            out["allOf"] = [*out.get("allOf", []), {"anyOf": options}]

    def _apart(self, options: list[Schema], one: OneOf, beside: Schema, disjointness: Disjointness) -> list[Schema]:
        """The options, each without the documents of others. Raises `InvalidParameter` if none can be written so."""
        if (name := disjointness.separator(options)) is not None:
            return [{"allOf": [option, {"type": "object", "required": [name]}]} for option in options]
        negation, found = self._negation.among(one.sources), list[Schema]()
        for index in range(len(options) if len(options) <= MAX_OVERLAPPING else 0):
            others = [place for place in range(len(options)) if place != index
                      and disjointness.overlap([options[index], options[place]], beside) is not None]  # fmt: skip
            if any(options[place] == options[index] for place in others):
                continue  # whatever satisfies one satisfies the other
            without = self._without(index, others, options, one, negation, beside, disjointness)
            if without is None:
                self._notes.add(f"narrowed {one.path}", f"oneOf-narrowed: {one.path}")
            elif without is not False:
                found.append(without)
        if not found:
            return self._none(options, one, beside, disjointness)
        return found

    def _without(
        self,
        index: int,
        others: list[int],
        options: list[Schema],
        one: OneOf,
        negation: Negation,
        beside: Schema,
        disjointness: Disjointness,
    ) -> Schema | None:
        """An option without the documents of the others; False if there are no such documents, None if they cannot be
        written."""
        option = options[index]
        if not others:
            return option
        parts = list[Schema]()
        for place in others:
            lacking = disjointness.required_only_by(options[place], option)
            opposite = None
            if lacking is None or not (self._notes.concessions.narrows or _is_large(one.sources[place])):
                try:
                    opposite = self._rewriter.part(negation.of(*one.sources[place]), one.path, "", is_opposite=True)
                except InvalidParameter:
                    opposite = None
            if opposite is None:
                if lacking is None:
                    return None
                opposite = {"properties": {lacking: False}}
            if disjointness.overlap([option, opposite], beside) is None:
                return False
            parts.append(opposite)
        return {"allOf": [self._rewriter.part(*one.sources[index]), *parts]}

    def _none(self, options: list[Schema], one: OneOf, beside: Schema, disjointness: Disjointness) -> list[Schema]:
        if self._notes.is_loose:
            self._notes.leave_out(one.path)
            return options
        if all(options.count(option) > 1 for option in options):
            self._notes.never(one.path)
            return [False]
        pair = disjointness.overlap(options, beside) or (0, 1)
        raise unsupported(
            one.path,
            f"a document might match both of its schemas {pair[0]} and {pair[1]}; write "
            "anyOf, or give each a required property with a const of its own",
        )


def _is_large(source: Located) -> bool:
    """Whether its opposite may be, too."""
    written = json.dumps(source.schema)
    return len(written) > MAX_OPPOSITE_CHARACTERS or '"$ref"' in written
