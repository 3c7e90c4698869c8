"""Pictures and sounds reach the model from every form that clients send; what it does not read is refused by place."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from localllm.chat.media_files import DETAILS
from localllm.settings.config import Settings
from localllm.types import Media, MediaFile
from tests.pictures import LARGE, SMALL, WAV, data_url, video
from tests.server.conftest import Served, running
from tests.server.fake_runtime import TEXT_ONLY

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SEEN = {"role": "assistant", "content": "I see."}
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
        (
            "/v1/chat/completions",
            {"messages": _user({"type": "file", "file": {"file_id": "x"}})},
            "messages[0].content[0].file.file_id",
        ),
        ("/v1/chat/completions", {"messages": _user({"type": "video_url"})}, "'video_url'"),
        ("/v1/chat/completions", {"messages": _user(), "audio": {"voice": "x", "format": "wav"}}, "audio"),
        ("/v1/chat/completions", {"messages": _user(), "modalities": ["text", "audio"]}, "modalities"),
        (
            "/v1/chat/completions",
            {"messages": [*_user(PICTURE), {"role": "assistant", "content": "A cat."}, *_user(PICTURE)]},
            "messages[2].content[0]",
        ),
        ("/apply-template", {"messages": _user(PICTURE)}, "messages[0].content[0]"),
        ("/v1/responses", {"input": _user({**PICTURE, "type": "input_image"})}, "input[0].content[0]"),
        ("/v1/responses", {"input": _user({"type": "input_file", "file_id": "x"})}, "input[0].content[0]"),
        (
            "/v1/responses",
            {"input": _user({"type": "input_image", "file_id": "x"})},
            "input[0].content[0].file_id is not supported: requests name no files by id; send the file itself as",
        ),
        (
            "/v1/responses",
            {"input": _user({"type": "input_audio", "input_audio": {"data": "AA"}})},
            "input[0].content[0]",
        ),
        ("/v1/messages", {"max_tokens": 5, "messages": _user(CLAUDES)}, "messages[0].content[0]"),
        ("/v1/messages", {"max_tokens": 5, "system": [CLAUDES], "messages": _user()}, "system[0]"),
        (
            "/v1/messages",
            {"max_tokens": 5, "messages": _user({"type": "document", "source": {"type": "file"}})},
            "source",
        ),
        ("/v1/messages", {"max_tokens": 5, "messages": _user({"type": "container_upload"})}, "'container_upload'"),
        ("/v1/messages/count_tokens", {"messages": _user(CLAUDES)}, "messages[0].content[0]"),
        (
            "/api/chat",
            {"model": "tiny", "messages": [{"role": "user", "content": "a", "images": ["AAAA"]}]},
            "messages[0].images",
        ),
        ("/api/generate", {"model": "tiny", "prompt": "a", "images": ["AAAA"]}, "images"),
        ("/v1/embeddings", {"input": [{"content": [PICTURE]}]}, "input[0].content[0]"),
        (
            "/embeddings",
            {"content": {"prompt_string": "<__media__>", "multimodal_data": ["AAAA"]}},
            "content.multimodal_data[0]",
        ),
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
    assert "not supported" in message or TEXT_ONLY in message
    if isinstance(error, dict) and "code" in error:
        code = error.get("reason", error["code"])  # llama-server's own paths have the status for a code
        assert code == "unsupported_parameter"
    assert served.runtime.asked == []
    assert served.runtime.embedded == []


def _chat(*parts: object) -> tuple[str, dict[str, Any]]:
    return "/v1/chat/completions", {"messages": _user(*parts)}


def _forms(data: bytes) -> list[tuple[str, dict[str, Any]]]:
    """One picture, as clients of all dialects send it."""
    text, bare = {"type": "text", "text": "What?"}, base64.b64encode(data).decode()
    url_safe = base64.urlsafe_b64encode(data).decode().rstrip("=")
    claudes = {"type": "image", "source": {"type": "base64", "media_type": "image/webp", "data": bare}}
    return [
        _chat({"type": "image_url", "image_url": {"url": data_url(data)}}, text),
        _chat({"type": "image_url", "image_url": {"url": data_url(data, "application/octet-stream")}}, text),
        _chat({"type": "image_url", "image_url": data_url(data, "image/jpeg"), "detail": "auto"}, text),
        _chat({"type": "input_image", "image_url": bare}, text),
        _chat({"type": "image_url", "image_url": {"url": url_safe}}, text),
        ("/api/chat", {"model": "tiny", "messages": [{"role": "user", "content": "What?", "images": [bare]}]}),
        (
            "/api/chat",
            {"model": "tiny", "messages": [{"role": "user", "content": "What?", "images": [data_url(data)]}]},
        ),
        ("/api/generate", {"model": "tiny", "prompt": "What?", "images": [bare]}),
        ("/v1/messages", {"messages": _user(claudes, text), "max_tokens": 5}),
        ("/v1/responses", {"input": _user({"type": "input_image", "image_url": data_url(data)}, text)}),
    ]


@pytest.mark.parametrize("data", [SMALL, LARGE])
@pytest.mark.parametrize("escapes", [False, True])
def test_a_picture_is_the_same_in_every_form(served: Served, data: bytes, escapes: bool) -> None:
    """`escapes`: as PHP and .NET write base64 into JSON."""
    served.runtime.reads = frozenset({"image"})
    for path, body in _forms(data):
        content = json.dumps(body).encode()
        if escapes:
            content = content.replace(b"/", rb"\/").replace(b"+", rb"\u002B")
        response = served.http.post(path, content=content, headers={"content-type": "application/json"})
        assert response.status_code == 200, response.text
        asked = served.runtime.requests[-1]
        assert asked.messages is not None
        (medium, text) = asked.messages[0].parts
        assert isinstance(medium, Media)
        digest = hashlib.sha256(data).hexdigest()
        assert (medium.kind, medium.digest, medium.num_bytes, text) == ("image", digest, len(data), "What?")
        assert asked.media == (MediaFile(digest, data),)
        assert asked.media[0].data is served.runtime.requests[0].media[0].data  # kept once, however often it is sent


def test_sounds_and_videos_come_in_two_forms_and_details_are_kept(served: Served) -> None:
    served.runtime.reads = frozenset({"image", "video", "audio"})
    mp4, recording = video([(255, 0, 0)]), video([(0, 255, 0)], format="webm")
    wav = base64.b64encode(WAV).decode()
    parts = [
        {"type": "input_audio", "input_audio": {"data": wav, "format": "wav"}},
        {"type": "audio_url", "audio_url": {"url": data_url(WAV, "audio/wav")}},
        *(
            {"type": "image_url", "image_url": {"url": data_url(SMALL), "detail": detail}}
            for detail in DETAILS
            if detail
        ),
        {"type": "input_video", "input_video": {"data": base64.b64encode(mp4).decode(), "format": "mp4"}},
        {"type": "video_url", "video_url": {"url": data_url(recording, "video/webm")}},
        {"type": "input_audio", "input_audio": {"data": base64.b64encode(recording).decode()}},
    ]
    assert served.http.post(*_chat(*parts)[:1], json=_chat(*parts)[1]).status_code == 200
    (message,) = served.runtime.requests[-1].messages or ()
    assert [medium.kind for medium in message.media] == ["audio", "audio", *["image"] * 4, "video", "video", "audio"]
    assert [medium.detail for medium in message.media[2:6]] == ["auto", "low", "high", "high"]
    assert len(served.runtime.requests[-1].media) == 4
    served.runtime.reads = frozenset({"image"})
    refused = served.http.post(*_chat(parts[6])[:1], json=_chat(parts[6])[1])
    assert refused.status_code == 400
    assert 'pip install "localllm[media]"' in refused.json()["error"]["message"]


def test_text_that_looks_like_a_picture_stays_text(served: Served) -> None:
    served.runtime.reads = frozenset({"image"})
    bare = base64.b64encode(LARGE).decode()
    for content in (bare, data_url(LARGE), f'a "{data_url(LARGE)}" b', json.dumps({"url": data_url(LARGE)})):
        messages = [{"role": "user", "content": content}, *_user({"type": "text", "text": content}, PICTURE)]
        assert served.http.post("/v1/chat/completions", json={"messages": messages}).status_code == 200
        plain, mixed = served.runtime.requests[-1].messages or ()
        assert (plain.content, mixed.parts[0]) == (content, content)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("file:///etc/passwd", "are never read"),
        ("data:image/png,abc", "must contain ;base64"),
        ("data:image/png;base64,", "not valid base64, or empty"),
        ("not base64!", "not valid base64"),
        ("http://127.0.0.1/a.png", "--media-urls public"),
        ("https://example.com/a.png", "--media-urls public"),
    ],
)
def test_what_is_no_picture_is_refused_with_its_place(served: Served, url: str, says: str) -> None:
    served.runtime.reads = frozenset({"image"})
    part = {"type": "image_url", "image_url": {"url": url}}
    response = served.http.post("/v1/chat/completions", json={"messages": _user(part)})
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, "messages[0].content[0]")
    assert says in error["message"]


def test_pictures_of_tools_and_earlier_turns_are_read_and_those_that_are_none_get_a_note(served: Served) -> None:
    served.runtime.reads = frozenset({"image"})
    broken = {"type": "image_url", "image_url": {"url": "data:"}}
    messages = [
        *_user(broken, PICTURE),
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "look"}}]},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "Here:"}, PICTURE]},
    ]
    response = served.http.post("/v1/chat/completions", json={"messages": messages})
    assert response.status_code == 200, response.text
    first, _, result = served.runtime.requests[-1].messages or ()
    assert (len(first.media), len(result.media)) == (1, 1)
    assert first.parts[0] == "[image omitted: it cannot be read]"
    said = response.headers["x-localllm-messages"]
    assert said.startswith("messages[0].content[0]: image omitted: messages[0].content[0]")
    assert "base64" in said


def _claudes(picture: bytes = SMALL, **source: Any) -> dict[str, Any]:
    bare = base64.b64encode(picture).decode()
    return {"type": "image", "source": source or {"type": "base64", "media_type": "image/png", "data": bare}}


def _read_by_claude_code(*content: Any) -> dict[str, Any]:
    """A session whose tool returned this."""
    call = {"type": "tool_use", "id": "c", "name": "Read", "input": {"file_path": "a.png"}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": list(content)}
    return {
        "max_tokens": 5,
        "messages": [
            *_user({"type": "text", "text": "Look."}),
            {"role": "assistant", "content": [call]},
            *_user(result),
        ],
    }


@pytest.mark.parametrize("data", [SMALL, LARGE])
def test_a_picture_that_claude_code_reads_is_seen_or_gets_a_note_and_is_counted(served: Served, data: bytes) -> None:
    body = _read_by_claude_code({"type": "text", "text": "Here:"}, _claudes(data))
    assert served.http.post("/v1/messages", json=body).status_code == 200
    result = (served.runtime.requests[-1].messages or ())[-1]
    assert (result.role, result.media) == ("tool", ())
    assert result.content == "Here:\n[image omitted: the model cannot see images]"
    plain = served.http.post("/v1/messages/count_tokens", json=body).json()["input_tokens"]
    served.runtime.reads = frozenset({"image"})
    assert served.http.post("/v1/messages", json=body).status_code == 200
    result = (served.runtime.requests[-1].messages or ())[-1]
    assert (result.role, result.tool_call_id, result.parts[0]) == ("tool", "c", "Here:")
    assert [file.data for file in served.runtime.requests[-1].media] == [data]
    counted = served.http.post("/v1/messages/count_tokens", json=body).json()["input_tokens"]
    assert counted == plain - len("\n[image omitted: the model cannot see images]") + 4


def _drawn() -> list[tuple[str, dict[str, Any]]]:
    """Conversations in which the assistant drew a picture, perhaps another model than this one."""
    text, url = {"type": "text", "text": "Here it is."}, data_url(SMALL)
    asked, again = _user({"type": "text", "text": "Draw."}), _user({"type": "text", "text": "Larger."})
    shown = {"type": "image_url", "image_url": {"url": url}}
    own = {"type": "output_text", "text": "Here it is."}
    drawn = {"type": "output_image", "image_url": url}
    bare = base64.b64encode(SMALL).decode()
    ollamas = {"role": "assistant", "content": "Here it is.", "images": [bare]}
    return [
        ("/v1/chat/completions", {"messages": [*asked, {"role": "assistant", "content": [text, shown]}, *again]}),
        ("/v1/chat/completions", {"messages": [*asked, {"role": "assistant", "content": [text, drawn]}, *again]}),
        ("/v1/responses", {"input": [*asked, {"role": "assistant", "content": [own, drawn]}, *again]}),
        ("/v1/responses", {"input": [*asked, {"type": "image_generation_call", "result": bare}, *again]}),
        (
            "/v1/messages",
            {"max_tokens": 5, "messages": [*asked, {"role": "assistant", "content": [text, _claudes()]}, *again]},
        ),
        (
            "/api/chat",
            {"model": "tiny", "messages": [{"role": "user", "content": "Draw."}, ollamas, ollamas | {"role": "user"}]},
        ),
    ]


def test_a_picture_in_the_assistants_own_turn_is_seen_by_a_model_that_sees(served: Served) -> None:
    for path, body in _drawn():
        for reads in (frozenset({"image"}), frozenset[str]()):
            served.runtime.reads = reads if path != "/api/chat" else frozenset({"image"})
            response = served.http.post(path, json=body)
            assert response.status_code == 200, (path, response.text)
            own = (served.runtime.requests[-1].messages or ())[1]
            assert own.role == "assistant"
            assert len(own.media) == (1 if served.runtime.reads else 0), path
            assert "Here it is." in own.content or "image_generation_call" in str(body)
            assert ("the model cannot see images" in own.content) != bool(served.runtime.reads)
            assert "omitted" not in response.headers.get("x-localllm-messages", "") or not served.runtime.reads


@pytest.mark.parametrize(
    ("block", "says"),
    [
        (_claudes(type="base64", data="not base64!"), "not valid base64"),
        (_claudes(type="base64"), "source.data"),
        (_claudes(type="url", url="https://example.com/a.png"), "--media-urls public"),
        (_claudes(type="url", url="file:///etc/passwd"), "are never read"),
        (
            _claudes(type="file", file_id="file_1"),
            "send the file itself as base64, or the url that /localllm/blobs gives",
        ),
        ({"type": "image"}, "source"),
        ({"type": "document", "source": {"type": "base64", "data": "AAAA"}}, "of no format that is read here"),
    ],
)
def test_what_is_no_picture_is_refused_in_claudes_words_and_a_note_in_a_result(
    served: Served, block: dict[str, Any], says: str
) -> None:
    served.runtime.reads = frozenset({"image"})
    response = served.http.post("/v1/messages", json={"max_tokens": 5, "messages": _user(block)})
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (400, "invalid_request_error")
    assert says in error["message"]
    assert "messages[0].content[0]" in error["message"]
    if says != "--media-urls public":
        assert served.http.post("/v1/messages", json=_read_by_claude_code(block)).status_code == 200
        shown = (served.runtime.requests[-1].messages or ())[-1].content
        assert "cannot be read]" in shown or "of no format" in shown, "not that the model could not see it"


def test_base64_that_a_call_writes_is_text(served: Served) -> None:
    """Arguments are objects in this API, so a file's base64 stands in them like a picture's."""
    bare = base64.b64encode(LARGE).decode()
    body = _read_by_claude_code(_claudes(SMALL))
    body["messages"][1]["content"][0]["input"] = {"new_string": bare, "data": data_url(LARGE)}
    assert served.http.post("/v1/messages", json=body).status_code == 200
    _, answer, _ = served.runtime.requests[-1].messages or ()
    assert json.loads(answer.tool_calls[0].arguments) == {"new_string": bare, "data": data_url(LARGE)}


def test_what_is_too_large_in_a_tools_result_is_a_note() -> None:
    large = {"type": "image_url", "image_url": {"url": data_url(LARGE)}}
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "look"}}]}
    messages = [*_user(PICTURE), call, {"role": "tool", "tool_call_id": "c", "content": [large]}]
    limits = Settings(port=0, grace_s=0.1, max_media_bytes=len(LARGE) - 1, max_request_media_bytes=len(LARGE) - 1)
    with running(limits) as served:
        served.runtime.reads = frozenset({"image"})
        response = served.http.post("/v1/chat/completions", json={"messages": messages})
        assert response.status_code == 200, response.text
        assert "messages[2].content[0]: image omitted" in response.headers["x-localllm-messages"]
        asked = served.runtime.requests[-1]
        assert (asked.messages or ())[2].content == "[image omitted: it is too large]"
        assert len(asked.media) == 1


def test_of_more_pictures_than_a_request_may_have_the_oldest_of_the_past_are_notes() -> None:
    """Some more than needed, so that the prompts of the next turns begin alike."""
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "look"}}]}
    turns = [*_user({"type": "text", "text": "Look."})]
    with running(Settings(port=0, grace_s=0.1, max_media=8)) as served:
        served.runtime.reads = frozenset({"image"})
        seen = []
        for number in range(12):
            turns += [call, {"role": "tool", "tool_call_id": "c", "content": [PICTURE]}]
            response = served.http.post("/v1/chat/completions", json={"messages": turns})
            assert response.status_code == 200, response.text
            asked = served.runtime.requests[-1].messages or ()
            seen.append([len(message.media) for message in asked if message.role == "tool"])
            assert ("at most 8 are read" in response.headers.get("x-localllm-messages", "")) == (number >= 8)
        assert [sum(each) for each in seen] == [1, 2, 3, 4, 5, 6, 7, 8, 7, 8, 7, 8]
        assert seen[9] == [0, 0, *[1] * 8]
        refused = served.http.post("/v1/chat/completions", json={"messages": [*turns, SEEN, *_user(*[PICTURE] * 9)]})
        assert (refused.status_code, "max_media" in refused.text) == (400, True)


def test_too_much_media_is_refused_with_the_numbers() -> None:
    limits = Settings(port=0, grace_s=0.1, max_media_bytes=len(LARGE) - 1, max_media=2, max_body_bytes=10_000)
    large = {"type": "image_url", "image_url": {"url": data_url(LARGE)}}
    text = {"type": "text", "text": "a" * 20_000}
    with running(limits) as served:
        served.runtime.reads = frozenset({"image"})
        for parts, says in (([large], "max_media_bytes"), ([PICTURE] * 3, "max_media)")):
            response = served.http.post("/v1/chat/completions", json={"messages": _user(*parts)})
            assert (response.status_code, says in response.text) == (400, True), response.text
        assert served.http.post("/v1/chat/completions", json={"messages": _user(text)}).status_code == 413


@contextlib.contextmanager
def _pictures_on_the_web() -> Iterator[str]:
    """A host on this machine: `/a.png`, `/N` for N redirects to it, `/large`, `/slow` to nothing."""

    class Host(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path[1:]
            data = LARGE if name == "large" else SMALL
            if name.isdigit():
                self.send_response(302)
                self.send_header("location", f"/{int(name) - 1}" if name != "1" else "/a.png")
                data = b""
            else:
                self.send_response(404 if name == "none" else 200)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            asked.append(dict(self.headers))

        def log_message(self, *_: object) -> None:
            pass

    asked: list[dict[str, str]] = []
    host = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Host)
    thread = threading.Thread(target=host.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{host.server_port}"
    finally:
        host.shutdown()
        thread.join()
        host.server_close()
    assert not any("authorization" in {name.lower() for name in headers} for headers in asked)


@pytest.mark.parametrize(
    ("media_urls", "path", "says"),
    [
        ("any", "/a.png", ""),
        ("any", "/3", ""),
        ("any", "/4", "redirects more than 3 times"),
        ("any", "/none", "status 404"),
        ("any", "/large", "could not be fetched"),
        ("public", "/a.png", "is not a public address"),
        ("off", "/a.png", "--media-urls public"),
    ],
)
def test_addresses_are_fetched_as_far_as_the_owner_of_the_server_allows(
    media_urls: Any, path: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if media_urls == "public":  # a proxy could reach what the guard refuses: none is asked
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    limits = Settings(port=0, grace_s=0.1, media_urls=media_urls, max_media_bytes=len(LARGE) - 1)
    with _pictures_on_the_web() as web, running(limits) as served:
        served.runtime.reads = frozenset({"image"})
        url, data = _chat({"type": "image_url", "image_url": {"url": web + path}})
        response = served.http.post(url, json=data)
        assert response.status_code == (400 if says else 200), response.text
        assert says in response.text
        if not says:
            (file,) = served.runtime.requests[-1].media
            assert file.data == SMALL


def test_ten_large_pictures_sent_again_and_again_are_held_once(large_served: Served) -> None:
    """As agents and pages send a chat with screenshots: 16 MB of base64 at each turn."""
    large_served.runtime.reads = frozenset({"image"})
    pixels = np.random.default_rng(7).integers(0, 256, (10, 1_200_000), np.uint8)
    pictures = [b"\x89PNG" + row.tobytes() for row in pixels]
    parts = [{"type": "image_url", "image_url": {"url": data_url(each)}} for each in pictures]
    content = json.dumps({"messages": _user(*parts)}).encode()
    assert len(content) > 8 * 2**20, "more than max_body_bytes"
    for _ in range(3):
        response = large_served.http.post(
            "/v1/chat/completions", content=content, headers={"content-type": "application/json"}
        )
        assert response.status_code == 200, response.text
    held = {id(file.data) for request in large_served.runtime.requests for file in request.media}
    assert len(held) == len(pictures)


def test_teis_clients_are_told_in_their_words(served: Served) -> None:
    response = served.http.post("/embed", json={"inputs": {"content": [PICTURE]}})
    assert (response.status_code, response.json()["error_type"]) == (422, "Validation")
    assert "inputs.content[0]" in response.json()["error"]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/v1/audio/voices", "speech is not generated"),
        ("/audio/speech", "speech is not generated"),
        ("/v1/images/generations", "image generation is not supported"),
        ("/v1/uploads", "to /v1/files"),
        ("/v1/moderations", "moderation is not supported"),
    ],
)
def test_endpoints_for_what_is_no_text_say_why_there_are_none(served: Served, path: str, why: str) -> None:
    response = served.http.post(path, json={})
    assert response.status_code == 404
    assert why in response.json()["error"]["message"]
