"""Names that nobody knows, such as a client's fixed `gpt-4o`: the model that the server was started with answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote

import httpx
import pytest

from localllm.runtime.runtime import Runtime
from localllm.settings.config import Settings
from tests.server.conftest import Served, serving
from tests.server.fake_runtime import FakeRuntime, make_fake, tiny_model

HI = [{"role": "user", "content": "Hi"}]
ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": HI},
    "/v1/chat/completions/input_tokens": {"messages": HI},
    "/v1/completions": {"prompt": "x"},
    "/v1/responses": {"input": "x"},
    "/v1/responses/input_tokens": {"input": "x"},
    "/v1/messages": {"messages": HI, "max_tokens": 5},
    "/v1/messages/count_tokens": {"messages": HI},
    "/v1/embeddings": {"input": "x"},
    "/completion": {"prompt": "x"},
    "/infill": {"input_prefix": "x", "input_suffix": "y"},
    "/tokenize": {"content": "x"},
    "/apply-template": {"messages": HI},
    "/embedding": {"content": "x"},
    "/api/chat": {"messages": HI, "stream": False},
    "/api/generate": {"prompt": "x", "stream": False},
    "/api/embed": {"input": "x"},
    "/api/embeddings": {"prompt": "x"},
}
NO_ANSWERS: dict[str, dict[str, Any]] = {
    "/api/show": {},
    "/api/copy": {"source": "gpt-4o", "destination": "y"},
    "/localllm/unload": {},
    "/models/unload": {},
}
"""Requests about the named model itself."""


@pytest.fixture(scope="module")
def lone() -> Iterator[str]:
    with serving(Settings(port=0, grace_s=0.1), make_fake, model="tiny") as url:
        yield url


def _post(url: str, path: str, model: str, **more: Any) -> httpx.Response:
    return httpx.post(url + path, json={"model": model, **ASKED.get(path, NO_ANSWERS.get(path, {})), **more})


@pytest.mark.parametrize("path", ASKED)
def test_the_one_model_answers_and_says_so(lone: str, path: str) -> None:
    answer = _post(lone, path, "gpt-4o")
    assert (answer.status_code, answer.headers["x-localllm-model"]) == (200, "tiny"), answer.text
    body = answer.json()
    said = body.get("model") if isinstance(body, dict) else None
    assert said in (None, "tiny:latest" if path.startswith("/api/") else "tiny")
    assert _post(lone, path, "tiny").headers.get("x-localllm-model", "tiny") == "tiny"


def test_a_stream_says_so_too(lone: str) -> None:
    for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/chat"):
        answer = _post(lone, path, "gpt-4o", stream=True)
        assert answer.headers["x-localllm-model"] == "tiny"
        assert '"model":"tiny' in answer.text
        assert "gpt-4o" not in answer.text


def test_the_header_carries_a_name_in_any_letters() -> None:
    """Percent-encoded, since headers are ASCII."""
    name = "hf:ann/odd/模型 é #1 100%.gguf"

    def make(settings: Settings) -> Runtime:
        fake = FakeRuntime()
        fake.models = [tiny_model(name)]
        return fake

    with serving(Settings(port=0, grace_s=0.1), make, model=name) as url:
        answer = _post(url, "/v1/completions", "gpt-4o")
        assert (answer.status_code, unquote(answer.headers["x-localllm-model"])) == (200, name), answer.text
        assert answer.json()["model"] == name
        assert httpx.get(f"{url}/v1/models/{quote(name, safe='')}").json()["id"] == name


@pytest.mark.parametrize("path", NO_ANSWERS)
def test_what_concerns_the_model_itself_is_not_done_to_another(lone: str, path: str) -> None:
    assert _post(lone, path, "gpt-4o").status_code in (400, 404)
    assert httpx.get(f"{lone}/v1/models/gpt-4o").status_code == 404


@pytest.mark.parametrize("name", ["qwen3:0.6b", "hf.co/a/b", "ollama:x/y"])
def test_a_model_that_could_be_pulled_is_not_replaced(lone: str, name: str) -> None:
    assert _post(lone, "/v1/chat/completions", name).status_code == 404
    assert _post(lone, "/api/chat", "qwen3:0.6b").status_code == 404


def test_one_setting_refuses_such_names_and_so_does_a_server_of_none_or_several(served: Served) -> None:
    assert _post(served.url, "/v1/chat/completions", "gpt-4o").status_code == 404
    with serving(Settings(port=0, grace_s=0.1, unknown_models="refuse"), make_fake, model="tiny") as url:
        for path in ("/v1/chat/completions", "/v1/embeddings", "/api/chat"):
            assert _post(url, path, "gpt-4o").status_code == 404


def test_a_name_that_is_not_here_is_answered_with_what_may_have_been_meant() -> None:
    with serving(Settings(port=0, grace_s=0.1)) as url:
        for name, remedy in (
            ("Demo1", "did you mean demo?"),
            ("gpt-4o", "there are: demo"),
            ("qwen3:0.6b", "downloads it, as does POST"),
            ("hf.co/a/b", "downloads it, as does POST"),
            ("/etc/passwd", "there are: demo"),
        ):
            asked = [_post(url, path, name) for path in ("/v1/chat/completions", "/v1/embeddings", "/completion")]
            asked += [httpx.post(f"{url}/models/load", json={"model": name})]
            asked += [httpx.get(f"{url}/v1/models/{name}"), httpx.get(f"{url}/props", params={"model": name})]
            for answer in asked:
                assert answer.status_code == 404
                assert remedy in answer.json()["error"]["message"], answer.url


OF_THE_MODEL_ITSELF: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/api/show", {}), ("POST", "/api/copy", {"destination": "y"}), ("POST", "/api/push", {}),
    ("DELETE", "/api/delete", {}), ("POST", "/localllm/unload", {}),
    ("POST", "/models/load", {}), ("POST", "/models/unload", {}), ("GET", "/model_info", {}), ("GET", "/props", {}),
    ("GET", "/v1/models/tony", {}), ("GET", "/api/v0/models/tony", {}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "more"), OF_THE_MODEL_ITSELF)
def test_wherever_a_model_is_named_a_similar_name_is_suggested(
    lone: str, method: str, path: str, more: dict[str, Any]
) -> None:
    body, query = ({"model": "tony", "source": "tony", **more}, None) if method != "GET" else (None, {"model": "tony"})
    answer = httpx.request(method, lone + path, json=body, params=query)
    assert answer.status_code == 404
    assert "did you mean tiny" in answer.text


def test_ollamas_words_stay_where_nothing_is_similar_or_the_name_can_be_pulled(lone: str) -> None:
    for name in ("nope", "qwen3:0.6b"):
        assert _post(lone, "/api/show", name).json() == {"error": f"model '{name}' not found"}
