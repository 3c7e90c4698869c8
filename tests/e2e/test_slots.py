"""Saved slots over HTTP: real servers, the real llama.cpp, tiny models that can and cannot take back tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from localllm.client.sidecar import Sidecar
from tests.homes import share_findings
from tests.models import families
from tests.models.maker import write_llama
from tests.models.tokenizers import CHATML

MODELS: dict[str, Callable[..., Path]] = {"attention": write_llama, "recurrent": families.write_hybrid}
CHAT = [{"role": "user", "content": "Hello there, who are you?"}]
"""Too short for anything but a slot to keep it: no tier saves less than 64 tokens."""


class Server:
    """A running server, as a client of it."""

    def __init__(self, sidecar: Sidecar, http: httpx.Client) -> None:
        self.sidecar = sidecar
        self.http = http

    def act(self, slot: int, action: str, **body: str) -> dict[str, Any]:
        response = self.http.post(f"/slots/{slot}", params={"action": action}, json=body)
        assert response.status_code == 200, response.text
        done: dict[str, Any] = response.json()
        return done

    def refused(self, slot: int, action: str, **body: str) -> tuple[int, str, str]:
        response = self.http.post(f"/slots/{slot}", params={"action": action}, json=body)
        error = response.json()["error"]
        return response.status_code, error["reason"], error["message"]

    def chat(self) -> tuple[str, int]:
        """The answer, and how many of the prompt's tokens were there."""
        body = {"messages": CHAT, "temperature": 0, "max_tokens": 12, "ignore_eos": True}
        reply = self.http.post("/v1/chat/completions", json={"model": self.model, **body}).json()
        return reply["choices"][0]["message"]["content"], reply["usage"]["prompt_tokens_details"]["cached_tokens"]

    @property
    def model(self) -> str:
        name: str = self.http.get("/v1/models").json()["data"][0]["id"]
        return name

    def held(self) -> list[int]:
        return [slot["kv_tokens"] for slot in self.http.get("/slots").json()]


@contextmanager
def serving(model: Path, home: Path, *options: str) -> Iterator[Server]:
    args = [str(model), "--home", str(home), "--slots", "2", "--threads", "1", *options]
    with Sidecar.start(args) as sidecar:
        headers = {"x-api-key": sidecar.token}
        with httpx.Client(base_url=sidecar.url, headers=headers, timeout=60, trust_env=False) as http:
            yield Server(sidecar, http)


@pytest.fixture
def own_home(home: Path, tmp_path: Path) -> Path:
    """Of this test alone; it knows this machine already."""
    folder = tmp_path / "home"
    folder.mkdir()
    share_findings(home, folder)
    return folder


@pytest.mark.parametrize("kind", MODELS)
def test_a_saved_slot_goes_on_in_another_one_and_after_a_restart(kind: str, own_home: Path, tmp_path: Path) -> None:
    model = MODELS[kind](tmp_path / "tiny.gguf", chat_template=CHATML)
    with serving(model, own_home, "--kv-disk-mb", "10") as server:
        fresh, cached = server.chat()
        assert cached == 0
        saved = server.act(0, "save", filename="hello.bin")
        (path,) = own_home.glob("slots/*/hello.bin.kv")
        assert saved["n_saved"] == server.held()[0] > 0
        assert saved["n_written"] == path.stat().st_size
        assert saved["timings"]["save_ms"] > 0
        assert server.act(0, "erase") == {"id_slot": 0, "n_erased": saved["n_saved"]}
        assert server.held() == [0, 0]
        restored = server.act(1, "restore", filename="hello.bin")
        assert (restored["n_restored"], restored["n_read"]) == (saved["n_saved"], saved["n_written"])
        assert server.held() == [0, saved["n_saved"]]
        again, num_cached = server.chat()
        assert num_cached > 10
        assert again == fresh
    if kind == "recurrent":
        return  # what a restart could lose is not of a kind
    with serving(model, own_home, "--kv-disk-mb", "10") as server:
        server.act(0, "restore", filename="hello.bin")
        assert server.chat() == (fresh, num_cached)


def test_what_cannot_be_restored_is_refused_and_the_model_goes_on(own_home: Path, tiny_chat_model: Path) -> None:
    with serving(tiny_chat_model, own_home, "--kv-disk-mb", "10") as server:
        assert server.refused(0, "save", filename="x")[:2] == (400, "invalid_parameter"), "it holds nothing"
        fresh, _ = server.chat()
        server.act(0, "save", filename="x")
        (path,) = own_home.glob("slots/*/x.kv")
        outside = own_home / "outside.kv"
        outside.write_bytes(path.read_bytes())
        for name in ("../outside", "..", ".x", "a/b", "a\\b", "", "x" * 65, "x\0", "con", "nul.txt", "ü"):
            for action in ("save", "restore"):
                status, code, message = server.refused(0, action, filename=name)
                assert (status, code) == (400, "invalid_parameter"), name
                assert "filename" in message
        assert server.refused(0, "restore", filename="never")[:2] == (404, "slot_not_found")
        assert server.refused(2, "restore", filename="x")[:2] == (404, "slot_not_found")
        (path.parent / "link.kv").symlink_to(outside)
        assert "link" in server.refused(0, "restore", filename="link")[2]
        content = bytearray(path.read_bytes())
        content[-5] ^= 1
        path.write_bytes(content)
        status, code, message = server.refused(1, "restore", filename="x")
        assert (status, code) == (400, "invalid_parameter")
        assert "damaged" in message
        path.write_bytes(b"GGUF" * 100)
        assert server.refused(1, "restore", filename="x")[:2] == (400, "invalid_parameter")
        assert server.held()[1] == 0
        assert server.chat()[0] == fresh


def test_a_slot_that_answers_is_left_alone(own_home: Path, endless_model: Path) -> None:
    with serving(endless_model, own_home, "--kv-disk-mb", "10") as server:
        server.chat()
        server.act(0, "save", filename="x")
        body = {"model": server.model, "messages": CHAT, "temperature": 0, "stream": True}
        with server.http.stream("POST", "/v1/chat/completions", json=body) as stream:
            lines = stream.iter_lines()
            next(lines)
            for action in ("save", "restore", "erase"):
                assert server.refused(0, action, filename="x")[:2] == (409, "slot_busy")
            assert server.act(1, "restore", filename="x")["n_restored"] > 10, "the other one is free"
            assert next(lines) is not None, "and the answer goes on"


def test_conversations_go_to_the_disk_when_that_is_asked_for(own_home: Path, tiny_chat_model: Path) -> None:
    with serving(tiny_chat_model, own_home, "--kv-disk-mb", "10") as server:
        chat = {**CHAT[0], "content": "Hello there, and how do you do? " * 4}
        server.http.post("/v1/chat/completions", json={"model": server.model, "messages": [chat], "max_tokens": 3})
        asked = {"model": server.model}
        assert server.http.post("/localllm/kv/save", json=asked).json()["conversations"] == 1
        assert len(list(own_home.glob("kv/*/*.kv"))) == 1
        assert server.http.post("/localllm/kv/save", json=asked).json()["conversations"] == 0


def test_without_a_disk_saving_says_which_setting_it_needs(own_home: Path, tiny_chat_model: Path) -> None:
    with serving(tiny_chat_model, own_home) as server:
        server.chat()
        status, code, message = server.refused(0, "save", filename="x")
        assert (status, code) == (400, "unsupported_parameter")
        assert "--kv-disk-mb" in message
        answer = server.http.post("/localllm/kv/save", json={"model": server.model})
        assert answer.status_code == 400
        assert "--kv-disk-mb" in answer.json()["error"]["message"]
