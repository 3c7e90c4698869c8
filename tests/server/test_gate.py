"""Who may ask: hosts, origins, keys, sizes. What went wrong in other servers is in `test_security_cases.py`."""

from __future__ import annotations

import httpx
import pytest

from localllm.config import Settings
from localllm.server.main import bind, url_of
from tests.server.conftest import Served

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}


def _code(response: httpx.Response) -> str:
    code: str = response.json()["error"]["code"]
    return code


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8080", "10.1.2.3:99", "box.local", "localhost."]
)
def test_our_own_names_are_answered(served: Served, host: str) -> None:
    assert served.http.get("/v1/models", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["", "a@localhost", "localhost/x", "[::1", "localhost:x:y]", "\\localhost"])
def test_nonsense_for_a_host_is_refused(served: Served, host: str) -> None:
    assert served.http.get("/v1/models", headers={"host": host}).status_code in (400, 403)


def test_a_configured_host_name_is_answered(guarded: Served) -> None:
    headers = {"host": "model.example", "x-api-key": "sesame"}
    assert guarded.http.get("/v1/models", headers=headers).status_code == 200


def test_our_own_origin_is_answered_and_no_cors_header_is_sent(served: Served) -> None:
    headers = {"origin": served.url, "sec-fetch-site": "same-origin"}
    response = served.http.post("/v1/chat/completions", json=CHAT, headers=headers)
    assert response.status_code == 200
    assert not [name for name in response.headers if name.startswith("access-control")]


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/vnd.x+json"])
def test_json_by_any_name_is_read(served: Served, kind: str) -> None:
    body = b'{"model":"tiny","prompt":"x"}'
    assert served.http.post("/v1/completions", content=body, headers={"content-type": kind}).status_code == 200


def test_a_non_loopback_bind_starts_with_a_key_or_the_explicit_flag() -> None:
    with bind(Settings(host="0.0.0.0", port=0), has_key=True) as listener:
        assert url_of(listener).startswith("http://127.0.0.1:")
    bind(Settings(host="0.0.0.0", port=0, allow_remote_without_key=True), has_key=False).close()


@pytest.mark.parametrize("headers", [{"authorization": "bearer sesame"}, {"x-api-key": "another"}])
def test_a_key_opens_by_either_header(guarded: Served, headers: dict[str, str]) -> None:
    assert guarded.http.get("/v1/models", headers=headers).status_code == 200


def test_health_needs_no_key_but_a_known_host(guarded: Served) -> None:
    assert guarded.http.get("/health").json() == {"status": "ok"}
    assert guarded.http.get("/health", headers={"host": "evil.example"}).status_code == 403


def test_a_body_over_the_limit_is_refused_by_its_length_and_by_its_bytes(served: Served) -> None:
    body = b'{"model":"tiny","prompt":"' + b"x" * 100_000 + b'"}'
    kind = {"content-type": "application/json"}
    declared = served.http.post("/v1/completions", content=body, headers=kind)
    chunked = served.http.post("/v1/completions", content=iter([body[:60_000], body[60_000:]]), headers=kind)
    assert [response.status_code for response in (declared, chunked)] == [413, 413]
    assert _code(declared) == _code(chunked) == "too_large"
