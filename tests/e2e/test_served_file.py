"""A model that the server was started with by its path: it can leave and be asked for again by its id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from localllm.client.api import Client
from localllm.client.sidecar import Sidecar
from tests.waiting import until

BODY = {"model": "tiny-chat", "prompt": "x", "max_tokens": 2, "temperature": 0}


@pytest.fixture(scope="module")
def server(tiny_chat_model: Path) -> Iterator[Sidecar]:
    with Sidecar.start([str(tiny_chat_model), "--threads=1", "--slots=3", "--ctx=256"]) as sidecar:
        yield sidecar


@pytest.fixture
def http(server: Sidecar) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {server.token}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60, trust_env=False) as http:
        yield http


@pytest.mark.parametrize("how", ["keep_alive", "unload"])
def test_it_is_loaded_again_as_it_was_when_it_is_asked_for(server: Sidecar, http: httpx.Client, how: str) -> None:
    first = http.post("/v1/completions", json=BODY)
    before = http.get("/props").json()
    with Client(server.url, server.token) as client:
        if how == "unload":
            client.unload("tiny-chat")
        else:
            http.post("/v1/completions", json=BODY | {"keep_alive": 0})
            until(lambda: client.processes() == [])
    assert http.get("/ready").status_code == 200
    props = http.get("/props", params={"model": "tiny-chat"}).json()
    assert (props["is_sleeping"], props["total_slots"]) == (True, before["total_slots"]), "as llama-server's asleep"
    assert props["default_generation_settings"] == before["default_generation_settings"]
    assert "tiny-chat" in [model["id"] for model in http.get("/v1/models").json()["data"]]
    again = http.post("/v1/completions", json=BODY)
    assert again.status_code == 200, again.text
    assert again.json()["choices"] == first.json()["choices"]
    (loaded,) = [model for model in http.get("/localllm/ps").json()["models"] if model["model"] == "tiny-chat"]
    assert (loaded["ctx"], loaded["slots"]) == (256, 3)


def test_its_id_with_the_tag_latest_is_the_same_model(server: Sidecar, http: httpx.Client) -> None:
    body = BODY | {"model": "tiny-chat:latest"}
    for _ in range(2):  # loaded, then loaded again as it was
        assert http.post("/v1/completions", json=body).status_code == 200
        (loaded,) = http.get("/localllm/ps").json()["models"]
        assert (loaded["model"], loaded["ctx"], loaded["slots"]) == ("tiny-chat", 256, 3)
        with Client(server.url, server.token) as client:
            client.unload("tiny-chat:latest")


def test_a_template_of_the_command_line_is_for_its_models_alone(tiny_chat_model: Path) -> None:
    """Likewise a projector and a draft."""
    templates = {}
    with Sidecar.start([str(tiny_chat_model), "--threads=1", "--ctx=256", "--chat-template=llama2"]) as sidecar:
        headers = {"authorization": f"Bearer {sidecar.token}"}
        with httpx.Client(base_url=sidecar.url, headers=headers, timeout=60, trust_env=False) as http:
            for model in ("tiny-chat", "demo"):
                assert http.post("/v1/completions", json=BODY | {"model": model}).status_code == 200
                templates[model] = http.get("/props", params={"model": model}).json()["chat_template"]
    assert "[INST]" in templates["tiny-chat"]
    assert "<|im_start|>" in templates["demo"]


def test_no_other_file_can_be_asked_for(server: Sidecar, http: httpx.Client, tiny_model: Path) -> None:
    for name in (str(tiny_model), "tiny"):
        answer = http.post("/v1/completions", json=BODY | {"model": name})
        assert (answer.status_code, answer.json()["model"]) == (200, "tiny-chat"), (
            "the one that serves answers, and says so"
        )
        assert http.post("/localllm/load", json={"model": name}).status_code == 404


def test_what_is_asked_of_a_load_and_stands_against_what_is_loaded_is_a_conflict_that_says_so(
    http: httpx.Client,
) -> None:
    http.post("/v1/completions", json=BODY)
    refused = http.post("/localllm/load", json={"model": "tiny-chat", "slots": 9, "stream": False})
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["param"]) == (409, "load_conflict", "slots")
    assert error["message"] == "tiny-chat is loaded with slots 3; unload it to load it with 9"
