"""A server that loads what it is asked for: real models of a real store, in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from localllm.client.api import Client
from localllm.client.sidecar import Sidecar
from localllm.errors import ModelNotFound
from localllm.registry.disk.store import Store, now_text
from localllm.registry.listing import store_of
from localllm.registry.manifest import Manifest
from localllm.registry.names.model_names import parse
from localllm.types import Message, SamplingParams
from tests.e2e.conftest import Cli
from tests.homes import share_findings
from tests.later import openai
from tests.waiting import until

GREEDY = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
ASK = [Message("user", "Hi")]


@pytest.fixture(scope="module")
def data_dir(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    share_findings(home, folder)
    return folder


@pytest.fixture(scope="module")
def store(data_dir: Path, tiny_chat_model: Path) -> Store:
    """`first:1b` and `second:1b` are the same weights; the second begins every chat in its own way."""
    store = store_of(data_dir)
    file = store.add_file(tiny_chat_model, how="copy")
    plain = Manifest(name="first:1b", created_at=now_text(), files=(file,))
    store.put(plain)
    params = SamplingParams(temperature=0, max_tokens=5, ignore_eos=True)
    store.put(msgspec.structs.replace(plain, name="second:1b", system="Be brief.", params=params, ctx=256))
    return store


@pytest.fixture(scope="module")
def server(store: Store, data_dir: Path) -> Iterator[Sidecar]:
    options = [f"--home={data_dir}", "--threads=1", "--slots=2", "--log-level=info", "--max-loaded-models=1"]
    with Sidecar.start(options) as sidecar:
        yield sidecar


@pytest.fixture
def client(server: Sidecar) -> Iterator[Client]:
    with Client(server.url, server.token) as client:
        yield client


def text_of(client: Client, model: str, messages: list[Message], params: SamplingParams = GREEDY) -> str:
    return "".join(delta.text for delta in client.chat(model, messages, params))


def test_a_model_is_loaded_when_it_is_asked_for_and_makes_room_for_the_next(client: Client) -> None:
    assert {model.id for model in client.models()} == {"demo", "first:1b", "second:1b"}
    assert text_of(client, "first:1b", ASK)
    assert [process.model for process in client.processes()] == ["first:1b"]
    text_of(client, "second:1b", ASK)
    assert [process.model for process in client.processes()] == ["second:1b"]
    assert [model.id for model in client.models() if model.loaded] == ["second:1b"]


def test_what_a_manifest_sets_holds_where_the_request_says_nothing(server: Sidecar, client: Client) -> None:
    spelled_out = text_of(client, "first:1b", [Message("system", "Be brief."), *ASK])
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=server.token, max_retries=0) as official:
        answer = official.chat.completions.create(model="second:1b", messages=[{"role": "user", "content": "Hi"}])
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 5
    text = answer.choices[0].message.content
    assert text
    assert spelled_out.startswith(text)
    (loaded,) = [model for model in client.models() if model.loaded]
    assert loaded.ctx == 256


def test_a_keep_alive_of_zero_unloads_after_the_answer(server: Sidecar, client: Client) -> None:
    headers = {"authorization": f"Bearer {server.token}"}
    body = {"model": "first:1b", "prompt": "x", "max_tokens": 2, "keep_alive": 0}
    assert httpx.post(f"{server.url}/v1/completions", json=body, headers=headers, timeout=60).status_code == 200
    until(lambda: client.processes() == [])


def test_loading_ahead_and_stopping(client: Client) -> None:
    fractions: list[float] = []
    assert client.load("first:1b", fractions.append) == "first:1b"
    assert fractions[-1] == 1.0
    client.unload("first:1b")
    assert client.processes() == []


@pytest.fixture
def named(store: Store) -> Iterator[Callable[[str], None]]:
    """Gives `first:1b` another name for a while."""
    names: list[str] = []

    def name(new: str) -> None:
        store.copy(parse("first:1b"), parse(new))
        names.append(new)

    yield name
    there = {manifest.name for manifest in store.list()}
    for new in there & {*names}:
        store.remove(parse(new))


def test_latest_is_the_same_model_and_the_same_process_as_the_name_without_it(
    server: Sidecar, client: Client, named: Callable[[str], None], data_dir: Path
) -> None:
    named("plain")
    assert client.load("plain:latest") == "plain"
    (loaded,) = client.processes()
    assert text_of(client, "plain:latest", ASK) == text_of(client, "plain", ASK)
    assert [(process.model, process.pid) for process in client.processes()] == [("plain", loaded.pid)]
    assert client.model("plain:latest").id == "plain"
    headers = {"authorization": f"Bearer {server.token}"}
    for action, status in (("load", 400), ("unload", 200), ("load", 200)):
        url = f"{server.url}/models/{action}"
        asked = httpx.post(url, json={"model": "plain:latest"}, headers=headers)
        assert asked.status_code == status, f"{action}: {asked.text}"
    assert text_of(client, "plain:latest", ASK)
    client.unload("plain:latest")
    assert client.processes() == []
    assert text_of(client, "plain:latest", ASK)
    client.remove("plain:latest")
    assert client.processes() == [], "it is unloaded before it is removed"
    assert store_of(data_dir).find(parse("plain")) is None


def test_a_model_of_ones_own_may_be_called_as_one_of_the_catalog(client: Client, named: Callable[[str], None]) -> None:
    named("qwen3")
    assert text_of(client, "qwen3", ASK)
    assert [process.model for process in client.processes()] == ["qwen3"]
    client.unload("qwen3")


def test_what_is_not_here_says_how_to_get_it(client: Client) -> None:
    for name, hint in (("qwen3:0.6b", "localllm pull qwen3:0.6b"), ("frist:1b", "no model is called")):
        with pytest.raises(ModelNotFound, match=hint):
            text_of(client, name, ASK)


def test_no_path_is_a_name_over_http(client: Client, tiny_chat_model: Path) -> None:
    there, missing = str(tiny_chat_model), "/nothing/there.gguf"
    messages = []
    for path in (there, missing):
        with pytest.raises(ModelNotFound) as error:
            text_of(client, path, ASK)
        messages.append(error.value.message.replace(path, "PATH"))
    assert messages[0] == messages[1], "it would tell which files there are"


def test_gc_leaves_what_is_loaded_even_if_it_was_removed(
    client: Client, store: Store, cli: Cli, data_dir: Path
) -> None:
    """Its bytes go when it is unloaded, since no name has them any more."""
    store.copy(parse("first:1b"), parse("third:1b"))
    client.load("third:1b")
    there = store.find(parse("first:1b"))
    assert there is not None
    blob = store.blob_path(there.files[0].digest)
    content = blob.read_bytes()
    removed = [store.remove(parse(name)) for name in ("first:1b", "second:1b", "third:1b")]
    try:
        done = cli("gc", f"--home={data_dir}", "--json")
        assert done.returncode == 0, done.stderr
        assert text_of(client, "third:1b", ASK), "its file is still there"
        assert blob.exists()
        client.unload("third:1b")
        until(lambda: not blob.exists())  # large files take time, which the unload does not wait for
    finally:
        blob.write_bytes(content)
        for manifest in removed[:2]:
            store.put(manifest)
