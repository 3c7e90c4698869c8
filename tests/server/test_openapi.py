"""The document at /openapi.json: it names what is there, and schemathesis asks the server for all of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import requests
from hypothesis import HealthCheck, settings
from starlette.routing import Route

from localllm.server.app import routes
from localllm.server.described import openapi
from tests.later import schemathesis
from tests.server.conftest import Served

if TYPE_CHECKING:
    from schemathesis.schemas import APIOperation

DOCUMENT: dict[str, Any] = json.loads(openapi.document())


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    """One connection for all, without a proxy."""
    with requests.Session() as session:
        session.trust_env = False
        yield session


def test_every_route_is_in_the_document_and_nothing_else(served: Served) -> None:
    document: dict[str, Any] = served.http.get("/openapi.json").json()
    told = {(path, method.upper()) for path, methods in document["paths"].items() for method in methods}
    there = {
        (route.path.replace(":path", ""), method)
        for route in routes()
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert told == there


OTHER_NAMES = [
    "/rerank", "/reranking", "/v1/reranking", "/chat/completions", "/chat/completions/input_tokens", "/responses",
    "/responses/input_tokens", "/models",
]  # fmt: skip
"""Of paths with /v1."""
NOT_SERVED = ["/api/blobs/{digest}", "/props", "/lora-adapters", "/tools", "/cors-proxy"]
"""They say so, with 501 or 403, or one of their methods does."""
ENDLESS = ["/localllm/watch"]
SLOW = ["/localllm/doctor"]
"""Each starts a process that looks at the libraries; `tests/ui/test_machine.py` asks for it."""


LABELS = [
    f"{method.upper()} {path}"
    for path, methods in DOCUMENT["paths"].items()
    if path not in {*OTHER_NAMES, *NOT_SERVED, *ENDLESS, *SLOW}
    for method in methods
]


@pytest.fixture(scope="module")
def operations() -> dict[str, APIOperation[Any, Any, Any, Any]]:
    from schemathesis.core.result import Ok

    found: dict[str, APIOperation[Any, Any, Any, Any]] = {}
    for each in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations():
        assert isinstance(each, Ok), each.err()
        found[each.ok().label] = each.ok()
    return found


@pytest.mark.parametrize("label", LABELS)
def test_whatever_is_sent_the_answer_is_as_documented(
    label: str, operations: dict[str, APIOperation[Any, Any, Any, Any]], served: Served, session: requests.Session
) -> None:
    """Valid bodies, and those that are wrong in every way that a generator thinks of: the wrong ones are refused.

    A valid one may be refused as well: what several fields, the model or our limits say together is in no schema.
    """

    from schemathesis.generation.feedback import FeedbackSources
    from schemathesis.pytest._test_builder import build_operation_test
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    @settings(max_examples=20, suppress_health_check=list(HealthCheck))
    def is_as_documented(case: schemathesis.Case[Any]) -> None:
        if isinstance(case.body, dict) and isinstance(case.body.get("model"), str):
            case.body["model"] = "tiny"
        case.call_and_validate(base_url=served.url, session=session, excluded_checks=[positive_data_acceptance])

    # `schema.parametrize` would make the cases of all operations, sixteen thousand, while tests are collected.
    build_operation_test(
        config=operations[label].schema.config,
        operation=operations[label],
        test_func=is_as_documented,
        given_kwargs={},
        feedback=FeedbackSources(),
    )()
