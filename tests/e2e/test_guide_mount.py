"""The FastAPI application of the guide before a real uvicorn: its mount behaves as `localllm serve` does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e import guide
from tests.e2e.conftest import TIMEOUT_S
from tests.homes import share_findings
from tests.later import openai
from tests.waiting import line_with

KEY = "a-secret"
HELLO = {"role": "user", "content": "What can you do?"}


class Application:
    """`uvicorn chat_api:app` on a free port of its own choice."""

    def __init__(self, folder: Path, home: Path) -> None:
        guide.write(folder, "chat_api.py")
        # Settings of its own read no environment, so it takes this user's folder, which is another one for the test.
        data = folder / "data"
        (data / "localllm").mkdir(parents=True)
        share_findings(home, data / "localllm")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "chat_api:app", "--port", "0", "--timeout-graceful-shutdown", "1"],
            cwd=folder, env={**os.environ, "XDG_DATA_HOME": str(data)}, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        line = line_with(self.process, "Uvicorn running on")
        self.url = line.split(" running on ")[1].split()[0]
        self.http = httpx.Client(base_url=f"{self.url}/llm", timeout=20, trust_env=False)
        self.http.headers["authorization"] = f"Bearer {KEY}"

    def stop(self) -> str:
        """What it said at its end, and everybody else who has its stderr: the model's process."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            said = lines.read()
        self.process.wait(TIMEOUT_S)
        self.http.close()
        return said


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[Application]:
    application = Application(tmp_path_factory.mktemp("mounted"), home)
    yield application
    if application.process.poll() is None:
        application.stop()


def test_the_openai_client_streams_through_the_mount(application: Application) -> None:
    with openai.OpenAI(base_url=f"{application.url}/llm/v1", api_key=KEY) as client:
        assert [model.id for model in client.models.list()] == ["demo"]
        messages: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "What can you do?"}]
        stream = client.chat.completions.create(model="demo", messages=messages, stream=True)
        assert len("".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices).split()) > 3


def test_the_hosts_own_pages_need_no_key_and_the_mount_does(application: Application) -> None:
    assert httpx.get(application.url, trust_env=False).json() == {"chat": "/llm/"}
    with (
        openai.OpenAI(base_url=f"{application.url}/llm/v1", api_key="another") as client,
        pytest.raises(openai.AuthenticationError),
    ):
        client.models.list()
    assert httpx.get(f"{application.url}/v1/models", trust_env=False).status_code == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"host": "evil.example"}, 403), ({"origin": "http://evil.example"}, 403), ({}, 200)],
)
def test_hosts_and_origins_are_checked_under_the_mount_as_well(
    application: Application, headers: dict[str, str], status: int
) -> None:
    assert application.http.get("/v1/models", headers=headers).status_code == status


def test_what_answers_without_a_key_does_so_under_the_mount(application: Application) -> None:
    for path in ("/", "/health", "/ready", "/ui/main.js"):
        assert httpx.get(f"{application.url}/llm{path}", trust_env=False).status_code == 200, path
    assert httpx.get(f"{application.url}/llm", trust_env=False).headers["location"].endswith("/llm/")


def test_every_api_answers_errors_in_its_own_words_under_the_mount(application: Application) -> None:
    ollama = application.http.post("/api/chat", json={"model": "nothing", "messages": [HELLO]})
    anthropic = application.http.post("/v1/messages", json={"model": "nothing", "max_tokens": 1, "messages": [HELLO]})
    assert ollama.status_code == anthropic.status_code == 404
    assert isinstance(ollama.json()["error"], str)
    assert anthropic.json()["type"] == "error"
    assert "/v1/modals" in application.http.get("/v1/modals").json()["error"]["message"]


def test_the_openapi_document_names_the_mount(application: Application) -> None:
    document = application.http.get("/openapi.json")
    server = document.url.join(document.json()["servers"][0]["url"])
    assert str(server).rstrip("/") == f"{application.url}/llm"


def test_a_client_that_hangs_up_frees_its_slot(application: Application) -> None:
    """Of two: if they were not freed, the third answer would wait for those before it."""
    for _ in range(6):
        body = {"model": "demo", "messages": [HELLO], "stream": True, "ignore_eos": True}
        with application.http.stream("POST", "/v1/chat/completions", json=body) as stream:
            assert next(stream.iter_lines()).startswith("data: ")


def test_websockets_are_refused(application: Application) -> None:
    upgrade = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    response = application.http.get("/v1/models", headers={**upgrade, "sec-websocket-version": "13"})
    assert response.status_code in (200, 403)  # without a library for websockets uvicorn takes it for a request


def test_the_end_of_the_host_ends_streams_and_the_models_process(application: Application) -> None:
    with application.http.stream("GET", "/localllm/watch") as watching:
        assert next(watching.iter_lines())
        said = application.stop()
    assert "Traceback" not in said
    assert application.process.returncode in (0, -signal.SIGINT, 130)
