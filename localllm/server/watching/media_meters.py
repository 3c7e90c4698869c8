"""What the models' encoders of pictures and sounds have done, as counters that grow over loads of a model, and gauges.

Knows nothing of requests; see `RequestMeters` for what they waited for.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from localllm.types import LoadedModel
from localllm.types.states import MediaStatus

NOTHING = MediaStatus()


class MediaMeters:
    """Counters of reports since the last one of the same process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, help: str, *labels: str) -> Counter:
            return Counter(f"localllm_{name}", help, ("model", *labels), registry=registry)

        self._encoded = counter(
            "media_encoded_total", "Pictures (with frames of videos) and sounds (with parts of long ones)", "kind"
        )
        self._rows = counter("media_encoded_rows_total", "Rows (tokens) of pictures and sounds that were encoded")
        self._cached_rows = counter(
            "media_cached_rows_total", "Rows (tokens) of pictures and sounds found in memory or on disk", "tier"
        )
        self._seconds = counter("encoder_seconds_total", "Time that encoders of pictures and sounds worked")
        self._restarts = counter("encoder_restarts_total", "Restarts of encoder processes that died")
        self._cache_bytes = Gauge(
            "localllm_media_cache_bytes", "Main memory used by encoded rows", ("model",), registry=registry
        )
        self._running = Gauge(
            "localllm_encoder_running",
            "1: the encoder has a process, which holds the projector; 0: none yet, or idle",
            ("model",),
            registry=registry,
        )
        self._last: dict[str, tuple[int, MediaStatus]] = {}
        """Of each model: when it was loaded, and the last report since then."""

    def status(self, model: LoadedModel, now: MediaStatus) -> None:
        loaded_s, before = self._last.get(model.id, (model.created_unix_s, NOTHING))
        if loaded_s != model.created_unix_s or before.encode_s > now.encode_s:
            before = NOTHING
        self._last[model.id] = (model.created_unix_s, now)
        self._encoded.labels(model.id, "image").inc(now.pictures - before.pictures)
        self._encoded.labels(model.id, "audio").inc(now.sounds - before.sounds)
        self._rows.labels(model.id).inc(now.encoded_rows - before.encoded_rows)
        self._cached_rows.labels(model.id, "memory").inc(now.memory_rows - before.memory_rows)
        self._cached_rows.labels(model.id, "disk").inc(now.disk_rows - before.disk_rows)
        self._seconds.labels(model.id).inc(now.encode_s - before.encode_s)
        self._restarts.labels(model.id).inc(now.restarts - before.restarts)
        self._cache_bytes.labels(model.id).set(now.cache_bytes)
        self._running.labels(model.id).set(now.is_running)

    def forget_all_but(self, loaded: set[str]) -> None:
        """Remove the gauges of unloaded models, which would be wrong."""
        for id in self._last.keys() - loaded:
            del self._last[id]
            self._cache_bytes.remove(id)
            self._running.remove(id)
