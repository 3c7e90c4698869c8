"""What pictures and sounds took is said in every dialect, whole and streamed, and by every endpoint that counts."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from localllm.client.api import Client
from localllm.types import Delta, Finish, Media, MediaFile, Message, Timings, Usage
from tests.pictures import SMALL, WAV, data_url
from tests.server.conftest import Served

USAGE = Usage(30, 2, 10, image_tokens=16, audio_tokens=4)
SCRIPT = [Delta("Hi", 2), Delta("", 0, Finish("stop", USAGE, Timings(0.0, 0.1, 0.1, 0.25, 3)))]
IMAGE = {"type": "image_url", "image_url": {"url": data_url(SMALL)}}
SOUND = {"type": "input_audio", "input_audio": {"data": base64.b64encode(WAV).decode(), "format": "wav"}}
CLAUDES = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(SMALL).decode()},
}
INPUT = [{"role": "user", "content": [{"type": "input_image", "image_url": data_url(SMALL)}, SOUND]}]
CHAT = [{"role": "user", "content": [IMAGE, SOUND]}]
OLLAMAS = {"role": "user", "content": "What?", "images": [base64.b64encode(SMALL).decode()]}


@pytest.fixture
def seeing(served: Served) -> Served:
    served.runtime.reads = frozenset({"image", "audio"})
    served.runtime.script = SCRIPT
    return served


def _sent(served: Served, path: str, body: dict[str, Any], *, stream: bool) -> dict[str, Any]:
    """The reply, or the fields of all events of a stream, later ones last."""
    response = served.http.post(path, json={"stream": stream, **body})
    assert response.status_code == 200, response.text
    if not stream:
        whole: dict[str, Any] = response.json()
        return whole
    lines = [line.removeprefix("data: ") for line in response.text.splitlines()]
    events = [json.loads(line) for line in lines if line.startswith("{")]
    inner = [event["response"] if isinstance(event.get("response"), dict) else {} for event in events]
    found = [pair for event, more in zip(events, inner, strict=True) for pair in {**event, **more}.items()]
    return {name: value for name, value in found if value}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("per_token", [False, True])
def test_openais_usage_and_timings_have_them(seeing: Served, stream: bool, per_token: bool) -> None:
    extras = {"timings": True, "timings_per_token": per_token, "stream_options": {"include_usage": True}}
    made = _sent(seeing, "/v1/chat/completions", {"messages": CHAT, **extras}, stream=stream)
    assert made["usage"]["prompt_tokens_details"] == {"cached_tokens": 10, "image_tokens": 16, "audio_tokens": 4}
    assert (made["timings"]["encode_ms"], made["timings"]["encode_cached"]) == (250, 3)
    made = _sent(seeing, "/v1/responses", {"input": INPUT, "timings": True}, stream=stream)
    details = made["usage"]["input_tokens_details"]
    assert (details["cached_tokens"], details["image_tokens"], details["audio_tokens"]) == (10, 16, 4)
    assert (made["timings"]["encode_ms"], made["timings"]["encode_cached"]) == (250, 3)


@pytest.mark.parametrize("stream", [False, True])
def test_anthropics_usage_has_them(seeing: Served, stream: bool) -> None:
    body = {"max_tokens": 5, "messages": [{"role": "user", "content": [CLAUDES]}], "timings": True}
    made = _sent(seeing, "/v1/messages", body, stream=stream)
    usage = made["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (20, 10)
    assert (usage["image_tokens"], usage["audio_tokens"]) == (16, 4)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body"), [("/api/chat", {"messages": [OLLAMAS]}), ("/api/generate", {**OLLAMAS, "prompt": "What?"})]
)
def test_ollamas_metrics_have_them(seeing: Served, path: str, body: dict[str, Any], stream: bool) -> None:
    made = _sent(seeing, path, {"model": "tiny", **body}, stream=stream)
    assert (made["prompt_eval_count"], made["image_eval_count"], made["audio_eval_count"]) == (30, 16, 4)
    assert (made["encode_duration"], made["encode_cached_count"]) == (250_000_000, 3)
    seeing.runtime.script = [Delta("Hi", 2, Finish("stop", Usage(30, 2), Timings(0.0, 0.1, 0.1)))]
    assert (
        not {"image_eval_count", "encode_duration"}
        & _sent(seeing, path, {"model": "tiny", **body}, stream=False).keys()
    )


@pytest.mark.parametrize(
    ("path", "body", "sounds"),
    [
        ("/v1/chat/completions/input_tokens", {"messages": CHAT}, 4),
        ("/v1/responses/input_tokens", {"input": INPUT}, 4),
        ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": [CLAUDES]}]}, 0),
    ],
)
def test_counted_prompts_say_how_many_tokens_are_of_pictures_and_sounds(
    seeing: Served, path: str, body: dict[str, Any], sounds: int
) -> None:
    counted = seeing.http.post(path, json=body).json()
    assert (counted["image_tokens"], counted.get("audio_tokens", 0)) == (4, sounds)
    assert counted["input_tokens"] > 8
    plain = {"input" if "input" in body else "messages": [{"role": "user", "content": "Hi"}]}
    assert not {"image_tokens", "audio_tokens"} & seeing.http.post(path, json=plain).json().keys()


def test_our_client_reads_them(seeing: Served) -> None:
    picture = Media(kind="image", digest="d", num_bytes=len(SMALL))
    turn, files = Message("user", "", parts=(picture, "What?")), {"d": MediaFile("d", SMALL)}
    with Client(seeing.url) as client:
        *_, last = client.chat("tiny", [turn], files=files)
        assert last.finish is not None
        assert last.finish.usage == USAGE
        assert (last.finish.timings.encode_s, last.finish.timings.cached_encodes) == (0.25, 3)
        counted = client.count_tokens("tiny", [turn], files=files)
        assert counted == client.count_tokens("tiny", [Message("user", "What?")]) + 4


def test_ollamas_images_stand_in_raw_prompts_and_behind_earlier_tokens(seeing: Served) -> None:
    def parts(**body: Any) -> list[Any]:
        images = [base64.b64encode(SMALL).decode(), data_url(WAV)]
        response = seeing.http.post("/api/generate", json={"model": "tiny", "images": images, "stream": False, **body})
        assert response.status_code == 200, response.text
        asked = seeing.runtime.requests[-1]
        assert [file.data for file in asked.media] == [SMALL, WAV]
        return [part.kind if isinstance(part, Media) else part for part in asked.prompt_parts or ()]

    assert parts(prompt="[INST]Hi[/INST]", raw=True) == ["image", "audio", "[INST]Hi[/INST]"]
    assert parts(prompt="a[img-1]b[img-0] [img-x]", raw=True) == ["a", "audio", "b", "image", " [img-x]"]
    assert parts(prompt="Hi", context=[256, *b"Before."]) == ["Before.<user>Hi", "image", "audio"]
    for prompt in ("[img-0]", "[img-0][img-0]", "[img-0][img-2]"):
        body = {"model": "tiny", "images": [OLLAMAS["images"][0]] * 2, "prompt": prompt, "raw": True}
        refused = seeing.http.post("/api/generate", json=body)
        assert (refused.status_code, "[img-0], [img-1]" in refused.json()["error"]) == (400, True)
