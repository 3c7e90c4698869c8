"""An uploaded file is referred to in every API; one that is not there, or another key's, has to be sent."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from localllm.server.requests.media_blobs import OVERHEAD_BYTES, BlobStore
from localllm.settings.config import Settings
from localllm.types import MediaFile
from tests.pictures import LARGE, SMALL, WAV
from tests.server.conftest import Served, running

CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "look"}}]}
TEXT = {"type": "text", "text": "What?"}


def url_of(data: bytes) -> str:
    return f"localllm-blob:sha256:{hashlib.sha256(data).hexdigest()}"


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def user(*content: object) -> list[Any]:
    return [{"role": "user", "content": list(content)}]


def upload(served: Served, data: bytes, key: str = "none") -> Any:
    return served.http.post("/localllm/blobs", content=data, headers={"authorization": f"Bearer {key}"})


def forms(url: str) -> list[tuple[str, dict[str, Any]]]:
    claudes = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": url}}
    named = {"type": "image", "source": {"type": "url", "url": url}}
    results = {"type": "tool_result", "tool_use_id": "c", "content": [claudes]}
    used = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {}}]}
    output = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": url}]}
    return [
        ("/v1/chat/completions", {"messages": user(image(url), TEXT)}),
        ("/v1/chat/completions/input_tokens", {"messages": user(image(url), TEXT)}),
        (
            "/v1/chat/completions",
            {"messages": [*user(TEXT), CALL, {"role": "tool", "tool_call_id": "c", "content": [image(url)]}]},
        ),
        ("/v1/chat/completions", {"messages": [*user(image(url)), {**CALL, "tool_calls": None}, *user(TEXT)]}),
        ("/v1/messages", {"max_tokens": 5, "messages": user(claudes, TEXT)}),
        ("/v1/messages", {"max_tokens": 5, "messages": user(named, TEXT)}),
        ("/v1/messages", {"max_tokens": 5, "messages": [*user(TEXT), used, *user(results)]}),
        ("/v1/responses", {"input": user({"type": "input_image", "image_url": url})}),
        ("/v1/responses", {"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": ""}, output]}),
        ("/api/chat", {"model": "tiny", "messages": [{"role": "user", "content": "What?", "images": [url]}]}),
        ("/api/generate", {"model": "tiny", "prompt": "What?", "images": [url]}),
        ("/completion", {"prompt": {"prompt_string": "<__media__>", "multimodal_data": [url]}}),
        ("/v1/embeddings", {"input": [{"content": [image(url)]}]}),
    ]


@pytest.fixture
def seeing(served: Served) -> Served:
    served.runtime.reads = frozenset({"image", "audio"})
    return served


def test_an_uploaded_file_is_referred_to_in_every_form_of_every_api(seeing: Served) -> None:
    kept = upload(seeing, LARGE)
    assert (kept.status_code, kept.json()) == (200, {"url": url_of(LARGE), "size_bytes": len(LARGE)})
    for path, body in forms(url_of(LARGE)):
        seeing.runtime.requests, seeing.runtime.embedded = [], []
        response = seeing.http.post(path, json=body)
        assert response.status_code == 200, (path, response.text)
        media = [each.media for each in seeing.runtime.requests] + [each.media for each in seeing.runtime.embedded]
        if not path.endswith("input_tokens"):
            assert [file.data for file in media[-1]] == [LARGE], path


def test_what_a_file_is_its_content_says(seeing: Served) -> None:
    upload(seeing, WAV)
    upload(seeing, b"# Title")
    document = {"type": "file", "file": {"filename": "a.md", "file_data": url_of(b"# Title")}}
    messages = user(image(url_of(WAV)), document, TEXT)
    assert seeing.http.post("/v1/chat/completions", json={"messages": messages}).status_code == 200
    (message,) = seeing.runtime.requests[-1].messages or ()
    assert [(medium.kind, medium.num_bytes) for medium in message.media] == [("audio", len(WAV))]
    assert "# Title" in message.content


def test_a_file_that_is_not_there_is_named_in_every_turn_of_every_api(seeing: Served) -> None:
    """Not a note as for a broken one: the client has it and sends it."""
    for path, body in forms(url_of(b"never sent")):
        response = seeing.http.post(path, json=body)
        assert response.status_code == 409, (path, response.text)
        assert url_of(b"never sent") in response.text
        assert "/localllm/blobs" in response.text
        if path.startswith("/v1/chat") or path == "/v1/responses":
            assert response.json()["error"]["code"] == "blob_not_found"
    assert seeing.runtime.requests == []


@pytest.mark.parametrize("url", ["localllm-blob:", "localllm-blob:sha256:12", f"localllm-blob:sha256:{'A' * 64}"])
def test_a_malformed_reference_is_refused_with_its_form(seeing: Served, url: str) -> None:
    response = seeing.http.post("/v1/chat/completions", json={"messages": user(image(url))})
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, "messages[0].content[0]")
    assert "64 lowercase hexadecimal digits" in error["message"]


def test_a_key_never_reaches_the_files_of_another(guarded: Served) -> None:
    guarded.runtime.reset()
    guarded.runtime.reads = frozenset({"image"})
    assert upload(guarded, SMALL, "sesame").status_code == 200
    statuses: dict[str, set[int]] = {}
    for key in ("sesame", "another", "wrong"):
        for path, body in forms(url_of(SMALL)):
            response = guarded.http.post(path, json=body, headers={"authorization": f"Bearer {key}"})
            statuses.setdefault(key, set()).add(response.status_code)
    assert statuses == {"sesame": {200}, "another": {409}, "wrong": {401}}
    assert upload(guarded, SMALL, "wrong").status_code == 401


@pytest.fixture(scope="module")
def narrow() -> Iterator[Served]:
    settings = Settings(port=0, grace_s=0.1, max_media_bytes=2000, max_document_bytes=3000, max_blobs=3)
    with running(settings) as served:
        served.runtime.reads = frozenset({"image"})
        yield served


def test_uploads_are_bounded_in_size_and_number(narrow: Served) -> None:
    assert upload(narrow, b"").status_code == 400
    refused = upload(narrow, bytes(3001))
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, "too_large")
    assert "--max-document-bytes" in refused.text
    for number in range(4):
        assert upload(narrow, SMALL + bytes([number])).status_code == 200
    found = [
        narrow.http.post("/v1/chat/completions", json={"messages": user(image(url_of(SMALL + bytes([number]))))})
        for number in range(4)
    ]
    assert [each.status_code for each in found] == [409, 200, 200, 200]
    large = bytes(2500)
    assert upload(narrow, large).status_code == 200, "it may be a document"
    refused = narrow.http.post("/v1/chat/completions", json={"messages": user(image(url_of(large)))})
    assert refused.status_code == 400
    assert "max_media_bytes" in refused.text


def test_without_room_nothing_is_kept() -> None:
    with running(Settings(port=0, grace_s=0.1, blob_ram_mb=0)) as served:
        refused = upload(served, SMALL)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "feature_disabled")


def _file(number: int, size: int = 100) -> MediaFile:
    return MediaFile(f"{number:064x}", bytes(size))


def test_the_owner_with_the_most_loses_what_was_used_least_recently() -> None:
    store = BlobStore(6, 10**6)
    store.put(_file(0), "a")
    for number in range(1, 5):
        store.put(_file(number), "b")
    assert store.get(_file(1).digest, "b") is not None
    for number in range(5, 8):
        assert store.put(_file(number), "b")
    assert len(store) == 6
    assert store.get(_file(0).digest, "a") is not None, "another's flood evicts nothing of it"
    assert store.get(_file(0).digest, "b") is None
    kept = [number for number in range(1, 8) if store.get(_file(number).digest, "b")]
    assert kept == [1, 4, 5, 6, 7]


def test_bytes_are_bounded_and_a_file_counts_once() -> None:
    store = BlobStore(100, 3 * (100 + OVERHEAD_BYTES))
    for number in (0, 0, 1, 2):
        assert store.put(_file(number), "a")
    assert store.size_bytes == store.max_bytes
    assert store.put(_file(3), "a")
    assert store.get(_file(0).digest, "a") is None
    assert not store.put(_file(4, store.max_bytes), "a")
    assert len(store) == 3
