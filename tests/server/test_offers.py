"""What could be pulled, and whether it fits, over HTTP: from a look-alike of the hub, hostile ones too."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from localllm.registry import catalog
from localllm.registry.offers import requests
from localllm.settings.config import load
from localllm.system import memory
from tests.homes import measured_once, share_findings
from tests.models.maker import write_llama
from tests.registry.hub_server import HubServer, Repo
from tests.registry.loopback import Answer
from tests.registry.nasty_server import Asked, Nasty, Reply
from tests.server.conftest import serving

REPO = "ann/words-GGUF"
GIGABYTES = 10**9


@pytest.fixture(scope="module")
def model_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("words") / "words-Q8_0.gguf"
    write_llama(path, vocab=2000, n_layer=2)
    return path.read_bytes()


@pytest.fixture
def hub(model_bytes: bytes) -> Iterator[HubServer]:
    files: dict[str, bytes | int] = {
        "words-Q8_0.gguf": model_bytes,
        "words-Q4_K_M.gguf": 900 * GIGABYTES,
        "README.md": b"words",
    }
    repos = {
        REPO: Repo(files, card={"license": "apache-2.0"}, downloads=1234),
        "bob/words-secret-GGUF": Repo({"s-Q8_0.gguf": model_bytes}, gated="manual", downloads=9999),
        "bob/words-pictures": Repo({"a.png": b"x"}),
    }
    with HubServer(repos) as server:
        yield server


@contextlib.contextmanager
def asking_at(home: Path, hub_url: str, **more: Any) -> Iterator[httpx.Client]:
    settings = load({"home": home, "hub_endpoint": hub_url, "device": "cpu", "port": 0, "grace_s": 0.1, **more})
    with serving(settings) as url, httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
        yield http


@pytest.fixture
def http(home: Path, tmp_path: Path, hub: HubServer) -> Iterator[httpx.Client]:
    with measured_once(home, tmp_path), asking_at(tmp_path, hub.url) as client:
        yield client


def test_a_search_finds_models_of_the_catalog_and_repositories_with_what_a_person_decides_by(
    http: httpx.Client, hub: HubServer
) -> None:
    found = http.post("/localllm/search", json={"query": "words"}).json()
    assert found["hub_problem"] is None
    assert found["hub"] == [
        {"id": "hf.co/bob/words-secret-GGUF", "downloads": 9999, "likes": 5, "license": "mit",
         "updated": "2025-05-01T00:00:00.000Z", "gated": True},
        {"id": f"hf.co/{REPO}", "downloads": 1234, "likes": 5, "license": "apache-2.0",
         "updated": "2025-05-01T00:00:00.000Z", "gated": False},
    ]  # fmt: skip
    only = http.post("/localllm/search", json={"query": "words", "limit": 1}).json()
    assert len(only["hub"]) == 1
    asked = len(hub.asked)
    everything = http.post("/localllm/search", json={"query": " "}).json()
    assert len(everything["catalog"]) == len(catalog.load().entries)
    assert (everything["hub"], len(hub.asked)) == ([], asked), "without words nobody on the network is asked"


@pytest.mark.parametrize(
    ("body", "param"),
    [({}, "query"), ({"query": 1}, "query"), ({"query": "x", "limit": 0}, "limit"),
     ({"query": "x", "limit": 101}, "limit"), ({"query": "x" * 201}, "query")],
)  # fmt: skip
def test_a_search_that_makes_no_sense_is_named(http: httpx.Client, body: dict[str, Any], param: str) -> None:
    refused = http.post("/localllm/search", json=body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


def test_where_the_hub_is_not_to_be_asked_the_catalog_still_answers(
    http: httpx.Client, hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = http.post("/localllm/search", json={"query": "qwen3"}).json()
    assert "HF_HUB_OFFLINE is set" in found["hub_problem"]
    assert found["catalog"]
    refused = http.post("/localllm/offers", json={"model": f"hf.co/{REPO}"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (502, "pull_failed")
    assert hub.asked == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [(Answer(500), "answered 500"), (Answer(200, b"<html>"), "unusable response"), (Answer(429), "too many requests")],
)
def test_a_hub_that_answers_nonsense_is_told_beside_the_catalog(
    http: httpx.Client, hub: HubServer, answer: Answer, said: str
) -> None:
    hub.scripted["/api/models"] = answer
    found = http.post("/localllm/search", json={"query": "qwen3"}).json()
    assert said in found["hub_problem"]
    assert found["catalog"]


def test_a_hub_that_hangs_is_given_up_and_searches_wait_in_a_bounded_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "SEARCH_TIMEOUT_S", 0.3)
    with Nasty() as nasty:
        nasty.script = _hang
        with asking_at(tmp_path, nasty.origin) as http:
            found = http.post("/localllm/search", json={"query": "qwen3"}).json()
            assert "within 0.3 s" in found["hub_problem"]
            assert http.get("/localllm/models").status_code == 200


def _hang(_: Asked) -> Reply:
    return Reply(200, {"Content-Type": "application/json"}, b"", 100, stall=True)


def test_every_quantization_says_whether_it_fits_and_how_fast_it_will_be(http: httpx.Client) -> None:
    answer = http.post("/localllm/offers", json={"model": f"hf.co/{REPO}"}).json()
    assert answer["model"] == f"hf.co/{REPO}"
    small, large = sorted(answer["models"], key=lambda one: one["size_bytes"])
    assert (small["quant"], small["chosen"], small["license"]) == ("Q8_0", True, "apache-2.0")
    assert small["name"] == f"hf.co/{REPO}:Q8_0"
    assert (small["fit"]["fits"], small["fit"]["gpu_layers"], small["problem"]) == (True, 0, None)
    assert 0 < small["fit"]["need_bytes"] < GIGABYTES
    assert small["fit"]["largest_ctx"] > 0
    assert small["speed"]["answer_tokens_per_s"] > 0
    assert 0 < small["speed"]["error"] < 1
    assert (large["quant"], large["chosen"], large["fit"]["fits"]) == ("Q4_K_M", False, False)


def test_a_name_of_the_catalog_keeps_its_name_for_the_quantization_it_stands_for(
    http: httpx.Client, hub: HubServer
) -> None:
    entry = catalog.load().entries[0]
    hub.repos[entry.repo] = Repo({f"m-{entry.quant}.gguf": hub.repos[REPO].files["words-Q8_0.gguf"], "m-F16.gguf": 9})
    offered = http.post("/localllm/offers", json={"model": entry.id}).json()["models"]
    assert {one["name"]: one["chosen"] for one in offered} == {entry.id: True, f"hf.co/{entry.repo}:F16": False}


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("hf.co/ann/none-GGUF", 404, "has no repository"),
        ("hf.co/bob/words-pictures", 404, "no GGUF file"),
        ("hf.co/bob/words-secret-GGUF", 403, "is gated"),
        ("demo", 400, "needs no download"),
        ("./words.gguf", 400, "is a file on this machine"),
        ("http://169.254.169.254/x.gguf", 403, "not a public address"),
        ("https://127.0.0.1:1/x.gguf", 403, "not a public address"),
        ("hf.co/../x", 400, ""),
    ],
)
def test_what_cannot_be_offered_is_an_error_that_says_why(
    http: httpx.Client, name: str, status: int, said: str
) -> None:
    refused = http.post("/localllm/offers", json={"model": name})
    assert refused.status_code == status, refused.text
    assert said in refused.json()["error"]["message"]


def test_nothing_is_measured_while_a_model_answers(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub: HubServer
) -> None:
    """It would be measured too slow, and remembered."""
    share_findings(home, tmp_path)  # all but the speed
    monkeypatch.setattr("localllm.runtime.runtime.Runtime.running", lambda _: [_Busy()])
    with asking_at(tmp_path, hub.url) as http:
        (one,) = http.post("/localllm/offers", json={"model": f"hf.co/{REPO}:Q8_0"}).json()["models"]
    assert one["speed"] is None
    assert "while no model is answering" in one["no_speed"]
    assert one["fit"]["fits"]


class _Busy:
    num_requests = 1


def test_a_plain_key_neither_searches_nor_asks_nor_changes_settings(tmp_path: Path, hub: HubServer) -> None:
    with asking_at(tmp_path, hub.url, api_keys="boss(admin)=a,guest=b") as http:
        for path, body in (
            ("search", {"query": "words"}),
            ("offers", {"model": f"hf.co/{REPO}"}),
            ("settings", {"model": "demo"}),
        ):
            assert http.post(f"/localllm/{path}", json=body).status_code == 401
            refused = http.post(f"/localllm/{path}", json=body, headers={"x-api-key": "b"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "permission_denied")
            assert http.post(f"/localllm/{path}", json=body, headers={"x-api-key": "a"}).status_code == 200
        evil = {"x-api-key": "a", "origin": "https://evil.example"}
        assert http.post("/localllm/search", json={"query": "words"}, headers=evil).status_code == 403


def test_what_a_removal_frees_is_told_before_and_shared_files_are_not_counted(
    http: httpx.Client, hub: HubServer, model_bytes: bytes
) -> None:
    name = f"hf.co/{REPO}:Q8_0"
    assert http.post("/localllm/pull", json={"model": name, "stream": False}).json()["status"] == "success"
    asked = {"model": name, "dry_run": True}
    told = http.post("/localllm/remove", json=asked).json()
    assert told == {"model": name, "freed_bytes": len(model_bytes), "status": "would be removed"}
    assert http.post("/api/copy", json={"source": name, "destination": "mine:1"}).status_code == 200
    assert http.post("/localllm/remove", json=asked).json()["freed_bytes"] == 0
    assert http.post("/localllm/remove", json={"model": "demo", "dry_run": True}).status_code == 404
    assert http.post("/localllm/remove", json={"model": name}).json()["status"] == "removed"
    assert http.post("/localllm/remove", json=asked).status_code == 404


def test_the_memory_that_is_free_is_told(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 1 << 20)
    answer = http.post("/localllm/offers", json={"model": f"hf.co/{REPO}"}).json()
    assert answer["free_bytes"] == 1 << 20
    assert not any(one["fit"]["fits"] for one in answer["models"])
