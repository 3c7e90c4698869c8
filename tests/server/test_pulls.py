"""Downloads from a hub that hangs: they have threads of their own, and their queue is bounded and said."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from localllm.client.sse import EventDecoder
from localllm.settings.config import Settings
from tests.registry.nasty_server import Asked, Nasty, Reply
from tests.server.conftest import serving

NUM_PULLS = 8
"""More than asyncio's default executor has threads on a small machine."""


@pytest.fixture
def hub() -> Iterator[Nasty]:
    def hang(_: Asked) -> Reply:
        return Reply(200, {"Content-Type": "application/json"}, b"", 100, stall=True)

    with Nasty() as nasty:
        nasty.script = hang
        yield nasty


@contextlib.contextmanager
def _pull(http: httpx.Client, number: int) -> Iterator[Iterator[dict[str, Any]]]:
    """The events of a pull."""
    body = {"model": f"hf.co/someone/model-{number}-GGUF"}
    with http.stream("POST", "/localllm/pull", json=body) as response:
        assert response.status_code == 200, response.read()
        decoder = EventDecoder()
        yield (msgspec.json.decode(data) for piece in response.iter_bytes() for data in decoder.feed(piece))


def test_pulls_from_a_hub_that_hangs_stop_nothing_else_and_more_of_them_wait_or_are_refused(hub: Nasty) -> None:
    settings = Settings(port=0, grace_s=0.1, hub_endpoint=hub.origin, max_pulls=NUM_PULLS, max_waiting_pulls=1)
    with (
        serving(settings) as url,
        httpx.Client(base_url=url, timeout=60, trust_env=False) as http,
        contextlib.ExitStack() as others,
        contextlib.ExitStack() as first,
    ):
        pulls = [(others if number else first).enter_context(_pull(http, number)) for number in range(NUM_PULLS)]
        assert [next(events)["progress"]["phase"] for events in pulls] == ["looking"] * NUM_PULLS
        queued = others.enter_context(_pull(http, NUM_PULLS))
        assert next(queued)["progress"]["phase"] == "queued"

        refused = http.post("/localllm/pull", json={"model": "hf.co/someone/more-GGUF"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
        assert f"{NUM_PULLS} run and 1 wait already" in refused.json()["error"]["message"]
        assert "--max-pulls" in refused.json()["error"]["message"]

        assert http.get("/health").status_code == 200
        assert http.get("/v1/models").status_code == 200
        assert http.get("/localllm/models").status_code == 200
        loaded = http.post("/localllm/load", json={"model": "demo", "slots": 1, "stream": False})
        assert loaded.json()["status"] == "ready"
        embedded = http.post("/v1/embeddings", json={"model": "demo", "input": "x"})
        assert embedded.status_code == 200
        assert http.post("/localllm/unload", json={"model": "demo"}).status_code == 200
        assert http.post("/localllm/remove", json={"model": "hf.co/someone/none-GGUF"}).status_code == 404

        first.close()  # whose client hangs up
        assert next(queued)["progress"]["phase"] == "looking"
