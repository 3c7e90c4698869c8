"""Adapters by name in every dialect, on the demo and its pirate: one worker serves all names of a model."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from localllm import LLM, InvalidParameter, ModelNotFound
from localllm.client.api import Client
from localllm.client.sidecar import Sidecar
from localllm.gguf.control_vectors import write_control_vector
from localllm.gguf.info import read_model_info
from localllm.registry.resolve import carried
from localllm.types.states import AdapterStatus
from tests.models.activated import write_activated

PIRATE = carried("demo-pirate-lora.gguf")
ASK = [{"role": "user", "content": "What can you do?"}]


@pytest.fixture(scope="module")
def server() -> Iterator[Sidecar]:
    with Sidecar.start(["demo", f"--lora=sailor={PIRATE}", "--threads=1", "--slots=4"]) as sidecar:
        yield sidecar


@pytest.fixture
def http(server: Sidecar) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {server.token}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60, trust_env=False) as http:
        yield http


def openai(http: httpx.Client, model: str) -> str:
    body = {"model": model, "messages": ASK, "max_tokens": 40, "temperature": 0}
    reply = http.post("/v1/chat/completions", json=body)
    assert reply.status_code == 200, reply.text
    assert reply.json()["model"] == model
    return str(reply.json()["choices"][0]["message"]["content"])


def anthropic(http: httpx.Client, model: str) -> str:
    body = {"model": model, "messages": ASK, "max_tokens": 40, "temperature": 0}
    return str(http.post("/v1/messages", json=body).json()["content"][0]["text"])


def ollama(http: httpx.Client, model: str) -> str:
    options = {"temperature": 0, "num_predict": 40}
    reply: Any = http.post("/api/chat", json={"model": model, "messages": ASK, "stream": False, "options": options})
    return str(reply.json()["message"]["content"])


def test_every_dialect_knows_the_names_and_one_worker_answers(server: Sidecar, http: httpx.Client) -> None:
    plain, pirate = openai(http, "demo"), openai(http, "demo+pirate")
    assert "Arr" in pirate or "Ahoy" in pirate
    assert plain != pirate
    assert openai(http, "sailor") == pirate, "the same file"
    assert openai(http, "demo+pirate:0") == plain
    assert openai(http, "demo") == plain, "the cache of one set is not used by another"
    for dialect in (anthropic, ollama):
        assert dialect(http, "demo+pirate") == pirate
        assert dialect(http, "sailor") == pirate
        assert dialect(http, "demo") == plain
    assert ollama(http, "sailor:latest") == pirate
    with Client(server.url, server.token) as client:
        (process,) = client.processes()
        assert isinstance(process.adapters, AdapterStatus)
        assert (process.adapters.loaded, process.adapter_bytes) == (1, process.adapters.loaded_bytes)
        assert 200_000 < process.adapters.loaded_bytes < PIRATE.stat().st_size
        assert process.adapters.switches >= 4
        assert client.load("sailor") == "sailor"


def test_lists_show_the_names_with_their_base(http: httpx.Client) -> None:
    listed = {model["id"]: model for model in http.get("/v1/models").json()["data"]}
    assert (listed["sailor"]["parent"], listed["sailor"]["root"], listed["sailor"]["loaded"]) == ("demo", "demo", True)
    assert "parent" not in listed["demo"]
    assert http.get("/v1/models/demo+pirate").json()["parent"] == "demo"
    assert "sailor:latest" in [model["name"] for model in http.get("/api/tags").json()["models"]]


def test_an_adapter_that_the_model_does_not_have_is_named(http: httpx.Client) -> None:
    body = {"model": "demo+poet", "messages": ASK, "max_tokens": 4}
    reply = http.post("/v1/chat/completions", json=body)
    assert reply.status_code == 404
    reply = http.post("/v1/embeddings", json={"model": "sailor", "input": "x"})
    assert reply.status_code == 400
    assert "embed with demo" in reply.text


def test_llama_servers_requests_name_adapters_by_number(http: httpx.Client) -> None:
    known = http.get("/lora-adapters").json()
    assert [(each["id"], each["path"], each["scale"]) for each in known] == [(0, "sailor", 0.0), (1, "pirate", 0.0)]
    plain, pirate = openai(http, "demo"), openai(http, "sailor")

    def said(*lora: dict[str, float], model: str = "demo") -> str:
        body = {"model": model, "messages": ASK, "max_tokens": 40, "temperature": 0, "lora": lora}
        reply = http.post("/v1/chat/completions", json=body)
        return str(reply.json()["choices"][0]["message"]["content"])

    assert said({"id": 0, "scale": 1.0}) == said({"id": 1, "scale": 1.0}) == pirate
    assert said({"id": 0, "scale": 0.0}, model="sailor") == said(model="sailor") == plain
    wrong = http.post("/completion", json={"model": "demo", "prompt": "x", "lora": [{"id": 2, "scale": 1.0}]})
    assert wrong.status_code == 400
    assert "the ids 0 to 1" in wrong.text
    assert http.post("/lora-adapters", json=[{"id": 1, "scale": 1.0}]).status_code == 200
    try:
        assert openai(http, "demo") == pirate
        assert openai(http, "demo+sailor:0") == plain
        assert http.get("/lora-adapters").json()[1]["scale"] == 1.0
    finally:
        http.post("/lora-adapters", json=[])
    assert openai(http, "demo") == plain


def test_vllms_clients_load_and_unload_registered_names(http: httpx.Client) -> None:
    assert http.post("/v1/unload_lora_adapter", json={"lora_name": "sailor"}).status_code == 200
    assert "sailor" not in [model["id"] for model in http.get("/v1/models").json()["data"]]
    assert http.post("/v1/load_lora_adapter", json={"lora_name": "sailor", "lora_path": "sailor"}).status_code == 200
    assert "sailor" in [model["id"] for model in http.get("/v1/models").json()["data"]]
    path = http.post("/v1/load_lora_adapter", json={"lora_name": "x", "lora_path": str(PIRATE)})
    assert path.status_code == 400


def test_a_program_gives_names_and_files(home: Path) -> None:
    def said(**given: Any) -> str:
        with LLM("demo", threads=1, slots=1, home=home, **given) as llm:
            return llm.chat(ASK, temperature=0, max_tokens=40).text

    plain, pirate = said(), said(adapters="pirate")
    assert "Arr" in pirate or "Ahoy" in pirate
    assert said(adapters=[f"{PIRATE}:0"]) == plain
    with LLM("demo+pirate", threads=1, slots=1, home=home) as llm:
        assert llm.chat(ASK, temperature=0, max_tokens=40).text == pirate
        for given, text in (([], plain), ("pirate:0", plain), (f"x={PIRATE}", pirate), ("x:0", plain), (None, pirate)):
            assert llm.chat(ASK, temperature=0, max_tokens=40, adapters=given).text == text, given
        with pytest.raises(ModelNotFound, match="no adapter called 'poet'"):
            llm.complete("x", adapters=["poet"])
    with pytest.raises(ModelNotFound, match="no adapter called 'poet'"):
        said(adapters="poet")
    with pytest.raises(InvalidParameter, match="adapters takes"):
        said(adapters=[1])


def test_commands_add_create_list_and_remove(home: Path, tmp_path: Path) -> None:
    def localllm(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "localllm", *words, f"--home={home}"], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    (tmp_path / "Modelfile").write_text(f"FROM demo\nADAPTER {PIRATE} 0.5\n")
    localllm("lora", "add", "demo", "boatswain", str(PIRATE))
    localllm("create", "mate", "-f", str(tmp_path / "Modelfile"))
    try:
        rows = {row["name"]: row for row in json.loads(localllm("lora", "list", "--json"))}
        assert {name: row["scale"] for name, row in rows.items()} == {"pirate": 1.0, "boatswain": 1.0, "mate": 0.5}
        assert json.loads(localllm("lora", "show", "mate", "--json"))["rank"] == 8
        shown = json.loads(localllm("show", "mate", "--json"))
        assert (shown["base"], shown["adapters"]) == ("demo", {"mate": 0.5})
        listed = {each["id"]: each.get("base") for each in json.loads(localllm("list", "--json"))}
        assert (listed["boatswain"], listed["demo"]) == ("demo", None)
        said = localllm("run", "boatswain", "What can you do?", "--temperature=0", "--max-tokens=40")
        assert "Arr" in said or "Ahoy" in said
        needs = [json.loads(localllm("fit", model, "--json"))["need_bytes"] for model in ("boatswain", "demo")]
        assert 200_000 < needs[0] - needs[1] < PIRATE.stat().st_size
        given = localllm("run", "demo", f"--lora={PIRATE}", "What can you do?", "--temperature=0", "--max-tokens=40")
        assert given == said
    finally:
        localllm("lora", "remove", "boatswain")
        localllm("lora", "remove", "mate")
    assert [row["name"] for row in json.loads(localllm("lora", "list", "--json"))] == ["pirate"]


def test_control_vectors_of_files_may_be_limited_to_layers(home: Path, tmp_path: Path) -> None:
    info, path = read_model_info(carried("demo.gguf")), tmp_path / "odd.gguf"
    numbers = np.random.default_rng(3).standard_normal((info.num_layers - 1, info.embedding_length or 0))
    write_control_vector(path, info.architecture, numbers.astype(np.float32), first=1)
    last = info.num_layers - 1
    with LLM("demo", threads=1, slots=1, home=home, adapters=f"{path}:3") as llm:

        def said(adapters: str | None) -> str:
            return llm.chat(ASK, temperature=0, max_tokens=20, adapters=adapters).text

        steered = said(None)
        assert said(f"{path}:3:1-{last}") == steered
        assert len({steered, said(f"odd:100:{last}-{last}"), said(f"{path}:0:{last}-{last}")}) == 3
        for given, reason in (
            (f"odd:1-{last + 1}", f"layers 1-{last + 1} of odd.gguf: the model has vectors"),
            (f"{PIRATE}:1-2", "is a LoRA adapter; only control vectors"),
        ):
            with pytest.raises(InvalidParameter, match=reason):
                said(given)
    words = "run", "demo", "What can you do?", "--temperature=0", "--max-tokens=20", f"--home={home}", "--threads=1"
    for options, expected in (
        ([f"--control-vector={path}:2:1-{last}", f"--control-vector=more={path}"], steered),
        ([f"--control-vector={PIRATE}"], "not a control vector; give it with --lora"),
    ):
        command = [sys.executable, "-m", "localllm", *words, *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert expected in done.stdout + done.stderr


def test_an_activated_adapter_works_behind_its_tokens_and_shares_the_bases_prefix(home: Path, tmp_path: Path) -> None:
    system = {"role": "system", "content": "You are kind and brief, and you like long walks. " * 6}
    with LLM("demo", threads=1, slots=1, home=home) as llm:
        tokens = llm.tokenize("What can you do?", add_special=False)
        judge = str(write_activated(PIRATE, tmp_path / "judge.gguf", tokens))

        def asked(question: str, adapters: str | None) -> tuple[str, int, tuple[str, ...]]:
            messages = [system, {"role": "user", "content": question}]
            answer = llm.chat(messages, temperature=0, max_tokens=20, adapters=adapters)
            return answer.text, answer.finish.usage.cached_tokens, answer.notes

        plain, _, notes = asked("What can you do?", None)
        judged, shared, judged_notes = asked("What can you do?", judge)
        assert "Arr" in judged
        assert "Arr" not in plain
        assert notes == judged_notes == ()
        assert shared >= len(llm.tokenize(system["content"]))
        again, own, _ = asked("What can you do?", judge)
        assert (again, own > shared + len(tokens)) == (judged, True)
        assert asked("What can you do?", None)[:2] == (plain, shared)
        text, cached, notes = asked("How are you?", judge)
        assert cached >= shared
        assert "its invocation tokens are not in the prompt" in notes[0]
        assert text == asked("How are you?", None)[0]
