"""Counters of what encoders did, over reports and loads."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from localllm.server.watching.media_meters import MediaMeters
from localllm.types.states import MediaStatus
from tests.server.fake_runtime import tiny_model

FIRST = MediaStatus(pictures=2, encoded_rows=100, encode_s=2.0)


@pytest.mark.parametrize(
    ("second", "is_loaded_again", "total"),
    [
        pytest.param(replace(FIRST, pictures=5, encode_s=4.0), False, 5, id="the same process goes on"),
        pytest.param(replace(FIRST, pictures=5, encode_s=4.0), True, 7, id="a new load that did more"),
        pytest.param(replace(FIRST, pictures=1, encode_s=1.0), False, 3, id="a process restarted in the same second"),
        pytest.param(FIRST, False, 2, id="nothing new"),
    ],
)
def test_counters_grow_by_what_is_new(second: MediaStatus, is_loaded_again: bool, total: int) -> None:
    registry = CollectorRegistry()
    meters, model = MediaMeters(registry), tiny_model()
    meters.status(model, FIRST)
    meters.status(replace(model, created_unix_s=model.created_unix_s + is_loaded_again), second)
    labels = {"model": model.id, "kind": "image"}
    assert registry.get_sample_value("localllm_media_encoded_total", labels) == total
