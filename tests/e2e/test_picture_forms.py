"""Pictures in all forms of all APIs: one answer, encoded once; hostile files."""

from __future__ import annotations

import base64
import io
import json
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from localllm.client.sidecar import Sidecar
from tests.models.media import MediaModel, MediaModelKind
from tests.picture_forms import (
    CHAT,
    COMPLETIONS,
    MESSAGES,
    OLLAMA,
    RESPONSES,
    Form,
    forms,
    limited,
    own_parts,
    pages,
    session,
    text_of,
)
from tests.pictures import data_url, png, wav
from tests.server import hostile

GREEN = png(np.full((32, 32, 3), (0, 255, 0), np.uint8))
RED = png(np.full((32, 32, 3), (255, 0, 0), np.uint8))
MODEL = "omni"


@pytest.fixture(scope="module")
def seeing(media_model: Callable[[MediaModelKind], MediaModel]) -> Iterator[Sidecar]:
    made = media_model("omni")
    options = ["--slots=2", "--ctx=8192", "--image-max-tokens=64"]
    with Sidecar.start([str(made.model), "--mmproj", str(made.projector), *options]) as sidecar:
        yield sidecar


@pytest.fixture(scope="module")
def http(seeing: Sidecar) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {seeing.token}"}
    with httpx.Client(base_url=seeing.url, headers=headers, trust_env=False, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def model(http: httpx.Client) -> str:
    (name,) = (each["id"] for each in http.get("/v1/models").json()["data"] if each["id"].endswith("omni"))
    return str(name)


def _encode_s(http: httpx.Client) -> float:
    """How long pictures have been encoded."""
    lines = http.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("localllm_media_encode_seconds_total{"))


def test_a_picture_is_one_answer_and_one_entry_of_the_cache_in_all_forms_of_all_apis(
    http: httpx.Client, model: str
) -> None:
    spent_s = set[float]()
    for form in forms(GREEN):
        response = http.post(form.path, json=limited(form, model))
        assert response.status_code == 200, (form, response.text)
        assert text_of(form.path, response.json()) == "green", form
        spent_s.add(_encode_s(http))
    assert len(spent_s) == 1
    assert min(spent_s) > 0


def test_the_page_of_a_scan_is_one_answer_and_one_entry_of_the_cache_in_all_forms(
    http: httpx.Client, model: str
) -> None:
    sink = io.BytesIO()
    Image.new("RGB", (64, 64), (0, 0, 255)).save(sink, "PDF")
    spent_s = set[float]()
    for form in pages(sink.getvalue()):
        response = http.post(form.path, json=limited(form, model))
        assert response.status_code == 200, (form, response.text)
        assert text_of(form.path, response.json()) == "blue", form
        spent_s.add(_encode_s(http))
    assert len(spent_s) == 1


def _noise(is_high: bool) -> bytes:
    """White noise, or its running mean."""
    samples = np.random.default_rng(1).standard_normal(32_000)
    return wav(8000 * (np.diff(samples, prepend=0) if is_high else np.convolve(samples, np.ones(16) / 16, "same")))


def test_a_sound_that_a_tool_returned_is_heard_in_every_api(http: httpx.Client, model: str) -> None:
    for is_high, heard in ((True, "high"), (False, "low")):
        bare = base64.b64encode(_noise(is_high)).decode()
        parts = [{"type": "audio", "data": bare, "mimeType": "audio/wav"}]
        returned = [Form(path, session(path, parts)) for path in (CHAT, RESPONSES, MESSAGES)]
        returned += [Form(path, session(path, json.dumps(parts))) for path in (CHAT, RESPONSES, MESSAGES, OLLAMA)]
        own = {"type": "input_audio", "input_audio": {"data": bare, "format": "wav"}}
        returned += [Form(path, session(path, [own])) for path in (CHAT, RESPONSES)]
        for form in returned:
            response = http.post(form.path, json=limited(form, model))
            assert text_of(form.path, response.json()) == heard, form


def _num_prompt_tokens(path: str, usage: dict[str, Any]) -> int:
    if path == MESSAGES:
        return int(usage["input_tokens"]) + int(usage["cache_read_input_tokens"])
    return int(usage["input_tokens" if path == RESPONSES else "prompt_tokens"])


def test_no_part_that_is_no_picture_is_a_500(http: httpx.Client, model: str) -> None:
    """As the model sees, each goes as far as a file can."""
    for ask in hostile.PICTURES:
        body = hostile.json_bytes(ask.body | {"model": model})
        response = http.post(ask.path, content=body, headers={"content-type": "application/json"})
        assert response.status_code < 500, (ask, response.text)
        assert '"server_error"' not in response.text, ask


def _bomb(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    rows = zlib.compress(b"\0" * ((width // 8 + 1) * min(height, 200)), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


HOSTILE = {
    "garbage": b"\x89PNG\r\n\x1a\n" + b"\0" * 100,
    "text": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "truncated": png(np.full((64, 64, 3), (255, 0, 0), np.uint8))[:60],
    "bomb": _bomb(30_000, 30_000),
    "wav of 1 Hz": wav(np.zeros(4000), 1),
    "half a wav": wav(np.zeros(4000))[:30],
    "GIF of 65,535 pixels a side": b"GIF89a\xff\xff\xff\xff\x00\x00\x00,\0\0\0\0\xff\xff\xff\xff\0\x02",
    "empty webp": b"RIFF\x04\0\0\0WEBP",
    "mp4 without a track": b"\0\0\0\x18ftypisom\0\0\0\0isomavc1",
}


COUNTS = {
    CHAT: f"{CHAT}/input_tokens",
    RESPONSES: f"{RESPONSES}/input_tokens",
    MESSAGES: f"{MESSAGES}/count_tokens",
}


def _asking(data: bytes) -> Iterator[Form]:
    """This file as a picture, sound or video, in the turn to answer."""
    bare = base64.b64encode(data).decode()
    for path, places in ((CHAT, "messages"), (RESPONSES, "input"), (MESSAGES, "messages")):
        yield Form(path, {places: [{"role": "user", "content": own_parts(path, data)[:1]}]})
    sound = {"type": "input_audio", "input_audio": {"data": bare, "format": "wav"}}
    film = {"type": "video_url", "video_url": {"url": data_url(data, "video/mp4")}}
    for path, places in ((CHAT, "messages"), (RESPONSES, "input")):
        yield Form(path, {places: [{"role": "user", "content": [sound]}]})
    yield Form(CHAT, {"messages": [{"role": "user", "content": [film]}]})
    yield Form(OLLAMA, {"messages": [{"role": "user", "content": "", "images": [bare]}]})
    yield Form("/api/generate", {"prompt": "What?", "images": [bare]})
    for path in COMPLETIONS:
        yield Form(path, {"prompt": {"prompt_string": "What?<__media__>", "multimodal_data": [bare]}})


def _returned(data: bytes) -> Iterator[Form]:
    """The same in what a tool returned."""
    for path in (CHAT, RESPONSES, MESSAGES):
        yield Form(path, session(path, own_parts(path, data)[:1]))
    ollamas = session(OLLAMA, "")
    ollamas["messages"][-1]["images"] = [base64.b64encode(data).decode()]
    yield Form(OLLAMA, ollamas)


def test_hostile_files_are_refused_in_every_api_are_notes_in_results_and_harm_no_stream(
    http: httpx.Client, model: str
) -> None:
    long = {"messages": [{"role": "user", "content": "a"}], "temperature": 0, "ignore_eos": True, "max_tokens": 300}
    alone = text_of(CHAT, http.post(CHAT, json=long).json())
    beside, is_over = list[str](), threading.Event()

    def write_all() -> None:
        while not is_over.is_set():
            beside.append(text_of(CHAT, http.post(CHAT, json=long).json()))

    runner = threading.Thread(target=write_all)
    runner.start()
    try:
        for name, data in HOSTILE.items():
            for form in _asking(data):
                for stream in (False, True):
                    response = http.post(form.path, json=limited(form, model) | {"stream": stream})
                    assert response.status_code == 400, (name, form, response.text)
                    error = response.json()["error"]
                    assert error if isinstance(error, str) else error["message"], (name, form)
            for form in _returned(data):
                response = http.post(form.path, json=limited(form, model))
                assert response.status_code == 200, (name, form, response.text)
                assert " omitted: " in response.headers["x-localllm-messages"], (name, form)
                assert text_of(form.path, response.json()) == "nothing", (name, form)
                if form.path in COUNTS:
                    counted = http.post(COUNTS[form.path], json={"model": model, **form.body}).json()["input_tokens"]
                    assert counted == _num_prompt_tokens(form.path, response.json()["usage"]), (name, form)
    finally:
        is_over.set()
        runner.join()
    assert set(beside) == {alone}
    red = Form(CHAT, {"messages": [{"role": "user", "content": own_parts(CHAT, RED)[:1]}]})
    assert text_of(CHAT, http.post(CHAT, json=limited(red, model)).json()) == "red"
