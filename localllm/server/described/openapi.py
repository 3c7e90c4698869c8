"""The OpenAPI document, generated from the types that requests and responses are decoded and encoded with.

A test compares it with the routes and real replies, so it cannot describe what does not exist.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import msgspec

from localllm import __version__
from localllm.server.apis.llamacpp import completion_requests
from localllm.server.apis.ollama.errors import ErrorBody as OllamaError
from localllm.server.described.endpoints import OPERATIONS, Operation
from localllm.types import SAMPLING_RANGES
from localllm.types.wire import ErrorBody

_REFERENCE = "#/components/schemas/{name}"
_JSON = "application/json"
_LINES = "application/x-ndjson"


@functools.cache
def document() -> bytes:
    """The document as JSON."""
    types = [one for operation in OPERATIONS for kind in operation[3:6] if kind is not None for one in _kinds(kind)]
    types += dict.fromkeys([ErrorBody, *(one for operation in OPERATIONS for one in _kinds(operation.error))])
    references, schemas = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    of = {str(kind): reference for kind, reference in zip(types, references, strict=True)}
    for schema in schemas.values():
        _add_ranges(schema)
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _described(operation, of)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "localllm", "version": __version__},
            "servers": [{"url": "."}],  # relative to this document, since another application may have mounted this one
            "paths": paths,
            "components": {
                "schemas": schemas,
                "securitySchemes": {
                    "bearer": {"type": "http", "scheme": "bearer"},
                    "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                },
            },
        }
    )


def _kinds(given: Any) -> tuple[Any, ...]:
    """Alternatives, one of which applies."""
    return given if isinstance(given, tuple) else (given,)


def _schema(given: Any, of: dict[str, Any]) -> Any:
    found = [of[str(kind)] for kind in _kinds(given)]
    return found[0] if len(found) == 1 else {"anyOf": found}


def _described(operation: Operation, of: dict[str, Any]) -> dict[str, Any]:
    if operation.response is None:
        answer: dict[str, Any] = {operation.text_type: {"schema": {"type": "string"}}}
    else:
        answer = {_JSON: {"schema": _schema(operation.response, of)}}
    if operation.is_empty or (operation.response is None and operation.chunk is not None):
        answer = {}
    if operation.chunk is not None and operation.error is OllamaError:
        answer[_LINES] = {"itemSchema": {"anyOf": [of[str(operation.chunk)], of[str(OllamaError)]]}}
    elif operation.chunk is not None:
        made = {"anyOf": [of[str(operation.chunk)], of[str(operation.error)]]}
        data = {"anyOf": [{"const": "[DONE]"}, {"contentMediaType": _JSON, "contentSchema": made}], "type": "string"}
        event = {"type": "object", "properties": {"event": {"type": "string"}, "data": data}, "required": ["data"]}
        answer["text/event-stream"] = {"itemSchema": event}  # from OpenAPI 3.2; 3.1 cannot describe streams
    described: dict[str, Any] = {
        "summary": operation.summary,
        "responses": {
            "200": {"description": "The answer", "content": answer},
            "default": {"description": "An error", "content": {_JSON: {"schema": _schema(operation.error, of)}}},
        },
    }
    if operation.needs_key:
        described["security"] = [{"bearer": []}, {"key": []}, {}]
    if operation.request is not None:
        described["requestBody"] = {
            "required": operation.needs_body,
            "content": {_JSON: {"schema": of[str(operation.request)]}},
        }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", operation.path)
    ] + [
        {"name": query.name, "in": "query", "required": query.required, "schema": query.schema}
        for query in operation.query
    ]
    if parameters:
        described["parameters"] = parameters
    return described


def _add_ranges(schema: dict[str, Any]) -> None:
    """Adds the ranges of sampling parameters, which are not part of the types. llama-server clamps some instead."""
    properties = schema.get("properties", {})
    moved = completion_requests.MOVED if "n_cmpl" in properties else frozenset()
    for name, (low, high) in SAMPLING_RANGES.items():
        for kind in properties.get(name, {}).get("anyOf", ()) if name not in moved else ():
            if kind.get("type") in ("number", "integer"):
                kind.update(minimum=low, maximum=high)
