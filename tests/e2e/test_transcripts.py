"""Sounds become texts through a real server: every format, streamed, cut at silences, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from localllm.client.sidecar import Sidecar
from tests.later import openai
from tests.models.media import MediaModel, MediaModelKind
from tests.pictures import SMALL, wav

MakeModel = Callable[[MediaModelKind], MediaModel]


def _noise(seconds: float, *, is_high: bool) -> Any:
    """White noise, or its running mean, which the model hears as `high` and `low`."""
    samples = np.random.default_rng(1).standard_normal(int(16_000 * seconds))
    return 8000 * (np.diff(samples, prepend=0) if is_high else np.convolve(samples, np.ones(16) / 16, "same"))


PAUSE = np.zeros(16_000)
LOW, HIGH = _noise(20, is_high=False), _noise(22, is_high=True)
LONG = wav(np.concatenate([LOW, PAUSE, HIGH, PAUSE, LOW[: 12 * 16_000]]))
"""56 seconds, cut in its pauses: low, high, low."""


@pytest.fixture(scope="module")
def hearing(home: Path, media_model: MakeModel) -> Iterator[Sidecar]:
    made = media_model("omni")
    with Sidecar.start([str(made.model), "--mmproj", str(made.projector), "--slots=2", "--ctx=1024"]) as sidecar:
        yield sidecar


@pytest.fixture(scope="module")
def http(hearing: Sidecar) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {hearing.token}"}
    with httpx.Client(base_url=hearing.url, headers=headers, trust_env=False, timeout=60) as client:
        yield client


def _post(http: httpx.Client, data: bytes = LONG, **fields: Any) -> httpx.Response:
    return http.post("/v1/audio/transcriptions", files={"file": ("a.wav", data)}, data=fields)


def test_a_long_sound_is_cut_in_its_pauses_and_its_texts_are_joined_in_order(http: httpx.Client) -> None:
    response = _post(http, response_format="verbose_json", timings="true")
    assert response.status_code == 200, response.text
    verbose = response.json()
    assert verbose["text"] == "low high low"
    segments = verbose["segments"]
    assert [each["text"] for each in segments] == ["low", "high", "low"]
    assert (segments[0]["start"], segments[-1]["end"]) == (0, verbose["duration"]) == (0, 56)
    assert [one["end"] for one in segments[:-1]] == [other["start"] for other in segments[1:]]
    assert 20 < segments[0]["end"] < 21
    assert 43 < segments[1]["end"] < 44
    assert verbose["timings"]["encode_cached"] == 0
    again = _post(http, timings="true", max_tokens="5").json()
    assert (again["text"], again["timings"]) == ("low high low", {"encode_ms": 0, "encode_cached": 3})
    assert again["usage"]["input_token_details"]["audio_tokens"] == 3 * 15
    translated = http.post("/v1/audio/translations", files={"file": ("a.wav", LONG)})  # deprecated in OpenAI's client
    assert translated.json()["text"] == "low high low"
    one = _post(http, wav(_noise(22, is_high=True))).json()
    assert one["text"] == "high"


def test_subtitles_have_the_times_of_the_cuts(http: httpx.Client) -> None:
    srt = _post(http, response_format="srt").text
    assert srt.startswith("1\n00:00:00,000 --> 00:00:20,")
    assert srt.endswith(" --> 00:00:56,000\nlow\n\n")
    vtt = _post(http, response_format="vtt")
    assert vtt.headers["content-type"].startswith("text/vtt")
    assert vtt.text.startswith("WEBVTT\n\n00:00:00.000 --> 00:00:20.")
    assert _post(http, response_format="text").text == "low high low\n"


def test_the_official_client_transcribes_and_streams(hearing: Sidecar) -> None:
    client = openai.OpenAI(base_url=f"{hearing.url}/v1", api_key=hearing.token, max_retries=0)
    (model,) = (each.id for each in client.models.list() if each.id.endswith("omni"))
    file = ("a.wav", LONG)
    assert client.audio.transcriptions.create(model=model, file=file, language="en").text == "low high low"
    verbose = client.audio.transcriptions.create(
        model=model, file=file, response_format="verbose_json", timestamp_granularities=["segment"]
    )
    assert [each.text for each in verbose.segments or ()] == ["low", "high", "low"]
    events = [*client.audio.transcriptions.create(model=model, file=file, stream=True)]
    assert "".join(event.delta for event in events if event.type == "transcript.text.delta") == "low high low"
    last = events[-1]
    assert last.type == "transcript.text.done"
    assert last.text == "low high low"


@pytest.mark.parametrize(
    ("fields", "data", "says"),
    [
        ({"timestamp_granularities[]": "word", "response_format": "verbose_json"}, LONG, "times of a word"),
        ({"stream": "true", "response_format": "srt"}, LONG, "mutually exclusive"),
        ({"response_format": "xml"}, LONG, "response_format"),
        ({"language": "en[/INST]"}, LONG, "language"),
        ({"temperature": "warm"}, LONG, "temperature"),
        ({}, b"", "file is empty"),
        ({}, SMALL, "no sound but a picture"),
        ({}, LONG[:30], "the sound"),
        ({}, b"RIFF" + b"\0" * 40, "the sound"),
    ],
)
def test_what_cannot_be_transcribed_is_refused_in_words(
    http: httpx.Client, fields: dict[str, str], data: bytes, says: str
) -> None:
    response = _post(http, data, **fields)
    assert response.status_code == 400, response.text
    assert says in response.json()["error"]["message"]


def test_silence_has_no_text_and_a_client_that_leaves_frees_the_slots(http: httpx.Client) -> None:
    assert _post(http, wav(np.zeros(32_000))).json()["text"] == ""
    with http.stream(
        "POST",
        "/v1/audio/transcriptions",
        files={"file": ("a.wav", LONG)},
        data={"stream": "true", "ignore_eos": "true", "max_tokens": "900"},
    ) as response:
        next(response.iter_bytes())
    assert _post(http).json()["text"] == "low high low"
    assert all(not slot["is_processing"] for slot in http.get("/slots").json())
