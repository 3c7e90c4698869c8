"""What is made for Ollama, against a real server: its client for Node, LangChain, what Open WebUI and Continue send."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from localllm.client.sidecar import Sidecar
from tests.homes import share_findings
from tests.models.maker import write_llama

GREEDY: Any = {"temperature": 0.0, "seed": 1, "num_predict": 200}


@pytest.fixture(scope="module")
def sidecar(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    folder = tmp_path_factory.mktemp("apps")
    share_findings(home, folder)
    with Sidecar.start(["--slots=2"], home=folder) as sidecar:
        yield sidecar


@pytest.fixture(scope="module")
def http(sidecar: Sidecar) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {sidecar.token}", "content-type": "application/json"}
    with httpx.Client(base_url=sidecar.url, headers=headers, timeout=60, trust_env=False) as client:
        yield client


def test_the_client_for_node_takes_this_for_ollama(sidecar: Sidecar, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node")
    if subprocess.run([node, "-e", 'require("ollama")'], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the ollama package of npm; NODE_PATH names the folder that holds it")
    file = write_llama(tmp_path / "tiny.gguf")
    digest = f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
    script = Path(__file__).with_name("node_ollama.js")
    command = [node, str(script), sidecar.url, sidecar.token, str(file), digest]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "all is well\n", done.stderr


Make = Callable[..., Any]


@pytest.fixture
def langchain(sidecar: Sidecar) -> Iterator[Make]:
    """Makes LangChain's objects for this server, and closes what they leave open."""
    with contextlib.ExitStack() as clients:

        def make(kind: Any, **more: Any) -> Any:
            headers = {"headers": {"authorization": f"Bearer {sidecar.token}"}, "trust_env": False}
            made = kind(model="demo", base_url=sidecar.url, client_kwargs=headers, **more)
            clients.callback(made._client.close)
            return made

        yield make


def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return json.dumps({"temperature": 19, "sky": "cloudy", "city": city})


class Person(BaseModel):
    name: str
    age: int


def test_langchains_chat_streams_thinks_calls_tools_and_keeps_a_schema(langchain: Make) -> None:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_ollama import ChatOllama

    model = langchain(ChatOllama, reasoning=False, **GREEDY)
    whole = model.invoke("Hello!")
    pieces = [piece.content for piece in model.stream("Hello!")]
    assert whole.content == "".join(map(str, pieces))
    assert whole.usage_metadata is not None
    assert whole.usage_metadata["output_tokens"] > 0
    thinking = langchain(ChatOllama, reasoning=True, **GREEDY).invoke("Hello!")
    assert thinking.additional_kwargs["reasoning_content"]
    asked: list[Any] = [HumanMessage("What is the weather in Paris?")]
    with_tools = model.bind_tools([weather := tool(get_weather)])
    call = with_tools.invoke(asked)
    assert isinstance(call, AIMessage)
    assert [(each["name"], each["args"]) for each in call.tool_calls] == [("get_weather", {"city": "Paris"})]
    result = weather.invoke(call.tool_calls[0])
    assert isinstance(result, ToolMessage)
    assert with_tools.invoke([*asked, call, result]).content
    person = model.with_structured_output(Person, method="json_schema").invoke("Who are you? Answer in JSON.")
    assert isinstance(person, Person)


def test_langchains_plain_prompts_and_embeddings_work(langchain: Make) -> None:
    from langchain_ollama import OllamaEmbeddings, OllamaLLM

    answer = langchain(OllamaLLM, reasoning=False, **GREEDY).invoke("Hello!")
    assert answer
    vectors = langchain(OllamaEmbeddings).embed_documents(["a cat", "a dog"])
    assert len(vectors) == 2


def posted(http: httpx.Client, path: str, body: dict[str, Any], headers: dict[str, str]) -> list[Any]:
    response = http.post(path, content=json.dumps(body).encode(), headers=headers)
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


OPEN_WEBUI = {
    "X-OpenWebUI-User-Name": "Ada%20L",
    "X-OpenWebUI-User-Id": "7b1c",
    "X-OpenWebUI-User-Email": "ada@example.org",
    "X-OpenWebUI-User-Role": "admin",
}


def test_what_open_webui_sends_is_understood(http: httpx.Client) -> None:
    """The shapes of backend/open_webui/routers/ollama.py and utils/payload.py."""
    version = http.get("/api/version", headers=OPEN_WEBUI).json()["version"]
    assert re.sub(r"^v|-.*", "", version).split(".")
    listed = http.get("/api/tags", headers=OPEN_WEBUI).json()["models"]
    assert {"name", "model", "size", "digest", "details", "modified_at"} <= set(listed[0])
    chat = {
        "model": "demo:latest",
        "messages": [{"role": "user", "content": "Hello!"}],
        "options": {"temperature": 0.0, "num_ctx": 2048, "num_keep": 4, "num_batch": 512, "num_thread": 2,
                    "use_mmap": True, "use_mlock": False, "repeat_last_n": 64, "tfs_z": 1.0, "num_gpu": 0},
        "stream": True,
        "keep_alive": "5m",
    }  # fmt: skip
    lines = posted(http, "/api/chat", chat, {**OPEN_WEBUI, "X-OpenWebUI-Chat-Id": "c1"})
    assert "".join(line["message"]["content"] for line in lines)
    assert lines[-1]["done"]
    assert lines[-1]["eval_duration"] > 0
    title = {
        "model": "demo:latest",
        "messages": [{"role": "user", "content": "### Task: a title as JSON"}],
        "stream": False,
        "options": {"num_predict": 50},
        "format": "json",
    }
    (titled,) = posted(http, "/api/chat", title, OPEN_WEBUI)
    assert titled["done"]
    shown = posted(http, "/api/show", {"name": "demo:latest", "model": "demo:latest"}, OPEN_WEBUI)[0]
    assert shown["model_info"]["general.architecture"] == "llama"
    running = http.get("/api/ps", headers=OPEN_WEBUI).json()["models"]
    assert "expires_at" in running[0]
    embedded = {"model": "demo:latest", "input": ["one", "two"], "truncate": True}
    assert len(posted(http, "/api/embed", embedded, OPEN_WEBUI)[0]["embeddings"]) == 2
    pulled = posted(http, "/api/pull", {"model": "demo", "name": "demo", "insecure": True}, OPEN_WEBUI)
    assert pulled[-1] == {"status": "success"}
    unload = {"model": "demo:latest", "keep_alive": 0, "prompt": ""}
    assert posted(http, "/api/generate", unload, OPEN_WEBUI)[-1]["done_reason"] == "unload"


def test_what_open_webui_uploads_becomes_a_model(http: httpx.Client, tmp_path: Path) -> None:
    file = write_llama(tmp_path / "Stable-3b.Q2_K.gguf")
    digest = f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
    with file.open("rb") as content:
        sent = http.post(f"/api/blobs/{digest}", content=content)
    assert sent.is_success
    name = file.name.removesuffix(".gguf")
    made = posted(http, "/api/create", {"model": name, "files": {file.name: digest}}, {})
    assert made[-1] == {"status": "success"}
    assert "stable-3b.q2_k:latest" in [model["name"] for model in http.get("/api/tags").json()["models"]]
    (told,) = posted(http, "/api/show", {"model": name}, {})
    assert told["details"]["format"] == "gguf"
    assert http.request("DELETE", "/api/delete", content=json.dumps({"model": name})).status_code == 200


def test_what_continue_sends_is_understood(http: httpx.Client) -> None:
    """The shapes of core/llm/llms/Ollama.ts: numbers for keep_alive, no stream with tools, lines split by hand."""
    (shown,) = posted(http, "/api/show", {"name": "demo"}, {})
    for line in shown.get("parameters", "").splitlines():
        assert re.match(r'^(\S+)\s+((?:".*")|\S+)$', line), "it reads the parameters so"
    options = {"temperature": 0.0, "num_predict": 40, "stop": ["<|endoftext|>"], "num_ctx": 2048}
    body = {"model": "demo", "options": options, "keep_alive": 1800, "stream": True}
    chat = posted(http, "/api/chat", body | {"messages": [{"role": "user", "content": "Hello!"}]}, {})
    assert "".join(line["message"]["content"] for line in chat)
    assert {line["message"]["role"] for line in chat} == {"assistant"}
    completed = posted(http, "/api/generate", body | {"prompt": "def add(a, b):", "raw": True}, {})
    assert all(isinstance(line["response"], str) for line in completed)
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = [{"type": "function", "function": {"name": "get_weather", "description": "Weather.", "parameters": city}}]
    asked = [{"role": "user", "content": "What is the weather in Paris?"}]
    (called,) = posted(http, "/api/chat", body | {"messages": asked, "tools": tools, "stream": False}, {})
    (call,) = called["message"]["tool_calls"]
    assert call["function"]["arguments"] == {"city": "Paris"}
    assert len(posted(http, "/api/embed", {"model": "demo", "input": ["x"]}, {})[0]["embeddings"]) == 1
