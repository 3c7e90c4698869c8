"""Pictures, sounds and files through the official clients of OpenAI, Anthropic and Ollama, whole and streamed."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from localllm.client.sidecar import Sidecar
from tests.documents.made import pdf
from tests.later import anthropic, ollama, openai
from tests.models.media import MediaModel, MediaModelKind
from tests.pictures import data_url, png, wav

MODEL = "tiny-omni"
GREEN = png(np.full((32, 32, 3), (0, 255, 0), np.uint8))
HIGH = wav(8000 * np.diff(np.random.default_rng(1).standard_normal(32_000), prepend=0))
PDF = base64.b64encode(pdf(["Hello there"])).decode()
TAKEN = "a.pdf, PDF, characters=11, pages=1 of 1"
IMAGE_TOKENS, AUDIO_TOKENS = 16, 15


@pytest.fixture(scope="module")
def server(home: Path, media_model: Callable[[MediaModelKind], MediaModel]) -> Iterator[Sidecar]:
    made = media_model("omni")
    with Sidecar.start([str(made.model), "--mmproj", str(made.projector), "--slots=2", "--ctx=2048"]) as sidecar:
        yield sidecar


def _user(*content: Any) -> Any:
    return [{"role": "user", "content": list(content)}]


def test_openais_client_sends_pictures_sounds_and_files_in_both_apis(server: Sidecar) -> None:
    bare = base64.b64encode(HIGH).decode()
    image = {"type": "image_url", "image_url": {"url": data_url(GREEN)}}
    sound = {"type": "input_audio", "input_audio": {"data": bare, "format": "wav"}}
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=server.token, max_retries=0) as client:
        chats, answers = client.chat.completions, client.responses
        for parts, said in (([image], "green"), ([sound], "high"), ([sound, image], "green")):
            made = chats.create(model=MODEL, messages=_user(*parts), temperature=0)
            assert made.choices[0].message.content == said
            assert made.usage is not None
            assert made.usage.prompt_tokens_details is not None
            details = made.usage.prompt_tokens_details.to_dict()
            assert details.get("audio_tokens", 0) == AUDIO_TOKENS * (sound in parts)
            assert details.get("image_tokens", 0) == IMAGE_TOKENS * (image in parts)
            chunks = chats.create(model=MODEL, messages=_user(*parts), temperature=0, stream=True)
            assert "".join(each.choices[0].delta.content or "" for each in chunks if each.choices) == said
        seen: Any = _user({"type": "input_image", "image_url": data_url(GREEN), "detail": "auto"})
        with answers.stream(model=MODEL, input=seen, temperature=0) as events:
            assert events.get_final_response().output_text == "green"
        assert answers.create(model=MODEL, input=_user(sound), temperature=0).output_text == "high"
        url = f"data:application/pdf;base64,{PDF}"
        file = {"type": "file", "file": {"filename": "a.pdf", "file_data": url}}
        read = chats.with_raw_response.create(model=MODEL, messages=_user(file), max_tokens=2)
        other = {"type": "input_file", "filename": "a.pdf", "file_data": url}
        asked = answers.with_raw_response.create(model=MODEL, input=_user(other), max_output_tokens=2)
        assert [each.headers["x-localllm-documents"] for each in (read, asked)] == [TAKEN] * 2
        vectors = client.embeddings.create(model=MODEL, input=[{"content": [image]}, "green"])  # type: ignore[arg-type]
        assert vectors.usage.to_dict()["prompt_tokens_details"] == {"image_tokens": IMAGE_TOKENS}


def test_anthropics_client_sends_pictures_and_documents(server: Sidecar) -> None:
    data = base64.b64encode(GREEN).decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    source = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    document = {"type": "document", "title": "a.pdf", "source": source}
    with anthropic.Anthropic(base_url=server.url, api_key=server.token, max_retries=0) as client:
        greedy: dict[str, Any] = {"model": MODEL, "max_tokens": 5, "extra_body": {"temperature": 0}}
        made = client.messages.create(messages=_user(image), **greedy)
        assert made.usage.to_dict()["image_tokens"] == IMAGE_TOKENS
        with client.messages.stream(messages=_user(image), **greedy) as stream:
            assert stream.get_final_text() == "green"
        counted = client.messages.count_tokens(model=MODEL, messages=_user(image)).to_dict()
        assert counted["image_tokens"] == IMAGE_TOKENS
        read = client.messages.with_raw_response.create(messages=_user(document), **greedy)
        assert read.headers["x-localllm-documents"] == TAKEN
        assert client.models.retrieve(MODEL).to_dict()["capabilities"]["image_input"]["supported"]  # type: ignore[index]


def test_ollamas_clients_send_pictures_and_sounds_as_bytes_paths_and_base64(server: Sidecar, tmp_path: Path) -> None:
    path = tmp_path / "green.png"
    path.write_bytes(GREEN)
    headers, greedy = {"authorization": f"Bearer {server.token}"}, {"temperature": 0.0}
    images = (GREEN, path, str(path), base64.b64encode(GREEN).decode())
    with ollama.Client(server.url, headers=headers, trust_env=False) as client:
        for each in images:
            made = client.chat(MODEL, [{"role": "user", "content": "What?", "images": [each]}], options=greedy)
            assert made.message.content == "green"
            assert client.generate(MODEL, "What?", images=[each], options=greedy).response == "green"
        parts = client.chat(MODEL, [{"role": "user", "content": "", "images": [HIGH]}], options=greedy, stream=True)
        assert "".join(part.message.content or "" for part in parts) == "high"
        capabilities = client.show(MODEL).capabilities or []
        assert {"vision", "audio"} <= set(capabilities)

    async def asked() -> Any:
        async with ollama.AsyncClient(server.url, headers=headers, trust_env=False) as client:
            made = await client.chat(MODEL, [{"role": "user", "content": "?", "images": [path]}], options=greedy)
            return made.message.content

    assert asyncio.run(asked()) == "green"
