"""Pictures and sounds through a real server and the Python library: what models see and hear, in every form, on every
kind of memory."""

from __future__ import annotations

import base64
import contextlib
import io
import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import pytest
from PIL import Image

from localllm import LLM
from localllm.client.sidecar import Sidecar
from localllm.errors import InvalidParameter
from localllm.types.load_options import LoadOptions
from tests.documents import made
from tests.homes import share_findings
from tests.later import anthropic, ollama, openai
from tests.models import families
from tests.models.media import COLORS, TEMPLATE, MediaModel, MediaModelKind
from tests.pictures import data_url, png, video, wav
from tests.waiting import until

MakeModel = Callable[[MediaModelKind], MediaModel]
GARBAGE = b"\x89PNG\r\n\x1a\n" + b"\0" * 100


def picture(color: str, size: int = 32) -> bytes:
    bits = COLORS.index(color)
    return png(np.full((size, size, 3), [255 * (bits >> bit & 1) for bit in range(3)], np.uint8))


def noise(is_high: bool) -> bytes:
    """White noise, or its running mean."""
    samples = np.random.default_rng(1).standard_normal(32_000)
    return wav(8000 * (np.diff(samples, prepend=0) if is_high else np.convolve(samples, np.ones(16) / 16, "same")))


def image_part(color: str, size: int = 32) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(picture(color, size))}}


@pytest.fixture(scope="module")
def seeing(home: Path, media_model: MakeModel) -> Iterator[Sidecar]:
    made = media_model("omni")
    with Sidecar.start([str(made.model), "--mmproj", str(made.projector), "--slots=2", "--ctx=2048"]) as sidecar:
        yield sidecar


@pytest.fixture(scope="module")
def http(seeing: Sidecar) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {seeing.token}"}
    with httpx.Client(base_url=seeing.url, headers=headers, trust_env=False, timeout=60) as client:
        yield client


def chat(http: httpx.Client, *messages: Any, **fields: Any) -> dict[str, Any]:
    turns = [each if isinstance(each, dict) else {"role": "user", "content": each} for each in messages]
    response = http.post("/v1/chat/completions", json={"messages": turns, "temperature": 0, "timings": True, **fields})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def text_of(answer: dict[str, Any]) -> str:
    text: str = answer["choices"][0]["message"]["content"]
    return text


def test_the_official_clients_get_one_answer_and_the_picture_is_encoded_once(
    seeing: Sidecar, http: httpx.Client
) -> None:
    first = chat(http, [image_part("green"), {"type": "text", "text": "What?"}])
    assert text_of(first) == "green"
    assert first["usage"]["prompt_tokens_details"]["image_tokens"] == 16
    assert first["timings"]["encode_ms"] > 0
    (model,) = (each["id"] for each in http.get("/v1/models").json()["data"] if each["id"].endswith("omni"))
    client = openai.OpenAI(base_url=f"{seeing.url}/v1", api_key=seeing.token)
    parts: list[Any] = [{"type": "text", "text": "Another question?"}, image_part("green")]
    made = client.chat.completions.create(model=model, messages=[{"role": "user", "content": parts}], temperature=0)
    assert made.choices[0].message.content == "green"
    with ollama.Client(seeing.url, headers={"authorization": f"Bearer {seeing.token}"}, trust_env=False) as ollamas:
        turn = {"role": "user", "content": "And here?", "images": [picture("green")]}
        assert ollamas.chat(model, [turn], options={"temperature": 0}).message.content == "green"
        bare = base64.b64encode(picture("green")).decode()
        assert ollamas.generate(model, "Here?", images=[bare], options={"temperature": 0}).response == "green"
    with anthropic.Anthropic(base_url=seeing.url, api_key=seeing.token, max_retries=0) as claude:
        _asked_as_claude_code(claude, model)
    _asked_as_codex(client, model)
    last = chat(http, {"role": "system", "content": "You are a pirate."}, [image_part("green")])
    assert (text_of(last), last["timings"]["encode_ms"], last["timings"]["encode_cached"]) == ("green", 0, 1)
    (media,) = (each["media"] for each in http.get("/localllm/ps").json()["models"])
    assert (media["pictures"], media["encoded_rows"], media["is_running"]) == (1, 16, True)
    assert (media["memory_rows"] > 0, media["cache_bytes"], media["restarts"]) == (True, 16 * 64 * 4, 0)


def _asked_as_claude_code(claude: anthropic.Anthropic, model: str) -> None:
    """In a user's turn, and in a tool's result."""
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(picture("green")).decode()}
    image = {"type": "image", "source": source}
    call = {"type": "tool_use", "id": "c", "name": "Read", "input": {"file_path": "a.png"}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": [image]}
    read = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    for turns in ([{"role": "user", "content": [image]}], [{"role": "user", "content": "Look."}, *read]):
        messages: Any = turns
        made = claude.messages.create(
            model=model, max_tokens=5, messages=messages, extra_body={"temperature": 0, "timings": True}
        ).to_dict()
        assert [block["text"] for block in made["content"]] == ["green"]  # type: ignore[attr-defined]
        assert (made["timings"]["encode_ms"], made["timings"]["encode_cached"]) == (0, 1)  # type: ignore[index]
        counted = claude.messages.count_tokens(model=model, messages=messages).input_tokens
        usage: Any = made["usage"]
        assert counted == usage["input_tokens"] + usage["cache_read_input_tokens"]


def _asked_as_codex(client: openai.OpenAI, model: str) -> None:
    """In a user's turn that a later one continues, and in a tool's result."""
    image = {"type": "input_image", "image_url": data_url(picture("green")), "detail": "auto"}
    question: Any = [{"role": "user", "content": [{"type": "input_text", "text": "What?"}, image]}]
    first = client.responses.create(model=model, input=question, temperature=0)
    assert first.output_text == "green"
    assert first.usage is not None
    assert first.usage.input_tokens_details.to_dict()["image_tokens"] == 16
    assert client.responses.input_tokens.count(model=model, input=question).input_tokens == first.usage.input_tokens
    again = client.responses.create(model=model, input="Sure?", previous_response_id=first.id, temperature=0)
    assert again.output_text == "green"
    returned: Any = [
        {"role": "user", "content": "Look."},
        {"type": "function_call", "call_id": "c", "name": "view_image", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [image]},
    ]
    made = client.responses.create(model=model, input=returned, temperature=0, extra_body={"timings": True}).to_dict()
    assert made["timings"]["encode_cached"] == 1  # type: ignore[index]
    assert client.responses.create(model=model, input=returned, temperature=0).output_text == "green"


def test_a_prompt_with_markers_is_the_chats_and_has_its_cache(http: httpx.Client) -> None:
    """As llama-server's clients send them; the prompt is the rendered conversation."""
    turn = {"role": "user", "content": [image_part("magenta"), {"type": "text", "text": "What?"}]}
    props, first = http.get("/props").json(), chat(http, turn)
    assert (props["modalities"]["vision"], props["modalities"]["audio"]) == (True, True)
    text = http.post("/apply-template", json={"messages": [turn]}).json()["prompt"]
    assert text.count(props["media_marker"]) == 1
    prompt = {"prompt_string": text, "multimodal_data": [base64.b64encode(picture("magenta")).decode()]}
    reply = http.post("/completion", json={"prompt": prompt, "temperature": 0}).json()
    assert (reply["content"], reply["image_tokens"]) == ("magenta", 16)
    assert reply["tokens_evaluated"] == first["usage"]["prompt_tokens"]
    assert (reply["timings"]["encode_ms"], reply["timings"]["encode_cached"]) == (0, 1)
    assert reply["timings"]["cache_n"] == reply["tokens_evaluated"] - 1
    made = http.post("/v1/completions", json={"prompt": [prompt, prompt], "temperature": 0}).json()
    assert [each["text"] for each in made["choices"]] == ["magenta"] * 2
    assert made["usage"]["prompt_tokens_details"]["image_tokens"] == 2 * 16
    broken = {"prompt_string": text, "multimodal_data": [base64.b64encode(GARBAGE).decode()]}
    refused = http.post("/completion", json={"prompt": broken})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "prompt.multimodal_data[0]")


def test_texts_with_pictures_have_vectors(http: httpx.Client) -> None:
    """Equal ones in every form, whatever is computed beside them; others for other pictures, and without."""

    def vectors(*items: Any, **fields: Any) -> list[list[float]]:
        response = http.post("/v1/embeddings", json={"input": list(items), **fields})
        assert response.status_code == 200, response.text
        return [each["embedding"] for each in response.json()["data"]]

    def item(color: str) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "What "}, image_part(color), {"type": "text", "text": "?"}]}

    marker = http.get("/props").json()["media_marker"]
    bare = base64.b64encode(picture("red")).decode()
    marked = {"prompt_string": f"What {marker}?", "multimodal_data": [bare]}
    sound = {"type": "input_audio", "input_audio": {"data": base64.b64encode(noise(True)).decode(), "format": "wav"}}
    found = vectors(item("red"), marked, item("green"), "What ?", {"content": [sound]}, "word " * 300)
    assert found[0] == found[1]
    assert len({tuple(each) for each in found}) == 5
    assert np.allclose(vectors(item("red"))[0], found[0], atol=1e-5)
    native = http.post("/embeddings", json={"content": [marked]}).json()
    assert np.allclose(native[0]["embedding"][0], found[0], atol=1e-5)
    answer = http.post("/v1/embeddings", json={"input": item("red")}).json()
    assert answer["usage"]["prompt_tokens"] == 16 + len("What ?")
    assert answer["usage"]["prompt_tokens_details"] == {"image_tokens": 16}
    part = {"type": "image_url", "image_url": {"url": data_url(GARBAGE)}}
    refused = http.post("/v1/embeddings", json={"input": ["a", {"content": [part]}]})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "input[1].content[0]"), refused.text
    long = {"content": [image_part("red"), {"type": "text", "text": "word " * 5000}]}
    assert http.post("/v1/embeddings", json={"input": long, "truncate": True}).json()["error"]["param"] == "input"


def test_pictures_and_sounds_are_told_apart_by_content_and_order(http: httpx.Client) -> None:
    assert text_of(chat(http, [image_part("red"), image_part("blue")])) == "blue"
    assert text_of(chat(http, [image_part("blue"), image_part("red")])) == "red"
    for is_high, heard in ((True, "high"), (False, "low")):
        data = base64.b64encode(noise(is_high)).decode()
        answer = chat(http, [{"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}])
        assert text_of(answer) == heard
        assert answer["usage"]["prompt_tokens_details"]["audio_tokens"] == 15
    assert text_of(chat(http, "Nothing <|image_pad|> here")) == "nothing"


def test_a_video_is_its_frames_in_order(http: httpx.Client) -> None:
    """The last one counts, see `tests.models.media`; seen again in another selection, none is encoded."""
    film = base64.b64encode(video([(255, 0, 0), (0, 255, 0), (0, 0, 255)])).decode()
    for part in (
        {"type": "input_video", "input_video": {"data": film, "format": "mp4"}},
        {"type": "video_url", "video_url": {"url": f"data:video/mp4;base64,{film}"}},
    ):
        answer = chat(http, [part, {"type": "text", "text": "What?"}])
        assert text_of(answer) == "blue"
        assert answer["usage"]["prompt_tokens_details"]["image_tokens"] == 3 * 16
    assert (answer["timings"]["encode_ms"], answer["timings"]["encode_cached"]) == (0, 3)
    turn = {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "data:;base64,AAAAGGZ0eXBpc29t"}}]}
    broken = http.post("/v1/chat/completions", json={"messages": [turn]})
    assert (broken.status_code, broken.json()["error"]["param"]) == (400, "messages[0].content[0]")


def test_the_next_turn_finds_the_picture_in_the_cache_and_answers_share_it(http: httpx.Client) -> None:
    question = {"role": "user", "content": [image_part("yellow"), {"type": "text", "text": "What color?"}]}
    two = chat(http, question, n=2)
    assert [each["message"]["content"] for each in two["choices"]] == ["yellow", "yellow"]
    counted = http.post("/v1/chat/completions/input_tokens", json={"messages": [question]}).json()["input_tokens"]
    assert 2 * counted in (two["usage"]["prompt_tokens"], 2 * two["usage"]["prompt_tokens"])
    again = chat(http, question, {"role": "assistant", "content": "yellow"}, "Sure?")
    assert text_of(again) == "yellow"
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] >= counted - 1


def test_pictures_of_equal_size_that_change_places_in_a_history_share_nothing_behind_the_first(
    http: httpx.Client,
) -> None:
    def asked(colors: tuple[str, str], **fields: Any) -> tuple[str, int]:
        turns = [
            {"role": "user", "content": [{"type": "text", "text": "Here is one picture."}, image_part(colors[0])]},
            {"role": "assistant", "content": "I see."},
            {"role": "user", "content": [{"type": "text", "text": "And another."}, image_part(colors[1])]},
        ]
        answer = chat(http, *turns, **fields)
        return text_of(answer), answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert asked(("magenta", "white"))[0] == "white"
    before = len("<|im_start|>user\nHere is one picture.") + 2
    text, cached = asked(("white", "magenta"))
    assert (text, cached <= before) == ("magenta", True)
    again = asked(("magenta", "white"))
    assert (again[0], again[1] > before + 16) == ("white", True)
    assert asked(("magenta", "white"), cache_salt="another's") == ("white", 0)


def test_a_picture_in_a_tools_result_is_seen(http: httpx.Client) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    turns = [
        {"role": "user", "content": "Look at it."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": [image_part("cyan")]},
    ]
    assert text_of(chat(http, *turns)) == "cyan"


class _Encoder(NamedTuple):
    """The process that encodes; none runs: 0."""

    pid: int
    cpu_s: float


def _encoder(server: Sidecar) -> _Encoder:
    found = [server.process.pid]
    with contextlib.suppress(OSError):  # one has just ended
        for pid in found:
            if b"encoder_child" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return _Encoder(pid, time.clock_gettime(~pid << 3 | 2))
            for task in Path("/proc").glob(f"{pid}/task/*/children"):
                found += map(int, task.read_text().split())
    return _Encoder(0, 0.0)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the encoder in /proc")
def test_an_encoder_killed_at_any_moment_harms_no_stream_and_no_answer_about_a_picture_that_is_being_written(
    seeing: Sidecar, http: httpx.Client
) -> None:
    """The request for whose picture it was computing may fail."""
    long: dict[str, Any] = {"temperature": 0, "ignore_eos": True, "max_tokens": 300}
    texts, is_over = list[str](), threading.Event()

    def write_all() -> None:
        while not is_over.is_set():
            texts.append(text_of(chat(http, "a", **long)))

    def seen(size: int) -> str:
        turn = {"role": "user", "content": [image_part("red", size)]}
        response = http.post("/v1/chat/completions", json={"messages": [turn], "temperature": 0})
        return text_of(response.json()) if response.status_code == 200 else response.json()["error"]["message"]

    def killed(idle_s: float = 0.0) -> None:
        """Once it has taken more CPU time."""
        until(lambda: _encoder(seeing).cpu_s > idle_s)
        pid = _encoder(seeing).pid
        os.kill(pid, signal.SIGKILL)
        until(lambda: _encoder(seeing).pid != pid)

    question: Any = [{"role": "user", "content": [image_part("red")]}]
    whole = text_of(chat(http, *question, **long))
    assert seen(33) == "red"
    with ThreadPoolExecutor(2) as threads, contextlib.ExitStack() as ending:
        beside = threads.submit(write_all)
        ending.callback(is_over.set)
        for size in (34, 35, 36):  # at work, and while it starts
            idle_s = _encoder(seeing).cpu_s
            asked = threads.submit(seen, size)
            killed(idle_s)
            answer = asked.result()
            assert answer == "red" or "was killed" in answer or "does not start" in answer
        assert [seen(size) for size in (34, 35, 36)] == ["red"] * 3
        with http.stream("POST", "/v1/chat/completions", json={"messages": question, "stream": True, **long}) as stream:
            pieces = (
                each["delta"].get("content") or ""
                for line in stream.iter_lines()
                if line.startswith("data: {")
                for each in json.loads(line[6:])["choices"]
            )
            begun = [*itertools.islice(pieces, 3)]
            killed()
            assert "".join([*begun, *pieces]) == whole
    beside.result()
    assert len(texts) > 1
    assert set(texts) == {texts[0]}


@pytest.mark.parametrize(
    "write",
    [
        families.write_hybrid,
        pytest.param(families.write_sliding_window, marks=pytest.mark.exhaustive),
        pytest.param(families.write_recurrent, marks=pytest.mark.exhaustive),
    ],
)
def test_every_memory_continues_behind_a_picture(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, media_model: MakeModel, write: Callable[..., Path]
) -> None:
    """In the next turn and after a restart, where the picture is neither decoded nor encoded again."""
    monkeypatch.setenv("LOCALLLM_HOME", str(tmp_path))
    share_findings(home, tmp_path)
    model = write(tmp_path / "m.gguf", chat_template=TEMPLATE)
    options = LoadOptions(mmproj=str(media_model("mlp").projector), ctx=512, kv_disk_mb=100)
    with LLM(model, slots=1, options=options) as llm:
        question: Any = [{"role": "user", "content": [picture("red"), "What is this, and what is behind it?"]}]
        first = llm.chat(question, temperature=0, max_tokens=5)
        usage = first.finish.usage
        assert usage.image_tokens == 16
        more: Any = [*question, first.message, {"role": "user", "content": "And?"}]
        second = llm.chat(more, temperature=0, max_tokens=5)
        assert second.finish.usage.cached_tokens >= usage.prompt_tokens - 20, "all but how the first turn ends"
        assert second.finish.timings.encode_s == 0
    with LLM(model, slots=1, options=options) as llm:
        restarted = llm.chat([*more, second.message, {"role": "user", "content": "So?"}], temperature=0, max_tokens=5)
        assert restarted.finish.usage.cached_tokens >= second.finish.usage.prompt_tokens - 20
        fresh = llm.chat(more, temperature=0, max_tokens=5, cache_prompt=False)
        assert fresh.text == second.text
        assert (fresh.finish.usage.cached_tokens, fresh.finish.timings.encode_s) == (0, 0)
        assert fresh.finish.timings.cached_encodes == 1
        assert llm.count_tokens(question) == usage.prompt_tokens


def _pdf(*colors: str) -> bytes:
    """A scan: each page is a picture alone."""
    pages = [Image.open(io.BytesIO(picture(color, 64))).convert("RGB") for color in colors]
    sink = io.BytesIO()
    pages[0].save(sink, "PDF", save_all=True, append_images=pages[1:])
    return sink.getvalue()


def test_scanned_pages_are_seen_and_a_pdf_sent_again_is_read_from_the_cache(http: httpx.Client) -> None:
    scan = data_url(_pdf("red", "blue"), "application/pdf")
    part = {"type": "file", "file": {"filename": "scan.pdf", "file_data": scan}}
    chosen = {"type": "file", "file": {"filename": "scan.pdf", "file_data": scan, "pages": "1"}}
    first = chat(http, [part, {"type": "text", "text": "What?"}])
    assert text_of(first) == "blue"
    details = first["usage"]["prompt_tokens_details"]
    assert (details["image_tokens"], details["document_pages"]) == (32, 2)
    assert text_of(chat(http, [chosen, {"type": "text", "text": "What?"}])) == "red"
    answer = {"role": "assistant", "content": text_of(first)}
    second = chat(http, [part, {"type": "text", "text": "What?"}], answer, "Again?")
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] > 32
    assert second["timings"]["encode_ms"] == 0


def test_the_library_reads_documents_from_paths_and_bytes(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("BMW is due.")
    with LLM("demo", slots=1) as llm:
        asked: Any = [{"role": "user", "content": [tmp_path / "notes.md", "What?"]}]
        answer = llm.chat(asked, max_tokens=2)
        assert answer.finish.usage.document_chars == len("BMW is due.")
        assert llm.count_tokens(asked) == answer.finish.usage.prompt_tokens
        part = {"type": "file", "file": {"file_data": made.pdf(["a", "b"]), "filename": "a.pdf", "pages": "2"}}
        paged = llm.chat([{"role": "user", "content": [part]}], max_tokens=2)
        assert (paged.finish.usage.document_pages, paged.finish.usage.document_pages_omitted) == (1, 1)
        with pytest.raises(InvalidParameter, match="is a broken PDF"):
            llm.chat([{"role": "user", "content": [b"%PDF-1.4\n\0broken"]}])
