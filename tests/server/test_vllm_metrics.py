"""With `--metrics-names vllm`, what expects vLLM's metrics finds them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from localllm.settings.config import Settings
from localllm.types import Finish, Timings, Usage
from tests.server.conftest import Served, running
from tests.server.fake_runtime import FINISH

WANTED = {
    # The endpoint picker of the inference gateway, and KEDA's examples.
    "vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc",
    # vLLM's Grafana dashboards.
    "vllm:e2e_request_latency_seconds_bucket", "vllm:prompt_tokens_total", "vllm:generation_tokens_total",
    "vllm:inter_token_latency_seconds_bucket", "vllm:time_to_first_token_seconds_bucket",
    "vllm:request_success_total", "vllm:request_queue_time_seconds_sum", "vllm:request_prefill_time_seconds_sum",
    "vllm:request_decode_time_seconds_sum", "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total",
}  # fmt: skip


@pytest.fixture(scope="module")
def vllm() -> Iterator[Served]:
    with running(Settings(port=0, grace_s=0.1, metrics_names="vllm")) as served:
        yield served


def _samples(served: Served) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    samples: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in text_string_to_metric_families(served.http.get("/metrics").text):
        for sample in family.samples:
            samples.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return samples


def _of(served: Served, name: str, **labels: str) -> float:
    return _samples(served)[name][frozenset({"model_name": "tiny", "engine": "0", **labels}.items())]


def test_every_metric_that_others_ask_for_is_there_and_none_of_ours(vllm: Served) -> None:
    vllm.runtime.observer.finished("tiny", FINISH)
    names = set(_samples(vllm))
    assert names >= WANTED
    assert not [name for name in names if not name.startswith("vllm:")]


def test_the_gauges_count_what_runs_and_waits_and_what_the_running_hold(vllm: Served) -> None:
    gauges = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
    assert [_of(vllm, f"vllm:{name}") for name in gauges] == [1, 2, 30 / (4 * 512)]


def test_an_answer_is_counted_with_its_tokens_reason_and_times(vllm: Served) -> None:
    names = ("prompt_tokens_total", "prefix_cache_queries_total", "prefix_cache_hits_total", "generation_tokens_total",
             "time_to_first_token_seconds_sum", "inter_token_latency_seconds_sum",
             "e2e_request_latency_seconds_sum")  # fmt: skip
    vllm.runtime.observer.finished("tiny", FINISH)
    before = {name: _of(vllm, f"vllm:{name}") for name in names}
    vllm.runtime.observer.finished("tiny", Finish("length", Usage(13, 11, 5), Timings(0.5, 1.5, 2.0)))
    grown = [_of(vllm, f"vllm:{name}") - before[name] for name in names]
    assert grown == pytest.approx([13, 13, 5, 11, 2.0, 0.2, 4.0])


@pytest.mark.parametrize(("reason", "named"), [("timeout", "abort"), ("cancelled", "abort"), ("queue_full", "error")])
def test_ends_have_the_reasons_that_vllm_has(vllm: Served, reason: str, named: str) -> None:
    def ended() -> float:
        labels = frozenset({"model_name": "tiny", "engine": "0", "finished_reason": named}.items())
        return _samples(vllm).get("vllm:request_success_total", {}).get(labels, 0.0)

    before, observer = ended(), vllm.runtime.observer
    if reason == "queue_full":
        observer.failed("tiny", reason)
    else:
        observer.finished("tiny", Finish(reason, Usage(1, 0, 0), Timings(0, 0, 0)))  # type: ignore[arg-type]
    assert ended() == before + 1


def test_the_gauges_of_an_unloaded_model_go(vllm: Served) -> None:
    vllm.http.post("/localllm/load", json={"model": "other:1b", "stream": False})
    assert any(("model_name", "other:1b") in labels for labels in _samples(vllm)["vllm:num_requests_running"])
    vllm.http.post("/localllm/unload", json={"model": "other:1b"})
    assert not any(("model_name", "other:1b") in labels for labels in _samples(vllm)["vllm:num_requests_running"])
