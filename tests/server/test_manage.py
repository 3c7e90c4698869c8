"""A desktop app manages models over HTTP: the same gate and key as everything else, progress as events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from localllm.client.sse import EventDecoder
from localllm.errors import DiskFull, LoadFailed, PullFailed
from localllm.types import LoadedModel
from localllm.types.states import MediaStatus, PullState
from tests.server.conftest import Served

HALF = PullState(phase="downloading", id="new:1b", done_bytes=50, total_bytes=100, license="MIT", quant="Q8_0")
DONE = PullState(phase="done", id="new:1b", done_bytes=100, total_bytes=100)


def events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    decoder = EventDecoder()
    for piece in response.iter_bytes():
        for data in decoder.feed(piece):
            yield {} if data == "[DONE]" else msgspec.json.decode(data)


def posted(served: Served, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    with served.http.stream("POST", path, json=body) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        return list(events(response))


def test_ps_says_what_is_loaded_and_not_where_its_file_lies(served: Served) -> None:
    response = served.http.get("/localllm/ps")
    assert response.json()["models"] == [
        {"model": "tiny", "status": "ready", "memory_bytes": 1000, "media_bytes": 250, "adapter_bytes": 300,
         "requests": 1, "idle_s": 0.0, "expires_in_s": None, "pid": 4711, "ctx": 512, "slots": 4,
         "layers_per_device": {"CPU": 3},
         "adapters": {"loaded": 2, "loaded_bytes": 200, "limit_bytes": 400, "switches": 9, "loads": 5, "evictions": 3}}
    ]  # fmt: skip
    assert "secret" not in response.text


def test_ps_says_what_was_encoded_unless_the_model_does_not_respond(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localllm.server.apis.manage.handlers.STATUS_TIMEOUT_S", 0.01)
    served.runtime.media = MediaStatus(pictures=2, encoded_rows=512, encode_s=1.5, is_running=True)
    (model,) = served.http.get("/localllm/ps").json()["models"]
    assert model["media"] == {
        "pictures": 2, "sounds": 0, "encoded_rows": 512, "memory_rows": 0, "disk_rows": 0, "encode_s": 1.5,
        "restarts": 0, "cache_bytes": 0, "is_running": True,
    }  # fmt: skip
    served.runtime.is_stuck = True
    (model,) = served.http.get("/localllm/ps").json()["models"]
    assert "media" not in model


def test_the_list_of_models_has_those_that_would_be_loaded_when_asked(served: Served) -> None:
    models = served.http.get("/v1/models").json()["data"]
    assert [(model["id"], model["loaded"]) for model in models] == [("tiny", True), ("other:1b", False)]
    assert served.http.get("/v1/models/other:1b").json()["size_bytes"] == 99
    assert served.http.get("/v1/models/nothing").status_code == 404
    listed = served.http.get("/localllm/models").json()
    assert listed["models"][0]["id"] == "other:1b"
    assert (listed["max_media_bytes"], listed["max_megapixels"]) == (20 * 2**20, 64), "what the page scales pictures to"


def test_loading_reports_progress_and_ends_with_ready(served: Served) -> None:
    body = {"model": "other:1b", "ctx": 1024, "slots": 2, "keep_alive": "10m"}
    made = posted(served, "/localllm/load", body)
    assert made[-2:] == [{"status": "ready", "model": "other:1b", "fraction": 1.0}, {}]
    assert {"status": "loading", "model": "other:1b", "fraction": 0.5} in made
    ((model, options, keep_alive_s),) = served.runtime.loads
    assert (model, keep_alive_s) == ("other:1b", 600.0)
    assert options is not None
    assert (options.ctx, options.slots) == (1024, 2)


def test_loading_can_be_one_answer(served: Served) -> None:
    response = served.http.post("/localllm/load", json={"model": "other:1b", "stream": False})
    assert response.json()["status"] == "ready"
    assert served.runtime.loads[0][2] is None, "the setting's keep-alive time, or that of who loaded it before"


def test_loading_what_is_not_there_is_a_404_and_no_stream(served: Served) -> None:
    response = served.http.post("/localllm/load", json={"model": "nothing"})
    assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")


def test_a_load_that_fails_for_what_was_asked_is_a_400_and_for_what_is_set_here_a_500(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object, **__: object) -> LoadedModel:
        raise LoadFailed("no KV cache for 99 slots; ask for less with --ctx or --slots", param="ctx")

    monkeypatch.setattr(served.runtime, "load", fails)
    for asked, status, code, param in (
        ({"slots": 99}, 400, "invalid_parameter", "slots"),
        ({"ctx": 4096, "slots": 99}, 400, "invalid_parameter", "ctx"),
        ({}, 500, "load_failed", "ctx"),
    ):
        refused = served.http.post("/localllm/load", json={"model": "other:1b", "stream": False, **asked})
        error = refused.json()["error"]
        assert (refused.status_code, error["code"], error["param"]) == (status, code, param)
        assert "ask for less with ctx or slots" in error["message"]


def test_unloading_and_removing(served: Served) -> None:
    assert served.http.post("/localllm/unload", json={"model": "tiny"}).json()["status"] == "unloaded"
    assert served.http.get("/localllm/ps").json()["models"] == []
    assert served.http.post("/localllm/unload", json={"model": "tiny"}).status_code == 404
    assert served.http.post("/localllm/remove", json={"model": "other:1b"}).json()["status"] == "removed"
    assert served.http.post("/localllm/remove", json={"model": "other:1b"}).status_code == 404


def test_pulling_reports_progress_and_ends_with_success(served: Served) -> None:
    served.runtime.pull_script = [HALF, DONE]
    made = posted(served, "/localllm/pull", {"model": "new:1b"})
    assert made[-2] == {"status": "success", "model": {"id": "new:1b", "size_bytes": 100, "created_unix_s": 1}}
    assert made[-1] == {}
    assert made[0]["progress"]["id"] == "new:1b"


def test_a_pull_that_fails_later_ends_the_stream_with_an_error_event(served: Served) -> None:
    served.runtime.pull_script = [HALF, PullFailed("the source went away")]
    made = posted(served, "/localllm/pull", {"model": "new:1b"})
    assert made[-1]["error"]["code"] == "pull_failed"


@pytest.mark.parametrize(("error", "status"), [(PullFailed("no such host"), 502), (DiskFull("no room"), 507)])
def test_a_pull_that_fails_at_once_is_an_error_response(served: Served, error: Exception, status: int) -> None:
    served.runtime.pull_script = [error]
    assert served.http.post("/localllm/pull", json={"model": "new:1b"}).status_code == status


def test_hanging_up_stops_a_pull(served: Served) -> None:
    served.runtime.pull_script = [HALF]
    with served.http.stream("POST", "/localllm/pull", json={"model": "new:1b"}) as response:
        assert next(events(response))["progress"]["done_bytes"] == 50
    assert served.runtime.pull_stopped.wait(10)


def test_a_foreign_page_cannot_manage_models(served: Served) -> None:
    for path in ("load", "unload", "pull", "remove"):
        answer = served.http.post(f"/localllm/{path}", json={"model": "x"}, headers={"origin": "https://evil.example"})
        assert answer.status_code == 403
        assert served.http.post(f"/localllm/{path}", content=b"{}", headers={"origin": served.url}).status_code == 415


@pytest.mark.parametrize(
    ("keep_alive", "seconds"),
    [(30, 30.0), ("30", 30.0), ("5m", 300.0), ("1h30m", 5400.0), (-1, -1.0), ("-1m", -1.0), (0, 0.0), ("250ms", 0.25)],
)
def test_keep_alive_is_seconds_or_a_time(served: Served, keep_alive: object, seconds: float) -> None:
    body = {"model": "tiny", "prompt": "x", "keep_alive": keep_alive}
    assert served.http.post("/v1/completions", json=body).status_code == 200
    assert served.runtime.keep_alives == [seconds]


@pytest.mark.parametrize("keep_alive", ["soon", "5 m", "5m later", "", "nan"])
def test_a_keep_alive_that_is_no_time_is_named(served: Served, keep_alive: str) -> None:
    body = {"model": "tiny", "prompt": "x", "keep_alive": keep_alive}
    response = served.http.post("/v1/completions", json=body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "keep_alive")
