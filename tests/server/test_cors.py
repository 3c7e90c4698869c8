"""Web pages of other origins: none, unless they are named; then what browsers need to be told, on errors too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localllm.errors import InvalidParameter
from localllm.server.edge.cors import Cors
from localllm.server.main import serve
from localllm.settings.config import Settings
from tests.server.conftest import Served, running
from tests.server.fake_runtime import make_fake

PAGE = "https://chat.example"
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
PREFLIGHT = {
    "origin": PAGE,
    "sec-fetch-site": "cross-site",
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type,x-stainless-lang,X-Stainless-Retry-Count,x-evil",
}


@pytest.fixture(scope="module")
def friendly() -> Iterator[Served]:
    """Answers two origins, with a key."""
    settings = Settings(port=0, grace_s=0.1, api_keys="k", cors_origins=f"{PAGE}/, null")
    with running(settings) as served:
        yield served


def test_a_named_page_is_told_what_it_may_send_before_it_has_shown_a_key(friendly: Served) -> None:
    response = friendly.http.options("/v1/chat/completions", headers=PREFLIGHT)
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["access-control-allow-origin"] == PAGE
    assert response.headers["vary"] == "Origin"
    assert response.headers["access-control-allow-methods"] == "GET, HEAD, POST, DELETE"
    allowed = set(response.headers["access-control-allow-headers"].split(", "))
    assert {"authorization", "content-type", "x-api-key", "x-request-id"} < allowed
    assert {"x-stainless-lang", "x-stainless-retry-count"} < allowed
    assert "x-evil" not in allowed
    assert int(response.headers["access-control-max-age"]) > 0
    assert "access-control-allow-private-network" not in response.headers


@pytest.mark.parametrize("network", ["private", "local"])
def test_a_named_page_may_reach_into_the_home_network(friendly: Served, network: str) -> None:
    asked = PREFLIGHT | {f"access-control-request-{network}-network": "true"}
    headers = friendly.http.options("/v1/models", headers=asked).headers
    assert headers[f"access-control-allow-{network}-network"] == "true"


@pytest.mark.parametrize("origin", [PAGE, "null"])
def test_a_named_page_reads_answers_streams_and_errors(friendly: Served, origin: str) -> None:
    page = {"origin": origin, "sec-fetch-site": "cross-site"}
    key = page | {"authorization": "Bearer k"}
    responses = [
        friendly.http.post("/v1/chat/completions", json=CHAT, headers=key),
        friendly.http.post("/v1/chat/completions", json=CHAT | {"stream": True}, headers=key),
        friendly.http.get("/v1/models/none", headers=key),
        friendly.http.get("/nowhere", headers=key),
        friendly.http.put("/v1/models", headers=key),
        friendly.http.get("/v1/models", headers=page),
    ]
    assert [response.status_code for response in responses] == [200, 200, 404, 404, 405, 401]
    for response in responses:
        assert response.headers["access-control-allow-origin"] == origin
        assert response.headers["vary"] == "Origin"
        exposed = response.headers["access-control-expose-headers"]
        assert {"x-request-id", "x-localllm-ignored"} < set(exposed.split(", "))
        assert "access-control-allow-credentials" not in response.headers


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://chat.example", f"{PAGE}.evil.example", f"{PAGE}:444", "file://"]
)
def test_any_other_page_is_refused_as_before(friendly: Served, origin: str) -> None:
    page = {"origin": origin, "authorization": "Bearer k"}
    for response in (
        friendly.http.get("/v1/models", headers=page),
        friendly.http.options("/v1/models", headers=PREFLIGHT | page),
    ):
        assert (response.status_code, response.json()["error"]["code"]) == (403, "forbidden_origin")
        assert "access-control-allow-origin" not in response.headers
        assert response.headers["vary"] == "Origin", "a cache must not show this to a page that may ask"


def test_a_cross_site_request_that_names_no_origin_is_refused_even_so(friendly: Served) -> None:
    headers = {"sec-fetch-site": "cross-site", "authorization": "Bearer k"}
    assert friendly.http.get("/v1/models", headers=headers).status_code == 403


def test_a_foreign_host_name_is_refused_whatever_the_origin(friendly: Served) -> None:
    response = friendly.http.options("/v1/models", headers=PREFLIGHT | {"host": "evil.example"})
    assert (response.status_code, response.json()["error"]["code"]) == (403, "forbidden_host")


def test_without_the_setting_no_preflight_is_answered(served: Served) -> None:
    response = served.http.options("/v1/models", headers=PREFLIGHT)
    assert (response.status_code, response.json()["error"]["code"]) == (403, "forbidden_origin")
    own = PREFLIGHT | {"origin": served.url, "sec-fetch-site": "same-origin"}
    assert served.http.options("/v1/models", headers=own).status_code == 405
    assert not [name for name in response.headers if name.startswith("access-control")]


def test_a_star_lets_every_page_in_and_without_a_key_says_so_loudly(caplog: pytest.LogCaptureFixture) -> None:
    with running(Settings(port=0, grace_s=0.1, cors_origins="*")) as served:
        for origin in (PAGE, "null", "file://"):
            headers = {"origin": origin, "sec-fetch-site": "cross-site"}
            response = served.http.post("/v1/chat/completions", json=CHAT, headers=headers)
            assert response.status_code == 200
            assert response.headers["access-control-allow-origin"] == "*"
        assert served.http.get("/health").headers["access-control-allow-origin"] == "*"
    assert "any_web_page_can_use_this_server" in caplog.text
    caplog.clear()
    with running(Settings(port=0, grace_s=0.1, cors_origins="*", api_keys="k")):
        pass
    assert "any_web_page" not in caplog.text


def test_what_is_no_origin_is_an_error_at_start() -> None:
    import asyncio

    settings = Settings(port=0, cors_origins="chat.example")
    with pytest.raises(InvalidParameter, match="cors_origins"):
        asyncio.run(serve(settings, [], None, make_runtime=make_fake))  # type: ignore[arg-type]


def test_without_origins_nothing_is_allowed_and_nothing_is_said() -> None:
    assert not Cors().allows("")
    assert not Cors().allows("null")
    assert Cors().response_headers(PAGE) == {}


APPS = (
    "app://obsidian.md",
    "tauri://localhost",
    "http://tauri.localhost",
    "vscode-webview://1a2b",
    "vscode-file://vscode-app",
)


@pytest.mark.parametrize("origin", APPS)
def test_an_installed_programs_pages_are_answered_by_default(served: Served, origin: str) -> None:
    headers = {"origin": origin, "sec-fetch-site": "cross-site"}
    preflight = served.http.options("/api/chat", headers=PREFLIGHT | {"origin": origin})
    answered = served.http.post("/v1/chat/completions", json=CHAT, headers=headers)
    assert (preflight.status_code, answered.status_code) == (200, 200)
    assert preflight.headers["access-control-allow-origin"] == answered.headers["access-control-allow-origin"] == origin


def test_one_setting_refuses_installed_programs_too_and_the_refusal_names_it() -> None:
    assert not any(Cors(Settings(cors_origins="").origins()).allows(origin) for origin in APPS)
    with running(Settings(port=0, grace_s=0.1, cors_origins="")) as served:
        for origin, remedy in ((APPS[0], "--cors-origins apps"), (PAGE, f"--cors-origins {PAGE}")):
            refused = served.http.get("/v1/models", headers={"origin": origin})
            assert remedy in refused.json()["error"]["message"]
