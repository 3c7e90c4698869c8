"""What a monitoring system is told: counters and histograms as requests end, gauges when it asks.

Names follow Prometheus' rules (base units, `_total`); every one is about one model, but those of HTTP and the process.
Times are those of the worker: a request arrives there, waits, its prompt is computed, its tokens are made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    exposition,
)  # fmt: skip

from localllm import __version__
from localllm.errors import LocalLLMError
from localllm.runtime.runtime import Observer, Runtime
from localllm.server.tally import Tally
from localllm.server.totals import CONTENT_TYPE, Totals
from localllm.settings.config import MetricsNames
from localllm.types import Finish, LoadedModel, SourceName
from localllm.types.states import EngineStatus

STATUS_TIMEOUT_S = 2.0
"""A model in the middle of a long step, or dead, does not hold up the answer; its gauges stay as they were."""
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250)
_SECONDS_A_TOKEN = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)


class Metrics(Observer):
    """One server's, in a registry of its own."""

    def __init__(self, names: MetricsNames = "localllm") -> None:
        """`names`: whose, ours by model, or llama-server's of all together."""
        self.names = names
        self.totals = Totals()
        self.known: dict[str, LoadedModel] = {}
        """Every model that was ever loaded, as it last was."""
        self._statuses: dict[str, EngineStatus] = {}
        """As the models last said, for the totals."""
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)

        def counter(name: str, help: str, *labels: str) -> Counter:
            return Counter(f"localllm_{name}", help, labels or ("model",), registry=registry)

        def histogram(name: str, help: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"localllm_{name}", help, ("model",), buckets=buckets, registry=registry)

        def gauge(name: str, help: str) -> Gauge:
            made = Gauge(f"localllm_{name}", help, ("model",), registry=registry)
            self._gauges.append(made)
            return made

        self._gauges: list[Gauge] = []
        self._shown: set[str] = set()
        """The models that have gauges."""

        self._http = counter("http_requests_total", "HTTP responses; status 0: none was sent", "path", "status")
        self._requests = counter(
            "requests_total",
            "Requests by their end: stop, length, timeout, embedded, ranked, cancelled or an error code",
            "model",
            "end",
        )
        self._prompt = counter("prompt_tokens_total", "Prompt tokens of finished requests")
        self._cached = counter("cached_tokens_total", "Prompt tokens that were in the KV cache already")
        self._completion = counter("completion_tokens_total", "Tokens made by finished requests")
        self._accepted = counter(
            "accepted_guesses_total", "Of these, tokens that were guessed before it was their turn"
        )
        self._rejected = counter("rejected_guesses_total", "Tokens that were guessed, computed, and did not come")
        self._texts = counter("embedded_texts_total", "Texts that were embedded, and documents that were ranked")
        self._text_tokens = counter("embedded_tokens_total", "Tokens of these")
        self._key_requests = counter(
            "key_requests_total",
            "HTTP requests to a model by the name of the key that asked; end: ok, or what ended them early",
            "key",
            "model",
            "end",
        )
        self._key_tokens = {
            kind: counter(f"key_{kind}_tokens_total", help, "key", "model")
            for kind, help in (
                ("prompt", "Tokens of prompts and texts by the name of the key, each prompt once, whatever its n"),
                ("cached", "Those of them that were in the KV cache already"),
                ("completion", "Tokens made for requests of that key, those of broken-off answers included"),
            )
        }
        self._restarts = counter("worker_restarts_total", "Starts of a worker process after one that died")
        self._queue = histogram("queue_seconds", "From a request's arrival until it has a slot", _SECONDS)
        self._ttft = histogram("time_to_first_token_seconds", "From a request's arrival to its first token", _SECONDS)
        self._tpot = histogram("time_per_output_token_seconds", "Between two tokens of one answer", _SECONDS_A_TOKEN)
        self._whole = histogram("request_seconds", "From a request's arrival to its end", _SECONDS)
        info = Gauge("localllm_build_info", "1; the version is in the label", ("version",), registry=registry)
        info.labels(__version__).set(1)
        self._loaded = gauge("model_ready", "1: the model can answer; 0: its process is being started again")
        self._slots = gauge("slots", "Answers that can be made at the same time")
        self._running = gauge("requests_running", "Requests that have a slot")
        self._waiting = gauge("requests_waiting", "Requests that wait for a slot")
        self._kv = gauge("kv_tokens", "Tokens in the KV cache, those of idle slots included")
        self._kv_capacity = gauge("kv_capacity_tokens", "Tokens that fit into the KV cache")
        self._host_bytes = gauge("kv_host_bytes", "Main memory that idle conversations without a slot occupy")
        self._hit_ratio = gauge("prefix_hit_ratio", "Share of all prompt tokens that were in the KV cache already")
        self._threads = gauge("threads", "CPU threads that computed the last step; fewer while others want the cores")
        self._guesses = {
            kind: Gauge(f"localllm_{kind}_guesses", help, ("model", "source"), registry=registry)
            for kind, help in (
                ("computed", "Tokens that a source guessed and that were computed, since the model was loaded"),
                ("right", "Those of them that came"),
            )
        }
        self._steps = gauge("steps", "Batches that the model has computed since it was loaded")

    def answered(self, path: str, status: int | None) -> None:
        """An HTTP exchange is over."""
        self._http.labels(path, str(status or 0)).inc()

    def asked(self, key: str | None, tally: Tally, end: str | None) -> None:
        """An HTTP exchange is over; one without a key's name or a model that exists is none of a key's."""
        if key is None or tally.model is None:
            return
        self._key_requests.labels(key, tally.model, end or "ok").inc()
        self._key_tokens["prompt"].labels(key, tally.model).inc(tally.prompt_tokens)
        self._key_tokens["cached"].labels(key, tally.model).inc(tally.cached_tokens)
        self._key_tokens["completion"].labels(key, tally.model).inc(tally.completion_tokens)

    def finished(self, model_id: str, finish: Finish) -> None:
        self.totals.finished(finish)
        usage, timings = finish.usage, finish.timings
        self._requests.labels(model_id, finish.reason).inc()
        self._prompt.labels(model_id).inc(usage.prompt_tokens)
        self._cached.labels(model_id).inc(usage.cached_tokens)
        self._completion.labels(model_id).inc(usage.completion_tokens)
        self._accepted.labels(model_id).inc(usage.accepted_guesses)
        self._rejected.labels(model_id).inc(usage.rejected_guesses)
        if finish.reason == "cancelled":
            return  # by the worker's own end: its times say nothing
        first_s = timings.queue_s + timings.prefill_s
        self._queue.labels(model_id).observe(timings.queue_s)
        self._ttft.labels(model_id).observe(first_s)
        self._whole.labels(model_id).observe(first_s + timings.decode_s)
        if usage.completion_tokens > 1:
            self._tpot.labels(model_id).observe(timings.decode_s / (usage.completion_tokens - 1))

    def embedded(self, model_id: str, end: str, num_tokens: Sequence[int], seconds: float) -> None:
        """Texts were `embedded` or `ranked`; `num_tokens`: of each of them."""
        self.totals.embedded(num_tokens, seconds)
        self._requests.labels(model_id, end).inc()
        self._texts.labels(model_id).inc(len(num_tokens))
        self._text_tokens.labels(model_id).inc(sum(num_tokens))
        self._whole.labels(model_id).observe(seconds)

    def failed(self, model_id: str, code: str) -> None:
        self._requests.labels(model_id, code).inc()

    def ready(self, model_id: str, loaded: LoadedModel) -> None:
        self.known[model_id] = loaded

    def restarted(self, model_id: str) -> None:
        self._restarts.labels(model_id).inc()

    async def render(self, runtime: Runtime, accept: str) -> tuple[bytes, str]:
        """The text of all metrics and its content type, in the best format that `accept` takes."""
        await asyncio.gather(*(self._ask(runtime, model) for model in runtime.loaded()))
        self._forget_all_but({model.id for model in runtime.loaded()})
        if self.names == "llamacpp":
            return self.totals.render(self._statuses), CONTENT_TYPE
        try:
            encode, content_type = exposition.choose_encoder(accept)
        except (TypeError, ValueError):  # as the library answers a `version` that is none
            encode, content_type = exposition.choose_encoder("")
        ours = encode(self.registry)
        if self.names == "localllm":
            return ours, content_type
        # OpenMetrics ends with a line of its own, so both together are in the older format.
        return exposition.generate_latest(self.registry) + self.totals.render(self._statuses), CONTENT_TYPE

    def _forget_all_but(self, loaded: set[str]) -> None:
        """The gauges of models that are not loaded any more would say what is not true. Counters stay: they only grow,
        and go on when the model is loaded again."""
        for id in self._shown - loaded:
            for gauge in self._gauges:
                gauge.remove(id)
            for source in get_args(SourceName):
                for by_source in self._guesses.values():
                    by_source.remove(id, source)
        self._shown &= loaded
        self._statuses = {id: status for id, status in self._statuses.items() if id in loaded}

    async def _ask(self, runtime: Runtime, model: LoadedModel) -> None:
        id = model.id
        self._shown.add(id)
        self._slots.labels(id).set(model.slots)
        self._kv_capacity.labels(id).set(model.slots * model.ctx)
        is_ready = id not in runtime.restarting()
        self._loaded.labels(id).set(is_ready)
        prompt = _value(self._prompt, id)
        self._hit_ratio.labels(id).set(_value(self._cached, id) / prompt if prompt else 0.0)
        if is_ready:
            try:
                self._show(id, await asyncio.wait_for(runtime.status(id), STATUS_TIMEOUT_S))
            except (TimeoutError, LocalLLMError):
                pass  # see STATUS_TIMEOUT_S

    def _show(self, id: str, status: EngineStatus) -> None:
        self._statuses[id] = status
        self._running.labels(id).set(sum(slot.request is not None for slot in status.slots))
        self._waiting.labels(id).set(status.num_waiting)
        self._kv.labels(id).set(sum(slot.num_held for slot in status.slots))
        self._host_bytes.labels(id).set(status.host_cache_bytes)
        self._threads.labels(id).set(status.num_threads)
        self._steps.labels(id).set(status.num_steps)
        for each in status.guesses:
            self._guesses["computed"].labels(id, each.source).set(each.num_computed)
            self._guesses["right"].labels(id, each.source).set(each.num_right)


def _value(counter: Counter, model_id: str) -> float:
    (family,) = counter.labels(model_id).collect()
    (sample,) = (sample for sample in family.samples if sample.name.endswith("_total"))
    return float(sample.value)
