"""Pictures and sounds in prompts without a template: llama-server's markers and `multimodal_data`."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from localllm.server.requests.marked_prompts import DEFAULT_MARKER, MARKER
from localllm.types import Delta, Finish, Media, Timings, Usage
from tests.documents import made
from tests.pictures import LARGE, SMALL, WAV, data_url
from tests.server.conftest import Served
from tests.server.fake_runtime import TEXT_ONLY

PATHS = ("/completion", "/completions", "/v1/completions")


def _bare(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _parts(served: Served, index: int = -1) -> list[Any]:
    """Texts, and of each medium its kind and size."""
    return [
        (part.kind, part.num_bytes) if isinstance(part, Media) else part
        for part in served.runtime.requests[index].prompt_parts or ()
    ]


@pytest.fixture
def seeing(served: Served) -> Served:
    served.runtime.reads = frozenset({"image", "audio"})
    return served


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("marker", [MARKER, DEFAULT_MARKER], ids=["ours", "libmtmd's"])
def test_each_marker_is_the_place_of_a_file(seeing: Served, path: str, marker: str) -> None:
    prompt = {
        "prompt_string": f"{marker}a{marker}b {marker}",
        "multimodal_data": [_bare(LARGE), data_url(WAV, "audio/wav"), data_url(SMALL)],
    }
    response = seeing.http.post(path, json={"prompt": prompt})
    assert response.status_code == 200, response.text
    assert _parts(seeing) == [("image", len(LARGE)), "a", ("audio", len(WAV)), "b ", ("image", len(SMALL))]
    assert [file.data for file in seeing.runtime.requests[-1].media] == [LARGE, WAV, SMALL]


def test_the_marker_is_known_to_clients_and_another_one_beside_it_is_text(seeing: Served) -> None:
    marker = seeing.http.get("/props").json()["media_marker"]
    text = f"{DEFAULT_MARKER} is {marker}"
    prompt = {"prompt_string": text, "multimodal_data": _bare(SMALL)}
    assert seeing.http.post("/completion", json={"prompt": prompt}).status_code == 200
    assert _parts(seeing) == [f"{DEFAULT_MARKER} is ", ("image", len(SMALL))]
    for plain in (text, {"prompt_string": f"a {DEFAULT_MARKER}"}):
        assert seeing.http.post("/completion", json={"prompt": plain}).status_code == 200
        assert seeing.runtime.requests[-1].prompt_parts is None


@pytest.mark.parametrize("path", PATHS)
def test_prompts_with_and_without_pictures_are_answered_together(seeing: Served, path: str) -> None:
    objects = [{"prompt_string": f"{MARKER}{text}", "multimodal_data": [_bare(SMALL)]} for text in "ab"]
    response = seeing.http.post(path, json={"prompt": [objects[0], "plain", objects[1]], "n": 2})
    assert response.status_code == 200, response.text
    asked = [request.prompt or request.prompt_parts for request in seeing.runtime.requests]
    assert [asked[number] == asked[number + 1] for number in (0, 2, 4)] == [True] * 3
    assert (_parts(seeing, 0)[1], asked[2], _parts(seeing, 4)[1]) == ("a", "plain", "b")


def test_text_that_is_a_picture_in_base64_stays_text(seeing: Served) -> None:
    bare = _bare(LARGE)
    body = {"prompt": [bare, {"prompt_string": bare}, {"prompt_string": bare + MARKER, "multimodal_data": [bare]}]}
    assert seeing.http.post("/completion", json=body).status_code == 200
    first, second, third = seeing.runtime.requests
    assert (first.prompt, second.prompt, (third.prompt_parts or ())[0]) == (bare, bare, bare)
    assert [file.data for file in third.media] == [LARGE]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("prompt", "param", "says"),
    [
        ({"prompt_string": "a", "multimodal_data": ["AAAA"]}, "multimodal_data", "0 markers"),
        ({"prompt_string": MARKER * 2, "multimodal_data": ["AAAA"]}, "multimodal_data", "2 markers"),
        ({"prompt_string": MARKER}, "multimodal_data", "media_marker of GET /props"),
        ({"prompt_string": MARKER, "multimodal_data": ["malformed!"]}, "multimodal_data[0]", "not valid base64"),
        ({"prompt_string": MARKER, "multimodal_data": [""]}, "multimodal_data[0]", "empty"),
        ({"prompt_string": MARKER, "multimodal_data": ["file:///a.png"]}, "multimodal_data[0]", "are never read"),
        ({"prompt_string": MARKER, "multimodal_data": [_bare(made.pdf(["a"]))]}, "multimodal_data[0]", "is a document"),
        ({"prompt_string": [1, MARKER], "multimodal_data": ["AAAA"]}, "prompt_string", "must be a text"),
    ],
)
def test_what_is_wrong_with_a_prompt_is_said_with_its_place(
    seeing: Served, path: str, prompt: dict[str, Any], param: str, says: str
) -> None:
    for given, where in ((prompt, "prompt"), (["a", prompt], "prompt[1]")):
        response = seeing.http.post(path, json={"prompt": given})
        error = response.json()["error"]
        assert (response.status_code, says in error["message"]) == (400, True), error
        assert f"{where}.{param}" in error["message"]
    assert seeing.runtime.requests == []


def test_a_model_that_does_not_see_refuses_and_too_many_files_are_too_many(served: Served) -> None:
    prompt = {"prompt_string": MARKER, "multimodal_data": [_bare(SMALL)]}
    error = served.http.post("/completion", json={"prompt": prompt}).json()["error"]
    assert "prompt.multimodal_data[0]" in error["message"]
    assert TEXT_ONLY in error["message"]
    many = {"prompt_string": MARKER * 200, "multimodal_data": [_bare(SMALL)] * 200}
    assert "max_media" in served.http.post("/completion", json={"prompt": many}).json()["error"]["message"]


@pytest.mark.parametrize("field", ["echo", "suffix"])
def test_what_needs_a_text_is_refused_beside_pictures(seeing: Served, field: str) -> None:
    prompt = {"prompt_string": MARKER, "multimodal_data": [_bare(SMALL)]}
    response = seeing.http.post("/v1/completions", json={"prompt": prompt, field: "x" if field == "suffix" else True})
    assert (response.status_code, response.json()["error"]["param"]) == (400, field)


def test_a_rendered_conversation_has_the_marker_in_the_place_of_each_picture(seeing: Served) -> None:
    content = [{"type": "image_url", "image_url": {"url": data_url(LARGE)}}, {"type": "text", "text": "What?"}]
    response = seeing.http.post("/apply-template", json={"messages": [{"role": "user", "content": content}]})
    assert response.json()["prompt"].count(seeing.http.get("/props").json()["media_marker"]) == 1


def test_texts_and_tokens_are_tokenized_together(served: Served) -> None:
    body = {"content": ["ab", 7, "c"], "add_special": True}
    assert served.http.post("/tokenize", json=body).json() == {"tokens": [256, 97, 98, 7, 99]}
    assert served.http.post("/tokenize", json={"content": [7, "c"], "add_special": True}).json() == {"tokens": [7, 99]}


def test_replies_say_what_the_pictures_took(seeing: Served) -> None:
    usage, timings = Usage(30, 2, 10, image_tokens=16, audio_tokens=4), Timings(0.0, 0.1, 0.1, 0.25, 3)
    seeing.runtime.script = [Delta("Hi", 2, Finish("stop", usage, timings))]
    prompt = {"prompt_string": MARKER, "multimodal_data": [_bare(SMALL)]}
    reply = seeing.http.post("/completion", json={"prompt": prompt}).json()
    assert (reply["image_tokens"], reply["audio_tokens"]) == (16, 4)
    assert (reply["timings"]["encode_ms"], reply["timings"]["encode_cached"]) == (250, 3)
    seeing.runtime.script = [Delta("Hi", 2, Finish("stop", Usage(30, 2), timings))]
    plain = json.dumps(seeing.http.post("/completion", json={"prompt": "a"}).json())
    assert not any(name in plain for name in ("image_tokens", "audio_tokens", "encode"))
