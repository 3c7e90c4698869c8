"""The metrics of a server: counters and histograms updated when requests end, gauges when they are scraped.

Times are measured in the worker: arrival, waiting, prompt, tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Gauge, PlatformCollector, ProcessCollector, exposition

from localllm import __version__
from localllm.errors import LocalLLMError
from localllm.runtime.runtime import Observer, Runtime
from localllm.server.watching.llama_metrics import CONTENT_TYPE, Totals
from localllm.server.watching.media_meters import MediaMeters
from localllm.server.watching.meters import BatchMeters, KeyMeters, ModelGauges, RequestMeters, RouteMeters
from localllm.server.watching.tally import Tally
from localllm.server.watching.vllm_metrics import VllmMeters
from localllm.settings.server_settings import MetricsNames
from localllm.types import Finish, LoadedModel
from localllm.types.states import EngineStatus

STATUS_TIMEOUT_S = 2.0
"""A model in a long step, or dead, does not delay a scrape; its gauges keep their values."""


class Metrics(Observer):
    """The metrics of one server, in a registry of its own."""

    def __init__(self, names: MetricsNames = "localllm") -> None:
        """`names`: ours, per model; llama-server's, for all models together; both; or vLLM's, per model."""
        self.names = names
        self.totals = Totals()
        self.known: dict[str, LoadedModel] = {}
        """The last load of every model ever loaded."""
        self._statuses: dict[str, EngineStatus] = {}
        """The models' last reports, for the totals."""
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        info = Gauge("localllm_build_info", "1; the version is in the label", ("version",), registry=registry)
        info.labels(__version__).set(1)
        self._requests = RequestMeters(registry)
        self._keys = KeyMeters(registry)
        self._routes = RouteMeters(registry)
        self.batches = BatchMeters(registry)
        self._models = ModelGauges(registry)
        self._vllm = VllmMeters() if names == "vllm" else None
        self._media = MediaMeters(registry)

    def hit_ratio(self, model_id: str) -> float:
        """Share of all prompt tokens of finished requests that were cached; 0 before the first."""
        return self._requests.hit_ratio(model_id)

    def answered(self, path: str, status: int | None) -> None:
        """Count a finished HTTP exchange."""
        self._requests.answered(path, status)

    def asked(self, key: str | None, tally: Tally, end: str | None) -> None:
        """Count a finished HTTP exchange for its key, if it has a key name and an existing model."""
        if tally.routed is not None:
            self._routes.asked(tally.routed)
        if key is not None and tally.model is not None:
            self._keys.asked(key, tally.model, tally, end)

    def finished(self, model_id: str, finish: Finish, *, is_batch: bool = False) -> None:
        if is_batch:
            self.batches.ended(model_id, finish)
        self.totals.finished(finish)
        self._requests.finished(model_id, finish)
        if self._vllm is not None:
            self._vllm.finished(model_id, finish)

    def embedded(self, model_id: str, end: str, num_tokens: Sequence[int], seconds: float) -> None:
        """Count texts `embedded` or `ranked`; `num_tokens`: of each."""
        self.totals.embedded(num_tokens, seconds)
        self._requests.embedded(model_id, end, num_tokens, seconds)
        if self._vllm is not None:
            self._vllm.embedded(model_id, num_tokens, seconds)

    def failed(self, model_id: str, code: str, *, is_batch: bool = False) -> None:
        if is_batch:
            self.batches.ended(model_id, code)
        self._requests.failed(model_id, code)
        if self._vllm is not None:
            self._vllm.failed(model_id)

    def ready(self, model_id: str, loaded: LoadedModel) -> None:
        self.known[model_id] = loaded

    def restarted(self, model_id: str) -> None:
        self._requests.restarted(model_id)

    async def render(self, runtime: Runtime, accept: str) -> tuple[bytes, str]:
        """The text of all metrics and its content type, in the best format that `accept` allows."""
        await asyncio.gather(*(self._ask(runtime, model) for model in runtime.loaded()))
        self._forget_all_but({model.id for model in runtime.loaded()})
        for model in runtime.running():
            if model.id in self._models.shown:
                total = model.memory_bytes + sum(model.device_bytes.values())
                self._models.reserved(model.id, total, media_bytes=model.media_bytes, adapter_bytes=model.adapter_bytes)
        if self.names == "llamacpp":
            return self.totals.render(self._statuses), CONTENT_TYPE
        try:
            encode, content_type = exposition.choose_encoder(accept)
        except (TypeError, ValueError):  # as the library does for an invalid `version`
            encode, content_type = exposition.choose_encoder("")
        if self._vllm is not None:
            return encode(self._vllm.registry), content_type
        ours = encode(self.registry)
        if self.names == "localllm":
            return ours, content_type
        # OpenMetrics ends with a special line, so both together use the older format.
        return exposition.generate_latest(self.registry) + self.totals.render(self._statuses), CONTENT_TYPE

    def _forget_all_but(self, loaded: set[str]) -> None:
        """Counters stay: they only grow, and continue when the model is loaded again."""
        self._models.forget_all_but(loaded)
        if self._vllm is not None:
            self._vllm.forget_all_but(loaded)
        self._media.forget_all_but(loaded)
        self._statuses = {id: status for id, status in self._statuses.items() if id in loaded}

    async def _ask(self, runtime: Runtime, model: LoadedModel) -> None:
        is_ready = model.id not in runtime.restarting()
        self._models.loaded(model, is_ready=is_ready, hit_ratio=self.hit_ratio(model.id))
        if is_ready:
            try:
                status = await asyncio.wait_for(runtime.status(model.id), STATUS_TIMEOUT_S)
            except (TimeoutError, LocalLLMError):
                return  # see STATUS_TIMEOUT_S
            self._statuses[model.id] = status
            self._models.status(model, status)
            if self._vllm is not None:
                self._vllm.status(model, status)
            if status.media is not None:
                self._media.status(model, status.media)
