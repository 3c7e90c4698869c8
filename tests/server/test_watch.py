"""What a monitoring system sees: alive, ready, metrics, logs."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from importlib import resources
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from localllm.server.edge import log
from localllm.server.watching.metrics import Metrics
from localllm.server.watching.tally import Tally
from localllm.supervisor.load_log import log_load
from localllm.types import Finish, Timings, Usage
from localllm.types.load_options import LoadOptions
from localllm.types.states import EngineStatus, MediaStatus
from tests.server.conftest import RequestLog, Served
from tests.server.fake_runtime import FINISH, FakeRuntime, tiny_model

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def _samples(served: Served) -> Samples:
    response = served.http.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def _of(samples: Samples, name: str, **labels: str) -> float:
    return samples[f"localllm_{name}", frozenset({"model": "tiny", **labels}.items())]


@pytest.mark.parametrize("version", ["abc", "1.x", "9" * 5000])
def test_metrics_in_a_version_that_is_none_are_plain_text(served: Served, version: str) -> None:
    response = served.http.get("/metrics", headers={"accept": f"application/openmetrics-text;version={version}"})
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain")


def test_ready_is_a_503_while_a_dead_process_is_started_again(served: Served) -> None:
    assert served.http.get("/ready").json() == {"models": ["tiny"], "status": "ready"}
    served.runtime.restarts = ["tiny"]
    response = served.http.get("/ready")
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "loading"
    assert response.headers["retry-after"]
    assert served.http.get("/health").status_code == 200


def test_alive_and_ready_need_no_key_but_metrics_and_slots_do(guarded: Served) -> None:
    assert [guarded.http.get(path).status_code for path in ("/health", "/ready")] == [200, 200]
    assert [guarded.http.get(path).status_code for path in ("/metrics", "/slots")] == [401, 401]


def test_a_finished_request_is_counted_with_its_tokens_and_times(served: Served) -> None:
    before = _samples(served)
    served.runtime.observer.finished("tiny", FINISH)
    usage = Usage(13, 1, 0, image_tokens=4)
    served.runtime.observer.finished("tiny", Finish("length", usage, Timings(0.0, 0.1, 0.0, 0.5, 2)))
    served.runtime.observer.failed("tiny", "queue_full")
    served.runtime.observer.restarted("tiny")
    after = _samples(served)

    def grown(name: str, **labels: str) -> float:
        key = (f"localllm_{name}", frozenset({"model": "tiny", **labels}.items()))
        return after[key] - before.get(key, 0.0)

    assert grown("requests_total", end="stop") == 1
    assert grown("requests_total", end="queue_full") == 1
    assert grown("prompt_tokens_total") == 20
    assert grown("cached_tokens_total") == 2
    assert grown("media_tokens_total", kind="image") == 4
    assert grown("media_encode_seconds_total") == pytest.approx(0.5)
    assert grown("media_cached_total") == 2
    assert grown("completion_tokens_total") == 4
    assert grown("worker_restarts_total") == 1
    assert grown("queue_seconds_sum") == pytest.approx(0.1)
    assert grown("time_to_first_token_seconds_sum") == pytest.approx(0.4)
    assert grown("request_seconds_count") == 2
    assert grown("time_per_output_token_seconds_count") == 1, "one token has no time between tokens"
    assert grown("time_per_output_token_seconds_sum") == pytest.approx(0.15)


def test_what_the_encoder_did_is_counted_and_what_it_holds_is_shown(served: Served) -> None:
    assert not [name for name, _ in _samples(served) if name.startswith("localllm_encoder")]
    served.runtime.media = MediaStatus(
        pictures=3, sounds=1, encoded_rows=900, memory_rows=200, disk_rows=100, encode_s=2.5, restarts=1,
        cache_bytes=4000, is_running=True,
    )  # fmt: skip
    samples = _samples(served)
    assert [_of(samples, "media_encoded_total", kind=kind) for kind in ("image", "audio")] == [3, 1]
    assert [_of(samples, "media_cached_rows_total", tier=tier) for tier in ("memory", "disk")] == [200, 100]
    names = ("media_encoded_rows_total", "encoder_seconds_total", "encoder_restarts_total", "encoder_running")
    assert [_of(samples, name) for name in names] == [900, 2.5, 1, 1]
    assert _of(samples, "media_cache_bytes") == 4000
    served.http.post("/localllm/unload", json={"model": "tiny"})
    left = {name for name, labels in _samples(served) if ("model", "tiny") in labels}
    assert "localllm_encoder_seconds_total" in left
    assert not left & {"localllm_media_cache_bytes", "localllm_encoder_running"}


def test_texts_are_counted_with_their_tokens_by_the_names_of_models_that_are_there(served: Served) -> None:
    before = _samples(served)
    served.http.post("/v1/embeddings", json={"model": "tiny", "input": ["ab", "c"]})
    served.http.post("/rerank", json={"query": "q", "texts": ["abcd"]})
    assert served.http.post("/v1/embeddings", json={"model": "nobody", "input": "x"}).status_code == 404
    after = _samples(served)
    names: list[tuple[str, dict[str, str]]] = [("embedded_texts_total", {}), ("embedded_tokens_total", {})]
    names += [("requests_total", {"end": end}) for end in ("embedded", "ranked")]
    keys = [(f"localllm_{name}", frozenset({"model": "tiny", **labels}.items())) for name, labels in names]
    assert [after[key] - before.get(key, 0.0) for key in keys] == [3, 7, 1, 1]
    assert "nobody" not in {dict(labels).get("model") for _, labels in after}


def test_the_gauges_are_those_of_the_engine(served: Served) -> None:
    samples = _samples(served)
    assert _of(samples, "model_ready") == 1
    assert (_of(samples, "slots"), _of(samples, "requests_running"), _of(samples, "requests_waiting")) == (4, 1, 2)
    names = ("requests_parked", "preemptions", "preemptions_recomputed")
    assert [_of(samples, name) for name in names] == [0, 7, 1]
    assert (_of(samples, "kv_tokens"), _of(samples, "kv_capacity_tokens")) == (45, 4 * 512)
    assert _of(samples, "kv_busy_ratio") == 30 / (4 * 512), "idle conversations make room"
    assert (_of(samples, "kv_host_bytes"), _of(samples, "threads")) == (4096, 3)
    reserved = [_of(samples, name) for name in ("reserved_bytes", "media_reserved_bytes", "adapter_reserved_bytes")]
    assert reserved == [1000, 250, 300]
    kinds = ("adapters_loaded", "adapter_bytes", "adapter_switches", "adapter_loads", "adapter_evictions")
    assert [_of(samples, name) for name in kinds] == [2, 200, 9, 5, 3]


def test_a_model_in_a_long_step_does_not_hold_up_the_metrics(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localllm.server.watching.metrics.STATUS_TIMEOUT_S", 0.01)
    served.runtime.is_stuck = True
    assert _of(_samples(served), "slots") == 4


def test_the_gauges_of_an_unloaded_model_go_and_come_back_with_it_while_its_counters_stay(served: Served) -> None:
    served.http.post("/localllm/load", json={"model": "other:1b", "stream": False})
    served.runtime.observer.finished("other:1b", FINISH)

    def told() -> set[str]:
        return {name for name, labels in _samples(served) if ("model", "other:1b") in labels}

    before = told()
    assert {"localllm_model_ready", "localllm_kv_tokens", "localllm_slots", "localllm_prefix_hit_ratio"} <= before
    served.http.post("/localllm/unload", json={"model": "other:1b"})
    after = told()
    gone = {name for name in before if not name.endswith(("_total", "_created", "_bucket", "_sum", "_count"))}
    assert after == before - gone
    assert "localllm_requests_total" in after
    assert _of(_samples(served), "model_ready") == 1, "the other model's"
    served.http.post("/localllm/load", json={"model": "other:1b", "stream": False})
    assert told() == before


def test_a_model_that_is_unloaded_while_the_metrics_are_made_is_not_in_them() -> None:
    class Leaving(FakeRuntime):
        async def status(self, model_id: str) -> EngineStatus:
            status = await super().status(model_id)
            await self.unload(model_id)
            return status

    text, _ = asyncio.run(Metrics().render(Leaving(), ""))
    assert b"localllm_requests_running" in text
    assert not [name for name in (b"model_ready", b"slots", b"kv_tokens", b"steps") if b"localllm_%s{" % name in text]


def test_responses_are_counted_by_route_and_unknown_paths_under_one_name(served: Served) -> None:
    for path in ("/v1/models/tiny", "/wp-admin", "/.env"):
        served.http.get(path)
    paths = {dict(labels)["path"] for name, labels in _samples(served) if name == "localllm_http_requests_total"}
    assert {"/v1/models/{model_id:path}", "other"} <= paths
    assert not paths & {"/wp-admin", "/.env", "/v1/models/tiny"}


def test_openmetrics_is_spoken_to_who_asks_for_it(served: Served) -> None:
    accept = {"accept": "application/openmetrics-text; version=1.0.0"}
    response = served.http.get("/metrics", headers=accept)
    assert response.headers["content-type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")


def test_the_dashboard_asks_only_for_metrics_that_exist() -> None:
    dashboard = json.loads(resources.files("localllm.data").joinpath("grafana.json").read_text("utf-8"))
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
        for name in re.findall(r"\b(?:localllm|process)_\w+", target["expr"])
    }
    assert len(asked) > 10
    metrics = Metrics()
    metrics.finished("tiny", FINISH)
    metrics.failed("tiny", "timeout")
    metrics.restarted("tiny")
    metrics.embedded("tiny", "ranked", (3,), 0.1)
    metrics.asked("ann", Tally(model="tiny"), None)
    known: set[str] = set()
    for family in metrics.registry.collect():
        suffixes = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",)}.get(family.type, ("",))
        known |= {family.name + suffix for suffix in suffixes}
    assert not asked - known


def test_a_json_log_line_is_one_object_with_the_requests_id() -> None:
    record = logging.LogRecord("localllm", logging.WARNING, "", 0, "stream_failed", None, None)
    record.fields = {"id": "abc", "code": "internal", "message": "a\nb", "nothing": None}
    line = log.JsonFormatter().format(record)
    assert "\n" not in line
    parsed = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", parsed.pop("time"))
    assert parsed == {"level": "warning", "event": "stream_failed", "id": "abc", "code": "internal", "message": "a\nb"}


def test_what_happens_during_a_request_is_logged_with_its_id(
    served: Served, caplog: pytest.LogCaptureFixture, request_log: RequestLog
) -> None:
    body = {"model": "tiny", "prompt": "x", "zeal": 1}
    served.http.post("/v1/completions", json=body, headers={"x-request-id": "mine-7"})
    request_log.lines(1, "mine-7")
    ids = {record.message: record.__dict__["fields"]["id"] for record in caplog.records if record.name == "localllm"}
    assert ids["fields_ignored"] == "mine-7"


def test_files_of_the_page_and_probes_are_logged_for_debugging_only(
    served: Served, caplog: pytest.LogCaptureFixture, request_log: RequestLog
) -> None:
    caplog.set_level(logging.DEBUG, "localllm")
    for path in ("/", "/health", "/docs", "/ui/nothing.js", "/v1/models"):
        served.http.get(path, headers={"x-request-id": "quiet"})
    request_log.lines(5, "quiet")
    levels = {vars(each)["fields"]["path"]: each.levelname for each in caplog.records if each.message == "request"}
    assert levels == {
        "/": "DEBUG", "/health": "DEBUG", "/docs": "DEBUG", "/ui/nothing.js": "INFO", "/v1/models": "INFO",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"ctx": 10}, "ctx 10 512"),
        ({"ctx": 512}, ""),
        ({}, ""),
        ({"kv_cells": 600}, "kv_cells 600 768"),
        ({"ubatch": 4096}, "ubatch 4096 512"),
        ({"slots": 2, "ctx": 512, "encoder": True}, "ctx 512 8"),
    ],
)
def test_an_option_that_has_another_value_than_asked_for_is_a_warning(
    caplog: pytest.LogCaptureFixture, asked: dict[str, Any], says: str
) -> None:
    model = msgspec.structs.replace(tiny_model(), ubatch=512, embedding_ctx=8)
    if asked.pop("encoder", False):
        model = msgspec.structs.replace(model, info=msgspec.structs.replace(model.info, causal=False))
    log_load(model, LoadOptions(**asked))
    fields = [vars(each)["fields"] for each in caplog.records if each.message == "option_changed"]
    assert ", ".join(f"{each['option']} {each['asked']} {each['used']}" for each in fields) == says
