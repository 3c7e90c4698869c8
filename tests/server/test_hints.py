"""Who asks at a URL that is not served is told which one is."""

from __future__ import annotations

import pytest

from tests.server.conftest import Served


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/models/tiny", "GET /v1/models/tiny"),
        ("/v1/v1/chat/completions", "POST /v1/chat/completions"),
        ("/v1/chat/completions/", "POST /v1/chat/completions"),
        ("//v1//chat/completions", "POST /v1/chat/completions"),
        ("/V1/Chat/Completions", "POST /v1/chat/completions"),
        ("/v2/chat/completions", "POST /v1/chat/completions"),
        ("/openai/v1/chat/completions", "POST /v1/chat/completions"),
        ("/v1/chat/completion", "POST /v1/chat/completions"),
        ("/v1/tokenize", "POST /tokenize"),
        ("/v1/metrics", "GET /metrics"),
        ("/pull", "POST /localllm/pull"),
        ("/v1/api/blobs/sha256:00", "POST /api/blobs/sha256:00"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_url_that_is_nearly_right_is_answered_with_the_right_one(
    served: Served, path: str, meant: str, method: str
) -> None:
    response = served.http.request(method, served.url + path)
    assert response.status_code == 404
    assert response.json()["error"]["message"] == f"{path} is not served here; did you mean {meant}?"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (
            "/api/v1/chat",
            "LM Studio's own chat is not served; `POST /v1/responses` keeps conversations, too, and takes its pictures "
            "(`data_url`) and MCP tools",
        ),
        ("/v1beta/models/x:generateContent", "Google's Gemini API is not served; OpenAI clients use the base URL /v1"),
    ],
)
def test_another_vendors_api_is_named(served: Served, path: str, words: str) -> None:
    response = served.http.post(path, json={})
    assert response.status_code == 404
    assert response.json()["error"]["message"] == f"{path} is not served here: {words}"


@pytest.mark.parametrize("path", ["/nowhere", "/v1/nowhere", "/wp-login.php", "/%00", "/a" * 3000])
def test_what_is_like_nothing_gets_no_hint(served: Served, path: str) -> None:
    response = served.http.get(path)
    assert response.status_code == 404
    assert response.json()["error"]["message"].endswith(" here")


def test_the_right_url_with_the_wrong_method_says_which_is_taken(served: Served) -> None:
    response = served.http.get("/v1/chat/completions")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert response.json()["error"]["message"] == "/v1/chat/completions takes POST, not GET"
