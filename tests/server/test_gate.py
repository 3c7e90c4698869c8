"""Who may ask. The names of the first tests are cases of the list of what went wrong in other servers."""

from __future__ import annotations

import httpx
import pytest

from localllm.config import Settings
from localllm.errors import InvalidParameter
from localllm.server.main import bind, url_of
from tests.server.conftest import Served, running

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}


def _code(response: httpx.Response) -> str:
    code: str = response.json()["error"]["code"]
    return code


@pytest.mark.parametrize("host", ["evil.example", "evil.example:11435", "localhost.evil.example", "127.0.0.1.nip.io"])
def test_cve_2024_28224_dns_rebinding_a_foreign_host_header_is_refused_on_loopback(served: Served, host: str) -> None:
    response = served.http.get("/v1/models", headers={"host": host})
    assert response.status_code == 403
    assert _code(response) == "forbidden_host"


def test_cve_2024_28224_dns_rebinding_a_foreign_host_header_is_refused_on_every_address() -> None:
    settings = Settings(host="0.0.0.0", port=0, api_keys="k", grace_s=0.1)
    with running(settings) as served:
        headers = {"host": "evil.example", "authorization": "Bearer k"}
        assert _code(served.http.get("/v1/models", headers=headers)) == "forbidden_host"
        assert served.http.get("/v1/models", headers={"authorization": "Bearer k"}).status_code == 200


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


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "file://", "app://x", "http://localhost:3000"])
def test_csrf_a_foreign_origin_is_refused(served: Served, origin: str) -> None:
    response = served.http.post("/v1/chat/completions", json=CHAT, headers={"origin": origin})
    assert response.status_code == 403
    assert _code(response) == "forbidden_origin"
    assert served.runtime.asked == []


def test_csrf_a_cross_site_fetch_is_refused(served: Served) -> None:
    response = served.http.get("/v1/models", headers={"sec-fetch-site": "cross-site"})
    assert _code(response) == "forbidden_origin"


def test_our_own_origin_is_answered_and_no_cors_header_is_sent(served: Served) -> None:
    headers = {"origin": served.url, "sec-fetch-site": "same-origin"}
    response = served.http.post("/v1/chat/completions", json=CHAT, headers=headers)
    assert response.status_code == 200
    assert not [name for name in response.headers if name.startswith("access-control")]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_csrf_a_simple_post_without_json_type_is_refused(served: Served, kind: str) -> None:
    response = served.http.post("/v1/chat/completions", content=b'{"model":"tiny"}', headers={"content-type": kind})
    assert response.status_code == 415
    assert _code(response) == "unsupported_media_type"


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/vnd.x+json"])
def test_json_by_any_name_is_read(served: Served, kind: str) -> None:
    body = b'{"model":"tiny","prompt":"x"}'
    assert served.http.post("/v1/completions", content=body, headers={"content-type": kind}).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_cve_2025_63389_a_non_loopback_bind_without_a_key_refuses_to_start(host: str) -> None:
    with pytest.raises(InvalidParameter, match="--allow-remote-without-key"):
        bind(Settings(host=host, port=0), has_key=False)


def test_a_non_loopback_bind_starts_with_a_key_or_the_explicit_flag() -> None:
    with bind(Settings(host="0.0.0.0", port=0), has_key=True) as listener:
        assert url_of(listener).startswith("http://127.0.0.1:")
    bind(Settings(host="0.0.0.0", port=0, allow_remote_without_key=True), has_key=False).close()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer"},
        {"authorization": "Bearer sesame2"},
        {"authorization": "Basic sesame"},
        {"authorization": "sesame"},
        {"x-api-key": "wrong"},
        {"x-api-key": ""},
        {"x-api-key": "sésame"},
    ],
)
def test_cve_2026_45339_no_key_and_wrong_keys_are_refused_by_both_headers(
    guarded: Served, headers: dict[str, str]
) -> None:
    encoded = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
    for path in ("/v1/models", "/v1/models/tiny", "/nowhere"):
        response = guarded.http.get(path, headers=encoded)
        assert response.status_code == 401
        assert _code(response) == "invalid_api_key"
    assert guarded.http.post("/v1/chat/completions", json=CHAT, headers=encoded).status_code == 401


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


def test_cve_2024_39719_errors_tell_nothing_of_the_servers_files(served: Served) -> None:
    sentences = set()
    for name in ("/etc/passwd", "/etc/nothing-here"):
        response = served.http.post("/v1/completions", json={"model": name, "prompt": "x"})
        assert response.status_code == 404
        sentences.add(response.json()["error"]["message"].replace(name, "NAME"))
    assert len(sentences) == 1
