"""The official JSON-Schema-Test-Suite: what it calls invalid is never taken, and little refused that it calls valid."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llguidance import LLMatcher

from localllm.engine.constraint.distinct import DistinctTracker
from localllm.errors import InvalidParameter
from localllm.grammar.compose import composed
from localllm.types.structures import Structure
from tests.nonsense import TOKENIZER, accepts

SUITE = os.environ.get("JSON_SCHEMA_TEST_SUITE")
"""Its folder: that of its repository, or `json` in the source distribution of the package jsonschema."""

BETWEEN_DRAFTS = {"$ref prevents a sibling $id from changing the base uri"}
"""True of early drafts only: later ones read `$id` there."""


def cases(draft: str) -> Iterator[tuple[str, Any, list[Any]]]:
    assert SUITE is not None
    folder = Path(SUITE) / "tests" / draft
    for path in sorted([*folder.glob("*.json"), *folder.glob("optional/format/*.json")]):
        for case in json.loads(path.read_text("utf-8")):
            if case["description"] not in BETWEEN_DRAFTS:
                yield f"{path.name}: {case['description']}", case["schema"], case["tests"]


@pytest.mark.skipif(SUITE is None, reason="JSON_SCHEMA_TEST_SUITE names no folder: the suite is not in any package")
@pytest.mark.parametrize(("draft", "least"), [("draft2020-12", 1450), ("draft7", 1130), ("draft4", 630)])
def test_the_official_suite_agrees(draft: str, least: int) -> None:
    wrong, agreed = [], 0
    for name, schema, tests in cases(draft):
        try:
            found = composed(Structure(kind="json_schema", source=json.dumps(schema), whitespace="minimal"))
        except InvalidParameter:
            continue
        matcher = LLMatcher(TOKENIZER, found.grammar, log_level=0)
        if matcher.is_error():
            continue
        for test in tests:
            text = json.dumps(test["data"], separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
            taken = accepts(matcher, text)
            if taken and found.checks:
                taken = DistinctTracker(json.loads(found.checks)).allows(text)
            agreed += taken == test["valid"]
            if taken and not test["valid"]:
                wrong.append(f"{name}: {test['description']}")
    assert wrong == []
    assert agreed >= least
