"""Sounds become texts through a real server: every format, streamed, cut at silences, and what is refused; and through
the command that uses it."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from localllm import LLM, InvalidParameter, Sidecar, TranscriptSegment
from localllm.cli.app import run_app
from tests.documents.made import pdf
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
MOST_BYTES = 2_600_000


@pytest.fixture(scope="module")
def hearing(home: Path, media_model: MakeModel) -> Iterator[Sidecar]:
    made = media_model("omni")
    options = ["--mmproj", str(made.projector), "--slots=2", "--ctx=1024", f"--max-media-bytes={MOST_BYTES}"]
    with Sidecar.start([str(made.model), *options]) as sidecar:
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
    one = _post(http, wav(_noise(22, is_high=True)), logit_bias='{"0": 1}').json()
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


def test_parts_answered_side_by_side_have_the_texts_that_each_has_alone(http: httpx.Client) -> None:
    fields = {"response_format": "verbose_json", "timings": "true"}
    rows = [HIGH[: 16 * 16_000], PAUSE, LOW, PAUSE, LOW[: 18 * 16_000], PAUSE, HIGH]
    samples = np.concatenate(rows)
    segments = _post(http, wav(samples), **fields).json()["segments"]
    assert [segment["text"] for segment in segments] == ["high", "low", "low", "high"]
    for segment in segments:
        alone = wav(samples[round(16_000 * segment["start"]) : round(16_000 * segment["end"])])
        assert _post(http, alone, **fields).json()["text"] == segment["text"]
    again = _post(http, wav(samples), **fields).json()
    assert (again["segments"], again["timings"]) == (segments, {"encode_ms": 0, "encode_cached": 4})


def test_a_part_that_ended_at_its_limit_is_said_to_be_incomplete(http: httpx.Client) -> None:
    warnings = [
        f"the text of {part} is incomplete: the limit of tokens was reached (max_tokens)"
        for part in ("00:00:00 to 00:00:20", "00:00:20 to 00:00:43", "00:00:43 to 00:00:56")
    ]
    for format in ("json", "verbose_json", "text"):
        cut = _post(http, max_tokens="1", response_format=format)
        assert cut.headers["x-localllm-truncated"] == "3"
        if format != "text":
            assert cut.json()["localllm"]["warnings"] == warnings
    assert [
        each["finish_reason"] for each in _post(http, max_tokens="1", response_format="verbose_json").json()["segments"]
    ] == 3 * ["length"]
    whole = _post(http)
    assert "localllm" not in whole.json()
    assert "x-localllm-truncated" not in whole.headers


def test_a_stream_with_verbose_json_has_the_times_of_each_part_as_soon_as_it_is_whole(http: httpx.Client) -> None:
    fields = {"stream": "true", "response_format": "verbose_json", "max_tokens": "1"}
    for path in ("transcriptions", "translations"):
        lines = http.post(f"/v1/audio/{path}", files={"file": ("a.wav", LONG)}, data=fields).text.splitlines()
        *events, done = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
        kinds = [event["type"].rpartition(".")[2] for event in events]
        assert kinds == 3 * ["delta", "segment"]
        segments = [event for event in events if event["type"] == "transcript.text.segment"]
        assert done["segments"] == [
            {name: value for name, value in each.items() if name != "type"} for each in segments
        ]
        assert [(each["text"], each["finish_reason"]) for each in segments] == [
            (word, "length") for word in ("low", "high", "low")
        ]
        assert (done["type"], done["text"], done["duration"]) == ("transcript.text.done", "low high low", 56)
        assert len(done["localllm"]["warnings"]) == 3


@pytest.mark.parametrize(
    ("fields", "data", "says"),
    [
        ({}, bytes(MOST_BYTES + 1), f"at most {MOST_BYTES} are read (max_media_bytes)"),
        ({"model": "demo"}, LONG, "demo cannot hear audio; these models on this machine do: "),
        ({"include[]": "logprobs"}, LONG, "include is not supported: log-probabilities"),
        ({"known_speaker_names[]": "Ada"}, LONG, "known_speaker_names is not supported: speakers"),
        ({"known_speaker_references[]": "data:,"}, LONG, "known_speaker_references is not supported: speakers"),
        ({"timestamp_granularities[]": "segment"}, LONG, "needs response_format verbose_json"),
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
    assert response.status_code == (413 if len(data) > MOST_BYTES else 400), response.text
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


Transcribe = Callable[..., int]


@pytest.fixture
def transcribe(hearing: Sidecar, monkeypatch: pytest.MonkeyPatch) -> Transcribe:
    """`localllm transcribe` in this process, with the running server."""
    monkeypatch.setenv("LOCALLLM_PORT", hearing.url.rpartition(":")[2])
    monkeypatch.setenv("LOCALLLM_API_KEY", hearing.token)

    def run(*args: str | Path, stdin: bytes = b"") -> int:
        monkeypatch.setattr(sys, "argv", ["localllm", "transcribe", *map(str, args)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        return run_app()

    return run


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "talk.wav").write_bytes(LONG)
    (file := tmp_path / "talk.wav").write_bytes(LONG)
    return file


def test_the_command_writes_a_line_for_each_part(
    transcribe: Transcribe, talk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert transcribe(talk) == 0
    assert capsys.readouterr() == ("low\nhigh\nlow\n", "")
    assert transcribe("-", "--format", "json", "--language", "de", "--translate", stdin=LONG) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["file"], made["text"], made["usage"]["audio_tokens"]) == ("-", "low high low", 45)
    assert transcribe(talk, "--format", "verbose_json", "--max-tokens", "1") == 0
    out, err = capsys.readouterr()
    assert [each["finish_reason"] for each in json.loads(out)["segments"]] == 3 * ["length"]
    assert err.splitlines() == [
        f"localllm: {talk}: the text of {part} is incomplete: the limit of tokens was reached (max_tokens)"
        for part in ("00:00:00 to 00:00:20", "00:00:20 to 00:00:43", "00:00:43 to 00:00:56")
    ]


def test_the_command_writes_files_and_goes_on_behind_one_that_fails(
    transcribe: Transcribe, talk: Path, http: httpx.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = talk.parent
    (folder / "broken.mp3").write_bytes(b"ID3" + bytes(500))
    assert transcribe(folder / "broken.mp3", talk, "--format", "vtt", "--output", folder / "made") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"localllm: {folder / 'broken.mp3'}: the sound is of no format")
    assert [each.name for each in (folder / "made").iterdir()] == ["talk.vtt"]
    assert (folder / "made" / "talk.vtt").read_text() == _post(http, response_format="vtt").text
    assert transcribe(talk, "--output", folder / "talk.srt") == 0
    assert (folder / "talk.srt").read_text() == _post(http, response_format="srt").text
    (folder / "large.wav").write_bytes(bytes(MOST_BYTES + 1))
    assert transcribe(folder / "large.wav", talk, "--output", folder) == 2
    assert f"the running server reads at most {MOST_BYTES:,} (max_media_bytes)" in capsys.readouterr().err
    assert transcribe(talk, folder / "broken.mp3") == 2
    assert capsys.readouterr().out == f"==> {talk} <==\nlow\nhigh\nlow\n\n==> {folder / 'broken.mp3'} <==\n"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["gone.wav"], "gone.wav cannot be read: No such file or directory"),
        (["talk.wav", "--model", "demo"], "demo cannot hear audio; these models here do: "),
        (["talk.wav", "-", "-"], "- is given twice"),
        (["talk.wav", "-", "--format", "srt"], "need files of their own: --output DIR"),
        (["talk.wav", "--output", "talk.wav"], "would overwrite a sound"),
        (["talk.wav", "other/talk.wav", "--output", "made"], "would both be written to"),
        (["talk.wav", "--output", "talk.wav/x.txt"], "--output cannot be written"),
    ],
)
def test_the_command_refuses_before_a_model_is_asked(
    transcribe: Transcribe,
    talk: Path,
    args: list[str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(talk.parent)
    assert transcribe(*args) == 2
    assert says in capsys.readouterr().err


def test_without_a_model_that_hears_the_command_says_how_to_get_one(
    transcribe: Transcribe,
    talk: Path,
    home: Path,
    media_model: MakeModel,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LOCALLLM_PORT", "0")
    assert transcribe(talk) == 2
    assert "no model on this machine hears; localllm pull voxtral downloads one that does" in capsys.readouterr().err
    assert transcribe(talk, "--model", media_model("mlp").model) == 2
    assert "cannot hear audio; localllm pull voxtral" in capsys.readouterr().err


def test_a_python_program_gets_segments_as_they_are_whole_and_the_transcript(
    media_model: MakeModel, tmp_path: Path
) -> None:
    made, segments = media_model("omni"), list[TranscriptSegment]()
    (tmp_path / "talk.wav").write_bytes(LONG)
    with LLM(made.model, mmproj=made.projector, slots=2, ctx=1024) as llm:
        transcript = llm.transcribe(tmp_path / "talk.wav", language="de", on_segment=segments.append)
        assert (transcript.text, transcript.duration_s, transcript.warnings) == ("low high low", 56, [])
        assert transcript.segments == tuple(segments)
        assert transcript.vtt.startswith("WEBVTT\n\n00:00:00.000 --> 00:00:20.")
        assert transcript.usage.audio_tokens == 45
        cut = llm.transcribe(LONG, translate=True, max_tokens=1)
        assert [segment.cut_short for segment in cut.segments] == 3 * ["max_tokens"]
        calls: tuple[tuple[str, Callable[[], object]], ...] = (
            ("sound", lambda: llm.transcribe(3)),  # type: ignore[arg-type]
            ("sound", lambda: llm.transcribe(tmp_path / "gone.wav")),
            ("sound", lambda: llm.transcribe(SMALL)),
            ("language", lambda: llm.transcribe(LONG, language="en[/INST]")),
            ("prompt", lambda: llm.transcribe(LONG, prompt=3)),  # type: ignore[arg-type]
            ("on_segment", lambda: llm.transcribe(LONG, on_segment=3)),  # type: ignore[arg-type]
        )
        for param, call in calls:
            with pytest.raises(InvalidParameter) as refused:
                call()
            assert refused.value.param == param


def test_the_official_clients_for_node_send_sounds_and_documents(hearing: Sidecar, talk: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node")
    (talk.parent / "high.wav").write_bytes(wav(HIGH))
    (talk.parent / "note.pdf").write_bytes(pdf(["Hello there"]))
    script = Path(__file__).with_name("node_media.js")
    done = subprocess.run(
        [node, str(script), hearing.url, hearing.token, "tiny-omni", str(talk.parent)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "Cannot find module" in done.stderr:
        pytest.skip("needs openai and @anthropic-ai/sdk of npm; NODE_PATH names the folder that holds them")
    assert done.stdout == "all is well\n", done.stderr
