"""Ollama's own port: the same server, for this machine alone."""

from __future__ import annotations

import logging
import socket
from typing import Any

import httpx
import pytest

from localllm.errors import LocalLLMError
from localllm.server.listening import bind_ollamas
from localllm.settings.config import Settings
from tests.server.conftest import running


def ollamas_url(caplog: pytest.LogCaptureFixture) -> str:
    (fields,) = [vars(record)["fields"] for record in caplog.records if record.message == "ollama_compat"]
    url: str = fields["url"]
    return url


def served_twice(caplog: pytest.LogCaptureFixture, **settings: Any) -> Any:
    caplog.set_level(logging.INFO, "localllm")
    return running(Settings(port=0, grace_s=0.1, ollama_compat=True, ollama_port=0, **settings))


def test_its_clients_find_the_same_models_there(caplog: pytest.LogCaptureFixture) -> None:
    with served_twice(caplog) as served:
        url = ollamas_url(caplog)
        assert url.startswith("http://127.0.0.1:")
        assert url != served.url
        with httpx.Client(base_url=url, timeout=10, trust_env=False) as http:
            assert http.get("/").text == "Ollama is running"
            assert http.get("/api/tags").json() == served.http.get("/api/tags").json()
            asked = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "stream": False}
            assert http.post("/api/chat", json=asked).json()["message"]["content"] == "Hello ✓"
            assert http.post("/v1/chat/completions", json=asked).status_code == 200


def test_the_same_keys_are_needed_and_the_same_pages_kept_out(caplog: pytest.LogCaptureFixture) -> None:
    with served_twice(caplog, api_keys="sesame"), httpx.Client(base_url=ollamas_url(caplog), trust_env=False) as http:
        assert http.get("/api/tags").status_code == 401
        key = {"authorization": "Bearer sesame"}
        assert http.get("/api/tags", headers=key).status_code == 200
        assert http.get("/api/tags", headers={**key, "host": "evil.example"}).status_code == 403
        assert http.get("/api/tags", headers={**key, "origin": "https://evil.example"}).status_code == 403


def test_it_closes_with_the_server(caplog: pytest.LogCaptureFixture) -> None:
    with served_twice(caplog):
        url = httpx.URL(ollamas_url(caplog))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((url.host, url.port or 0))


def test_a_taken_port_is_an_error_that_says_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(LocalLLMError) as taken:
            bind_ollamas(port)
    told = str(taken.value)
    assert told.startswith(f"cannot listen on 127.0.0.1 port {port} (--ollama-compat): Address already in use")
    assert "--ollama-port" in told


def test_without_the_option_there_is_no_second_port(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "localllm")
    with running(Settings(port=0, grace_s=0.1)):
        assert not [record for record in caplog.records if record.message == "ollama_compat"]
