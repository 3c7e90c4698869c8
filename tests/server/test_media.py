"""Images, sounds and files, which no model here takes: every API refuses them in the turn to answer, by place."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.conftest import Served

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
CLAUDES = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


def _user(*content: object) -> list[Any]:
    return [{"role": "user", "content": list(content)}]


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("/v1/chat/completions", {"messages": _user(PICTURE)}, "messages[0].content[0]"),
        (
            "/v1/chat/completions",
            {"messages": _user({"type": "text", "text": "a"}, {"type": "input_audio", "input_audio": {"data": "AA"}})},
            "messages[0].content[1]",
        ),
        ("/v1/chat/completions", {"messages": _user({"type": "file", "file": {"file_id": "x"}})}, "'file'"),
        ("/v1/chat/completions", {"messages": _user({"type": "video_url"})}, "'video_url'"),
        ("/v1/chat/completions", {"messages": _user(), "audio": {"voice": "x", "format": "wav"}}, "audio"),
        ("/v1/chat/completions", {"messages": _user(), "modalities": ["text", "audio"]}, "modalities"),
        (
            "/v1/chat/completions",
            {"messages": [*_user(PICTURE), {"role": "assistant", "content": "A cat."}, *_user(PICTURE)]},
            "messages[2].content[0]",
        ),
        ("/apply-template", {"messages": _user(PICTURE)}, "messages[0].content[0]"),
        ("/v1/responses", {"input": _user({"type": "input_image", "image_url": "data:"})}, "input[0].content[0]"),
        ("/v1/responses", {"input": _user({"type": "input_file", "file_id": "x"})}, "input[0].content[0]"),
        ("/v1/responses", {"input": _user({"type": "input_audio", "input_audio": {}})}, "input[0].content[0]"),
        ("/v1/messages", {"max_tokens": 5, "messages": _user(CLAUDES)}, "messages[0].content[0]"),
        ("/v1/messages", {"max_tokens": 5, "system": [CLAUDES], "messages": _user()}, "system[0]"),
        ("/v1/messages", {"max_tokens": 5, "messages": _user({"type": "document", "source": {}})}, "'document'"),
        ("/v1/messages", {"max_tokens": 5, "messages": _user({"type": "container_upload"})}, "'container_upload'"),
        ("/v1/messages/count_tokens", {"messages": _user(CLAUDES)}, "messages[0].content[0]"),
        (
            "/api/chat",
            {"model": "tiny", "messages": [{"role": "user", "content": "a", "images": ["AAAA"]}]},
            "messages[0].images",
        ),
        ("/api/generate", {"model": "tiny", "prompt": "a", "images": ["AAAA"]}, "images"),
        ("/v1/embeddings", {"input": [{"content": [PICTURE]}]}, "input[0].content[0]"),
        ("/embeddings", {"content": {"prompt_string": "a", "multimodal_data": ["AAAA"]}}, "content.multimodal_data"),
        ("/v1/rerank", {"query": "q", "documents": ["a", {"image": "data:"}]}, "documents[1].image"),
    ],
)
def test_what_is_no_text_is_refused_where_it_stands(
    served: Served, path: str, body: dict[str, Any], named: str
) -> None:
    response = served.http.post(path, json=body)
    assert response.status_code == 400
    error = response.json()["error"]
    message = error if isinstance(error, str) else error["message"]
    assert named in message
    assert "not supported" in message
    if isinstance(error, dict) and "code" in error:
        code = error.get("reason", error["code"])  # llama-server's own paths have the status for a code
        assert code == "unsupported_parameter"
    assert served.runtime.asked == []
    assert served.runtime.embedded == []


def test_teis_clients_are_told_in_their_words(served: Served) -> None:
    response = served.http.post("/embed", json={"inputs": {"content": [PICTURE]}})
    assert (response.status_code, response.json()["error_type"]) == (422, "Validation")
    assert "inputs.content[0]" in response.json()["error"]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/v1/audio/transcriptions", "audio is not supported"),
        ("/audio/speech", "audio is not supported"),
        ("/v1/images/generations", "image generation is not supported"),
        ("/v1/files", "files are not stored"),
        ("/v1/files/file-1/content", "files are not stored"),
        ("/v1/batches", "batch API is not supported"),
        ("/v1/moderations", "moderation is not supported"),
    ],
)
def test_endpoints_for_what_is_no_text_say_why_there_are_none(served: Served, path: str, why: str) -> None:
    response = served.http.post(path, json={})
    assert response.status_code == 404
    assert why in response.json()["error"]["message"]
