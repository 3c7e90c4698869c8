"""The document at /openapi.json: it names what is there, and schemathesis asks the server for all of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import requests
from hypothesis import HealthCheck, settings
from starlette.routing import Route

from localllm.server.app import routes
from localllm.server.described import openapi
from tests.later import jsonschema, schemathesis
from tests.server.conftest import Served

if TYPE_CHECKING:
    from schemathesis.schemas import APIOperation

PATIENCE_S = 60
"""Timeout of a request; schemathesis waits 10 s by default, which a busy machine may take."""
DOCUMENT: dict[str, Any] = json.loads(openapi.document())
OF_MEDIA = {"schema", "example", "examples", "encoding", "x-itemSchema"}
"""Fields of a media type in OpenAPI 3.1, and ours."""
METHODS = {"get", "post", "delete", "head"}


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


def _within(value: Any, name: str) -> Iterator[Any]:
    """All values of this name, at any depth."""
    if isinstance(value, dict):
        yield from (each for key, each in value.items() if key == name)
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        yield from _within(each, name)


def test_the_document_is_valid_openapi_3_1_as_generators_read_it() -> None:
    """What a validator objected to, and what generators of clients need; a validator is no dependency."""
    assert DOCUMENT["openapi"] == "3.1.0"
    operations = [
        (path, method, each) for path, methods in DOCUMENT["paths"].items() for method, each in methods.items()
    ]
    assert {method for _, method, _ in operations} <= METHODS
    ids = [each["operationId"] for _, _, each in operations]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z][A-Za-z0-9_]*", id) for id in ids)
    assert {tag for _, _, each in operations for tag in each["tags"]} == {tag["name"] for tag in DOCUMENT["tags"]}
    for path, _, each in operations:
        in_path = {given["name"] for given in each.get("parameters", ()) if given["in"] == "path"}
        assert in_path == set(re.findall(r"{(\w+)}", path))
    for content in _within(DOCUMENT["paths"], "content"):
        assert all(media.keys() <= OF_MEDIA for media in content.values())
    names = DOCUMENT["components"]["schemas"]
    assert {each.removeprefix("#/components/schemas/") for each in _within(DOCUMENT, "$ref")} <= names.keys()
    for schema in names.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for name in names)


NOT_SERVED = ["/api/blobs/{digest}", "/props", "/lora-adapters", "/tools", "/cors-proxy"]
"""They say so, with 501 or 403, or one of their methods does."""
ENDLESS = ["/localllm/watch"]
SLOW = ["/localllm/doctor"]
"""Each starts a process that looks at the libraries; `tests/ui/test_machine.py` asks for it."""
FEW_EXAMPLES = 6
MAX_COVERING = 300
"""Bodies of one operation that cover its schema, of as many as 1,800."""
FEW_FIELDS = 5
"""To cover a body of so few takes no time."""


def _labels() -> Iterator[str]:
    """Each handler's operations, by one of its names."""
    names: dict[object, str] = {}
    for path in sorted({route.path for route in routes() if isinstance(route, Route)}):
        for route in routes():
            if isinstance(route, Route) and route.path == path:
                names[route.endpoint, tuple(route.param_convertors)] = path.replace(":path", "")  # /v1 is the last
    for path in DOCUMENT["paths"].keys() & set(names.values()) - {*NOT_SERVED, *ENDLESS, *SLOW}:
        yield from (f"{method.upper()} {path}" for method in DOCUMENT["paths"][path])


LABELS = sorted(_labels())


def _fields(label: str) -> dict[str, Any]:
    """Of the body: name -> schema."""
    method, path = label.split()
    fields: dict[str, Any] = {}
    for content in DOCUMENT["paths"][path][method.lower()].get("requestBody", {}).get("content", {}).values():
        schema = DOCUMENT["components"]["schemas"][content["schema"]["$ref"].removeprefix("#/components/schemas/")]
        fields |= schema["properties"]
    return fields


def _is_part(label: str, other: str) -> bool:
    """Whether all fields of this body are fields of the other's, as those for counting tokens are of a chat's."""
    mine, others = _fields(label), _fields(other)
    return all(others.get(name) == schema for name, schema in mine.items()) and (
        len(mine) < len(others) or label > other
    )


PARTS = {
    label for label in LABELS if len(_fields(label)) > FEW_FIELDS and any(_is_part(label, each) for each in LABELS)
}


@pytest.fixture(scope="module")
def operations() -> dict[str, APIOperation[Any, Any, Any, Any]]:
    from schemathesis.core.result import Ok

    found: dict[str, APIOperation[Any, Any, Any, Any]] = {}
    document = json.loads(openapi.document())
    for content in _within(document["paths"], "content"):
        for media in content.values():
            if "x-itemSchema" in media:  # schemathesis knows OpenAPI 3.2's name
                media.pop("schema")
                media["itemSchema"] = media.pop("x-itemSchema")
    for each in schemathesis.openapi.from_dict(document).get_all_operations():
        assert isinstance(each, Ok), each.err()
        found[each.ok().label] = each.ok()
    return found


@pytest.mark.parametrize("num_examples", [FEW_EXAMPLES, pytest.param(60, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("label", LABELS)
def test_whatever_is_sent_the_answer_is_as_documented(
    label: str,
    num_examples: int,
    operations: dict[str, APIOperation[Any, Any, Any, Any]],
    served: Served,
    session: requests.Session,
) -> None:
    """Valid bodies, and those that are wrong in every way that a generator thinks of: the wrong ones are refused.

    A valid one may be refused as well: what several fields, the model or our limits say together is in no schema.
    """

    from schemathesis.generation.feedback import FeedbackSources
    from schemathesis.pytest._test_builder import build_operation_test
    from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

    @settings(max_examples=num_examples, suppress_health_check=list(HealthCheck))
    def is_as_documented(case: schemathesis.Case[Any]) -> None:
        if isinstance(case.body, dict) and isinstance(case.body.get("model"), str):
            case.body["model"] = "tiny"
        excluded: list[Any] = [positive_data_acceptance]
        if case.media_type == "multipart/form-data":  # its numbers are texts, so that none is of a wrong type
            excluded.append(negative_data_rejection)
        case.call_and_validate(base_url=served.url, session=session, timeout=PATIENCE_S, excluded_checks=excluded)

    operation = operations[label]
    operation.schema.config.phases.coverage.enabled = num_examples > FEW_EXAMPLES or label not in PARTS
    # `schema.parametrize` would make the cases of all operations, sixteen thousand, while tests are collected.
    check = build_operation_test(
        config=operation.schema.config,
        operation=operation,
        test_func=is_as_documented,
        given_kwargs={},
        feedback=FeedbackSources(),
    )
    if num_examples == FEW_EXAMPLES:
        covering: list[object] = getattr(check, "hypothesis_explicit_examples", [])
        covering[:] = covering[:: len(covering) // MAX_COVERING + 1]
    check()
