"""The spans of one request, by OpenTelemetry's conventions for generative AI: the whole, and for each answer its queue,
prefill and decode.

They have names, counts and times, and never a text of a prompt or an answer. Pure: knows no clock and no network.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localllm.server.edge.trace_context import TraceContext
from localllm.server.watching.tally import Tally

Span = dict[str, Any]
"""As in OTLP's JSON."""
_INTERNAL, _SERVER = 1, 2
_ERROR = 2
_EMBEDDING = ("embeddings", "embedding", "embed", "embed_all", "similarity")
_COMPLETION = ("completions", "completion", "generate", "infill")
_SECOND_NS = 10**9


@dataclass(frozen=True)
class Served:
    """A request for a model, as it ended."""

    id: str
    method: str
    path: str
    status: int | None
    error: str | None
    """The code of the error that ended it."""
    began_ns: int
    """Since 1970."""
    ended_ns: int
    context: TraceContext | None
    session: str | None


def spans_of(served: Served, tally: Tally) -> list[Span]:
    """The request's span first."""
    trace_id = secrets.token_hex(16) if served.context is None else served.context.trace_id
    operation = operation_of(served.path)
    model = tally.model or tally.asked or ""
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "localllm",
        "gen_ai.request.model": tally.asked,
        "gen_ai.response.model": tally.model,
        "gen_ai.conversation.id": served.session,
        "gen_ai.usage.input_tokens": tally.prompt_tokens,
        "gen_ai.usage.output_tokens": tally.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": tally.cached_tokens,
        "gen_ai.response.finish_reasons": [finish.reason for _, finish in tally.ends] or None,
        "http.request.method": served.method,
        "http.response.status_code": served.status,
        "url.path": served.path,
        "error.type": served.error,
        "http.response.header.x-request-id": [served.id],
    }
    whole = _span(trace_id, f"{operation} {model}".strip(), served.began_ns, served.ended_ns, attributes, _SERVER)
    if served.context is not None:
        whole["parentSpanId"] = served.context.span_id
    if served.error is not None:
        whole["status"] = {"code": _ERROR, "message": served.error}
    return [whole, *_parts(whole, tally)]


def _parts(whole: Span, tally: Tally) -> list[Span]:
    """Where each answer's time went, reckoned backwards from its end."""
    parts: list[Span] = []
    for ended_ns, finish in tally.ends:
        times = finish.timings
        for name, seconds in (("decode", times.decode_s), ("prefill", times.prefill_s), ("queue", times.queue_s)):
            began_ns = ended_ns - int(seconds * _SECOND_NS)
            tokens = {
                "gen_ai.usage.input_tokens": finish.usage.prompt_tokens if name == "prefill" else None,
                "gen_ai.usage.output_tokens": finish.usage.completion_tokens if name == "decode" else None,
            }
            parts.append(_span(whole["traceId"], name, began_ns, ended_ns, tokens, _INTERNAL))
            parts[-1]["parentSpanId"] = whole["spanId"]
            ended_ns = began_ns
    return parts


def operation_of(path: str) -> str:
    """`gen_ai.operation.name` of an endpoint."""
    last = path.rstrip("/").rpartition("/")[2]
    if last in _EMBEDDING:
        return "embeddings"
    if last in ("rerank", "reranking"):
        return "rerank"
    return "text_completion" if last in _COMPLETION and "/chat/" not in path else "chat"


def _span(trace_id: str, name: str, began_ns: int, ended_ns: int, attributes: Mapping[str, Any], kind: int) -> Span:
    return {
        "traceId": trace_id,
        "spanId": secrets.token_hex(8),
        "name": name,
        "kind": kind,
        "startTimeUnixNano": str(began_ns),
        "endTimeUnixNano": str(ended_ns),
        "attributes": attributes_of(attributes),
    }


def attributes_of(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Attributes in OTLP's JSON, without those that are None."""
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)}
