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
from localllm.server.described.endpoints import OPERATIONS
from localllm.server.described.operation import Operation
from localllm.types import SAMPLING_RANGES
from localllm.types.wire import ErrorBody

_REFERENCE = "#/components/schemas/{name}"
_JSON = "application/json"
_FORM = "multipart/form-data"
_LINES = "application/x-ndjson"


TAGS = {
    "localllm": ("/", "/localllm", "/ready", "/health", "/v1/health", "/metrics", "/openapi.json", "/docs", "/ui"),
    "LM Studio": ("/api/v0", "/api/v1"),
    "Ollama": ("/api",),
    "Anthropic": ("/v1/messages",),
    "OpenAI": ("/v1",),
    "Text Embeddings Inference": ("/embed", "/embed_all", "/embed_sparse", "/similarity", "/predict", "/info"),
}
"""API -> its paths and folders, tried in this order; all others are llama-server's."""


@functools.cache
def document() -> bytes:
    """The document as JSON."""
    types = [one for operation in OPERATIONS for kind in operation[3:6] if kind is not None for one in _kinds(kind)]
    types += dict.fromkeys([ErrorBody, *(one for operation in OPERATIONS for one in _kinds(operation.error))])
    references, schemas = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    of = {str(kind): reference for kind, reference in zip(types, references, strict=True)}
    for schema in schemas.values():
        _add_ranges(schema)
    for name in {operation.request.__name__ for operation in OPERATIONS if operation.is_form}:
        schemas[name]["properties"]["file"] = {"type": "string", "contentMediaType": "application/octet-stream"}
        schemas[name]["required"] = ["file"]
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _described(operation, of)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "localllm", "version": __version__},
            "servers": [{"url": "."}],  # relative to this document, since another application may have mounted this one
            "tags": [{"name": name} for name in (*TAGS, "llama-server")],
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


def _stream(item: dict[str, Any]) -> dict[str, Any]:
    """A stream is text to OpenAPI 3.1, which most tools read; 3.2 has `itemSchema`."""
    return {"schema": {"type": "string"}, "x-itemSchema": item}


def _tag(path: str) -> str:
    """The API that a path belongs to."""
    folders = ((tag, folder) for tag, folders in TAGS.items() for folder in folders)
    return next((tag for tag, each in folders if path == each or path.startswith(f"{each}/")), "llama-server")


def _described(operation: Operation, of: dict[str, Any]) -> dict[str, Any]:
    if operation.response is None:
        answer: dict[str, Any] = {operation.text_type: {"schema": {"type": "string"}}}
    else:
        answer = {_JSON: {"schema": _schema(operation.response, of)}}
    if operation.is_empty or (operation.response is None and operation.chunk is not None):
        answer = {}
    if operation.chunk is not None and operation.error is OllamaError:
        answer[_LINES] = _stream({"anyOf": [of[str(operation.chunk)], of[str(OllamaError)]]})
    elif operation.chunk is not None:
        made = {"anyOf": [of[str(operation.chunk)], of[str(operation.error)]]}
        data = {"anyOf": [{"const": "[DONE]"}, {"contentMediaType": _JSON, "contentSchema": made}], "type": "string"}
        event = {"type": "object", "properties": {"event": {"type": "string"}, "data": data}, "required": ["data"]}
        answer["text/event-stream"] = _stream(event)
    described: dict[str, Any] = {
        "operationId": "_".join([operation.method, *re.findall(r"\w+", operation.path)]),
        "summary": operation.summary,
        "tags": [_tag(operation.path)],
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
            "content": {_FORM if operation.is_form else _JSON: {"schema": of[str(operation.request)]}},
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
