"""The trace that a request belongs to: in the log, and as spans at a collector of OpenTelemetry."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from localllm.errors import InvalidParameter, WorkerCrashed
from localllm.server.edge.trace_context import trace_context
from localllm.server.watching import tracing
from localllm.server.watching.spans import operation_of
from localllm.server.watching.tracing import Tracer, tracer_of
from localllm.settings.config import Settings
from localllm.types import Delta
from tests.server.conftest import RequestLog, Served, running
from tests.server.fake_runtime import HELLO

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADER = f"00-{TRACE}-{SPAN}-01"
SECRET = "what nobody else may read"
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": SECRET}]}

Json = dict[str, Any]


class Collector:
    """Keeps what arrives, and answers with `status`."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.has_more = threading.Condition()
        self.url = ""

    def spans(self, count: int) -> list[Json]:
        with self.has_more:
            self.has_more.wait_for(lambda: len(self._spans()) >= count, timeout=20)
            return self._spans()

    def _spans(self) -> list[Json]:
        bodies = [json.loads(body) for body in self.bodies]
        return [span for body in bodies for each in body["resourceSpans"] for span in each["scopeSpans"][0]["spans"]]


@contextlib.contextmanager
def collecting(status: int = 200) -> Iterator[Collector]:
    collector = Collector(status)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(collector.status)
            self.send_header("content-length", "0")
            self.end_headers()
            with collector.has_more:
                assert self.path == "/v1/traces"
                collector.headers.append(dict(self.headers))
                collector.bodies.append(body)
                collector.has_more.notify_all()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        collector.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Served, Collector]]:
    monkeypatch.setattr(tracing.Tracer.__init__, "__kwdefaults__", {"pause_s": 0.01})
    with collecting() as collector:
        settings = Settings(
            port=0, grace_s=0.1, otel_endpoint=collector.url, otel_headers="x-team=a, authorization=Bearer b="
        )
        with running(settings) as served:
            yield served, collector


def attributes(span: Json) -> Json:
    found = {}
    for each in span["attributes"]:
        ((kind, value),) = each["value"].items()
        found[each["key"]] = int(value) if kind == "intValue" else value
    return found


def test_a_request_is_a_span_of_its_callers_with_queue_prefill_and_decode_in_it(
    traced: tuple[Served, Collector],
) -> None:
    served, collector = traced
    headers = {"traceparent": HEADER, "x-session-id": "chat-7"}
    served.http.post("/v1/chat/completions", json=CHAT, headers=headers)
    whole, *parts = collector.spans(4)
    assert (whole["traceId"], whole["parentSpanId"], whole["name"]) == (TRACE, SPAN, "chat tiny")
    told = attributes(whole)
    assert told.items() >= {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "tiny", "gen_ai.response.model": "tiny",
        "gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 3, "gen_ai.usage.cache_read.input_tokens": 2,
        "gen_ai.conversation.id": "chat-7", "http.response.status_code": 200, "url.path": "/v1/chat/completions",
    }.items()  # fmt: skip
    assert told["gen_ai.response.finish_reasons"] == {"values": [{"stringValue": "stop"}]}
    assert {part["name"] for part in parts} == {"queue", "prefill", "decode"}
    times = {part["name"]: (int(part["startTimeUnixNano"]), int(part["endTimeUnixNano"])) for part in parts}
    assert times["queue"][1] == times["prefill"][0]
    assert times["prefill"][1] == times["decode"][0]
    assert [round((end - start) / 1e8) for start, end in map(times.get, ("queue", "prefill", "decode"))] == [1, 2, 3]  # type: ignore[misc]
    assert {(part["traceId"], part["parentSpanId"]) for part in parts} == {(TRACE, whole["spanId"])}
    assert collector.headers[0].items() >= {"x-team": "a", "authorization": "Bearer b="}.items()


def test_no_text_of_a_prompt_or_an_answer_is_sent(traced: tuple[Served, Collector]) -> None:
    served, collector = traced
    served.http.post("/v1/chat/completions", json={**CHAT, "stream": True})
    collector.spans(4)
    said = b"".join(collector.bodies)
    assert SECRET.encode() not in said
    assert not [
        delta.text for delta in HELLO if isinstance(delta, Delta) and delta.text and delta.text.encode() in said
    ]


def test_an_error_is_a_failed_span_and_who_names_no_trace_gets_one(traced: tuple[Served, Collector]) -> None:
    served, collector = traced
    served.runtime.script = (WorkerCrashed("signal 9"),)
    served.http.post("/v1/chat/completions", json=CHAT)
    (span,) = collector.spans(1)
    assert span["status"] == {"code": 2, "message": "worker_crashed"}
    assert attributes(span)["error.type"] == "worker_crashed"
    assert "parentSpanId" not in span
    assert len(span["traceId"]) == 32


def test_a_trace_that_is_not_recorded_and_probes_send_nothing(traced: tuple[Served, Collector]) -> None:
    served, collector = traced
    served.http.post("/v1/chat/completions", json=CHAT, headers={"traceparent": HEADER[:-1] + "0"})
    served.http.get("/ready")
    served.http.post("/v1/chat/completions", json=CHAT, headers={"traceparent": HEADER})
    assert {span["traceId"] for span in collector.spans(4)} == {TRACE}
    assert len(collector.spans(4)) == 4


def test_spans_wait_for_a_collector_that_fails_and_no_more_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracing, "MAX_SPANS", 8)
    monkeypatch.setattr(tracing, "BATCH", 2)

    async def send() -> None:
        tracer = Tracer(f"{collector.url}/v1/traces", {}, "here", pause_s=0.001)
        for number in range(12):
            tracer.add([{"name": str(number)}])
        await asyncio.to_thread(waits_for_failures)
        collector.status = 200
        await asyncio.to_thread(collector.spans, 4)
        await tracer.close()

    def waits_for_failures() -> None:
        with collector.has_more:
            assert collector.has_more.wait_for(lambda: len(collector.bodies) >= 6, timeout=20)

    with collecting(503) as collector:
        asyncio.run(send())
    assert collector.spans(1)[-1]["name"] == "7", "those after the eighth were dropped"


def test_the_log_names_the_trace_also_without_a_collector(served: Served, request_log: RequestLog) -> None:
    assert tracing.__name__ in sys.modules  # by this test; a server without a collector imports it never
    served.http.get("/v1/models", headers={"traceparent": HEADER, "x-request-id": "traced"})
    (line,) = request_log.lines(1, "traced")
    assert (line["trace_id"], line["span_id"]) == (TRACE, SPAN)


@pytest.mark.parametrize(
    "header",
    ["", HEADER.upper(), HEADER + "-x", HEADER.replace("00-", "ff-", 1), f"00-{'0' * 32}-{SPAN}-01",
     f"00-{TRACE}-{'0' * 16}-01", HEADER[:-1], "x" * 5000],
)  # fmt: skip
def test_a_header_that_is_none_belongs_to_no_trace(header: str) -> None:
    assert trace_context({"headers": [(b"traceparent", header.encode())]}) is None


def test_a_later_version_of_the_header_may_say_more() -> None:
    found = trace_context({"headers": [(b"traceparent", (HEADER + "-more").replace("00-", "01-", 1).encode())]})
    assert found is not None
    assert (found.trace_id, found.span_id, found.is_sampled) == (TRACE, SPAN, True)


@pytest.mark.parametrize(
    "given", [{"otel_endpoint": "localhost:4318"}, {"otel_endpoint": "http://h", "otel_headers": "a"}]
)
def test_what_is_no_collector_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(InvalidParameter, match=[*given][-1]):
        tracer_of(Settings(**given), "here")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "operation"),
    [("/v1/chat/completions", "chat"), ("/v1/messages", "chat"), ("/v1/completions", "text_completion"),
     ("/api/generate", "text_completion"), ("/v1/embeddings", "embeddings"), ("/rerank", "rerank")],
)  # fmt: skip
def test_endpoints_are_named_as_the_conventions_do(path: str, operation: str) -> None:
    assert operation_of(path) == operation
