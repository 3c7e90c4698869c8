"""Composes the input of llguidance for a request's structure, and checks the JSON in it.

The result is llguidance's JSON form: a list of named grammars, of which the first is the start. The grammar of the
document is named `document`; for reasoning before it, a further grammar refers to it (see `preface`). Raises
`InvalidParameter` with the path of the part at fault. Compiles nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from localllm.errors import InvalidParameter
from localllm.grammar.calls.answers import DOCUMENT, TEXT, grammars_of_answer, source_of
from localllm.grammar.calls.arguments import Bounded, Loose
from localllm.grammar.calls.preface import with_preface
from localllm.grammar.calls.tags import grammars_of_tags, regex
from localllm.grammar.refusals import under
from localllm.grammar.rules import Grammar
from localllm.grammar.schema.checks import split
from localllm.grammar.schema.documents import json_of
from localllm.grammar.schema.loosening import loosened
from localllm.grammar.schema.notes import NONE, Concessions, Notes
from localllm.grammar.schema.schemas import checked
from localllm.grammar.schema.shortest import Outline, outline
from localllm.grammar.texts.gbnf import lark_of
from localllm.grammar.texts.literals import Literals
from localllm.grammar.texts.whitespace import options
from localllm.types.structures import Preface, Structure, StructureKind

NO_TOKENS = Literals()

_JSON_IN_LARK = re.compile(r"%json\s*(?=\{)")


class ComposedGrammar(NamedTuple):
    """A grammar, and notes."""

    grammar: str
    """Input for llguidance."""
    notes: tuple[str, ...] = ()
    """Notes on parts of the request that are not enforced."""
    checks: str = ""
    """What a document is checked for while it is written; see `schema.checks`."""
    outline: Outline = Outline()
    """Of the shortest documents."""
    bounded: tuple[Bounded, ...] = ()
    """Texts that must exist; compiling the grammar does not show whether they do."""


def grammar_of(structure: Structure, preface: Preface | None = None) -> str:
    """Input for llguidance. Raises `InvalidParameter` with the path of the part at fault."""
    return composed(structure, preface).grammar


def composed(
    structure: Structure,
    preface: Preface | None = None,
    literals: Literals = NO_TOKENS,
    loose: Loose | None = frozenset(),
    concessions: Concessions = NONE,
) -> ComposedGrammar:
    """The same, with notes, for a vocabulary with known special tokens.

    `loose`: functions and arguments whose schemas need not be enforced; None: all of them.
    """
    said = Notes(
        is_loose=not structure.is_strict,
        concessions=concessions,
        is_checked=structure.kind == "json_schema",
    )
    if structure.kind == "answer":
        thought = preface.thought if preface is not None and not preface.is_open else None
        grammars, notes, bounded = grammars_of_answer(
            structure, literals, thought=thought.opening if thought is not None else "", loose=loose
        )
        source = source_of(structure)
        if source.text is not None and source.choice == "auto":
            said = Notes(is_loose=not source.text.is_strict)
            first, *rest = _OF_KIND[source.text.kind](source.text, said)
            grammars += [{**first, "name": TEXT}, *rest]
            said.checks = ""  # where the text begins among calls is not known
    else:
        grammars, notes, bounded = _OF_KIND[structure.kind](structure, said), [], []
    if preface is not None:
        grammars = with_preface(grammars, preface, literals)
    return ComposedGrammar(_text(grammars), (*notes, *said.all), said.checks, said.outline, tuple(bounded))


def grammar_of_schema(structure: Structure, schema: dict[str, Any]) -> str:
    """The same for a rewritten part of the structure's schema."""
    return _text([_json(structure, split(schema)[0])])


def _text(grammars: list[Grammar]) -> str:
    return json.dumps({"grammars": grammars}, ensure_ascii=False)


def _of_json_object(structure: Structure, notes: Notes) -> list[Grammar]:
    notes.checks = "true"
    return [_json(structure, {"type": "object"})]


def _of_json_schema(structure: Structure, notes: Notes) -> list[Grammar]:
    schema, param = json_of(structure), structure.param
    written = loosened(schema, param, notes) if notes.is_loose else checked(schema, param, notes)
    written, notes.checks = split(written)
    notes.outline = outline(written)
    return [_json(structure, written)]


def _of_regex(structure: Structure, _notes: Notes) -> list[Grammar]:
    if not structure.source:
        raise InvalidParameter(f"{structure.param} must not be empty", param=structure.param)
    return [{"name": DOCUMENT, "lark_grammar": f"start: {regex(structure.source)}"}]


def _of_choice(structure: Structure, _notes: Notes) -> list[Grammar]:
    texts, param = json_of(structure), structure.param
    if not isinstance(texts, list) or not texts:
        raise InvalidParameter(f"{param} takes a list of at least one text", param=param)
    for index, text in enumerate(texts):
        if not isinstance(text, str) or not text:
            raise InvalidParameter(f"{param}[{index}] must be a nonempty text", param=f"{param}[{index}]")
    # One terminal: as alternatives of a rule, more than 2,000 would be too many items for llguidance's parser.
    return [{"name": DOCUMENT, "lark_grammar": "start: TEXT\nTEXT: " + " | ".join(map(json.dumps, texts))}]


def _of_lark(structure: Structure, notes: Notes) -> list[Grammar]:
    """The grammar, with the schemas in it (`%json {...}`) checked and rewritten like any other."""
    written, at = [], 0
    for found in _JSON_IN_LARK.finditer(structure.source):
        try:
            schema, end = json.JSONDecoder().raw_decode(structure.source, found.end())
        except (ValueError, RecursionError):
            continue  # llguidance reports it
        if found.start() >= at:
            checked_schema = checked(schema, under(structure.param, "%json"), notes)
            checked_schema |= {"x-guidance": options(structure)}
            written += [structure.source[at : found.end()], json.dumps(checked_schema)]
            at = end
    return [{"name": DOCUMENT, "lark_grammar": "".join(written) + structure.source[at:]}]


def _of_gbnf(structure: Structure, _notes: Notes) -> list[Grammar]:
    return [{"name": DOCUMENT, "lark_grammar": lark_of(structure.source, structure.param)}]


def _of_structural_tag(structure: Structure, notes: Notes) -> list[Grammar]:
    return grammars_of_tags(json_of(structure), structure.param, options(structure), notes)


def _json(structure: Structure, schema: dict[str, Any]) -> Grammar:
    return {"name": DOCUMENT, "json_schema": schema | {"x-guidance": options(structure)}}


_OF_KIND: dict[StructureKind, Callable[[Structure, Notes], list[Grammar]]] = {
    "json_object": _of_json_object,
    "json_schema": _of_json_schema,
    "regex": _of_regex,
    "choice": _of_choice,
    "lark": _of_lark,
    "gbnf": _of_gbnf,
    "structural_tag": _of_structural_tag,
}
