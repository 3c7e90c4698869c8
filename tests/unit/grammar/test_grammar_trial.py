"""What the grammar process makes of structures that llguidance cannot compile as they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from localllm.errors import InvalidParameter
from localllm.grammar.compose import ComposedGrammar
from localllm.types.structures import GrammarLimits, Structure
from localllm.worker.grammars.grammar_request import GrammarRequest, SpecialTokens
from localllm.worker.grammars.grammar_trial import checked_grammar
from tests.nonsense import accepts, compiled

ZOD_EMAIL = r"^([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"


def tried(schema: Any, **how: Any) -> ComposedGrammar:
    structure = Structure(kind="json_schema", source=json.dumps(schema), param="f", **how)
    return checked_grammar(GrammarRequest(structure, None, GrammarLimits(), SpecialTokens(300, ())))


@pytest.mark.parametrize(
    ("more", "notes"), [({}, ()), ({"maxLength": 100}, ("format-not-enforced: f.properties.mail.format",))]
)
def test_a_pattern_is_enforced_and_a_format_beside_it_where_both_can_be(more: Any, notes: tuple[str, ...]) -> None:
    mail = {"type": "string", "pattern": ZOD_EMAIL, "format": "email", **more}
    found = tried({"type": "object", "properties": {"mail": mail}})
    assert found.notes == notes
    matcher = compiled(found.grammar)
    assert accepts(matcher, '{"mail": "ann@example.com"}')
    assert not accepts(matcher, '{"mail": "ann@example"}')


def test_where_no_text_can_match_that_is_said() -> None:
    with pytest.raises(InvalidParameter, match="allows no text at all"):
        tried({"type": "string", "pattern": "^a$", "format": "date"})


def test_what_does_not_compile_of_a_schema_that_is_not_strict_is_left_out() -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": "^a$", "format": "date"}, "b": {"type": "null"}}}
    found = tried(schema | {"type": "object", "required": ["a"]}, is_strict=False)
    assert found.notes == ("keyword-not-enforced: f.properties.a.pattern",)
    assert accepts(compiled(found.grammar), '{"a": "2024-02-29", "b": null}')
