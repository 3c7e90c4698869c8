"""What is set for one model, over HTTP: as `localllm set` writes it, refused in the same words; no file is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from localllm.settings.config import load
from localllm.settings.sections import KEYS
from tests.server.conftest import serving

TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text('# mine\nthreads = 3\n\n[models."d*"]\ntop_k = 7\nslots = 2\n')
    return path


@pytest.fixture
def http(tmp_path: Path, config: Path) -> Iterator[httpx.Client]:
    assert config.is_file()
    settings = load({"home": tmp_path, "device": "cpu", "port": 0, "grace_s": 0.1, "kv_ram_mb": 64})
    with serving(settings) as url, httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        yield client


def sent(http: httpx.Client, settings: dict[str, Any], model: str = "demo") -> dict[str, Any]:
    response = http.post("/localllm/settings", json={"model": model, "settings": settings})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def rows(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in answer["settings"]}


def test_every_setting_is_shown_with_its_default_its_source_and_what_it_takes(
    http: httpx.Client, tmp_path: Path
) -> None:
    answer = sent(http, {})
    found = rows(answer)
    assert (answer["model"], answer["needs_reload"]) == ("demo", False)
    assert tuple(found) == KEYS
    assert found["threads"] == {
        "key": "threads", "text": "Maximum CPU threads", "kind": "integer", "choices": [], "minimum": 1,
        "maximum": 1024, "value": 3, "default": 3, "source": "config.toml",
        "own": False, "loading": True, "fixed": None,
    }  # fmt: skip
    assert (found["slots"]["value"], found["slots"]["default"], found["slots"]["own"]) == (2, 2, False)
    assert (found["top_k"]["value"], found["top_k"]["source"]) == (7, '[models."d*"]')
    assert (found["kv_type"]["kind"], "q8_0" in found["kv_type"]["choices"]) == ("choice", True)
    assert found["mlock"]["kind"] == found["mmap"]["kind"] == "boolean"
    assert (found["temperature"]["kind"], found["stop"]["kind"]) == ("number", "list")
    assert "--kv-ram-mb" in found["kv_ram_mb"]["fixed"]
    assert "can only be set on the server's machine" in found["rpc"]["fixed"]
    assert str(tmp_path) not in str(answer)


def test_what_is_set_stands_in_the_file_holds_and_goes_again(http: httpx.Client, config: Path) -> None:
    found = rows(sent(http, {"ctx": "1024", "temperature": 0.5, "stop": ["END"], "kv-type": "q8_0", "mlock": False}))
    assert (found["ctx"]["value"], found["ctx"]["own"]) == (1024, True)
    text = config.read_text()
    assert text.startswith("# mine\nthreads = 3\n"), "everything else stays as it is"
    assert '[models.demo]\nctx = 1024\ntemperature = 0.5\nstop = ["END"]\nkv_type = "q8_0"\nmlock = false\n' in text
    assert http.post("/localllm/load", json={"model": "demo", "stream": False}).status_code == 200
    (process,) = http.get("/localllm/ps").json()["models"]
    assert process["ctx"] == 1024
    again = rows(sent(http, dict.fromkeys(("ctx", "temperature", "stop", "kv_type", "mlock"))))
    assert (again["ctx"]["value"], again["ctx"]["own"]) == (None, False)
    assert "[models.demo]" not in config.read_text()


def test_a_loaded_model_needs_a_reload_for_what_is_new_alone(http: httpx.Client) -> None:
    sent(http, {"ctx": 512})
    assert http.post("/localllm/load", json={"model": "demo", "stream": False}).status_code == 200
    assert sent(http, {"ctx": 512})["needs_reload"] is False
    assert sent(http, {"aliases": "fast"})["needs_reload"] is False
    assert sent(http, {"ctx": 1024})["needs_reload"] is True
    assert sent(http, {}, model="fast")["model"] == "demo"
    assert http.post("/localllm/unload", json={"model": "demo"}).status_code == 200
    assert http.post("/localllm/load", json={"model": "demo", "stream": False}).status_code == 200
    (process,) = http.get("/localllm/ps").json()["models"]
    assert process["ctx"] == 1024


@pytest.mark.parametrize(
    ("settings", "param", "said"),
    [
        ({"contex": 1}, "contex", "did you mean"),
        ({"ctx": "many"}, "ctx", "'many' is not a valid ctx"),
        ({"ctx": True}, "ctx", "is not a valid ctx"),
        ({"kv_type": "f64"}, "kv_type", "it is one of"),
        ({"temperature": -1}, "temperature", "temperature"),
        ({"ctx": {"a": 1}}, "ctx", "must be a string"),
        ({"stop": [["x"]]}, "stop", "must be a string"),
        ({"keep_alive": "soon"}, "keep_alive", "keep_alive"),
        ({"system": "x" * 200_001}, "system", "at most 200,000"),
        ({"aliases": ["a"] * 200_001}, "aliases", "at most 200,000"),
        ({"ctx": 2**64}, "ctx", "from 8 to"),
        ({"rpc": "10.0.0.1:1"}, "rpc", "can only be set on the server's machine"),
        ({"runtime": "wheel"}, "runtime", "can only be set on the server's machine"),
        ({"chat_template": "/etc/passwd"}, "chat_template", "can only be set on the server's machine"),
        ({"chat_template": "none.jinja"}, "chat_template", "can only be set on the server's machine"),
        ({"draft": "./small.gguf"}, "draft", "can only be set on the server's machine"),
        ({"ctx": 512, "slots": "x"}, "slots", "not a valid slots"),
    ],
)
def test_what_cannot_be_set_is_named_and_nothing_is_written(
    http: httpx.Client, config: Path, settings: dict[str, Any], param: str, said: str
) -> None:
    before = config.read_text()
    refused = http.post("/localllm/settings", json={"model": "demo", "settings": settings})
    error = refused.json()["error"]
    assert (refused.status_code, error["param"]) == (400, param), error
    assert said in error["message"]
    assert str(config.parent) not in error["message"]
    assert config.read_text() == before


@pytest.mark.parametrize("model", ["./x.gguf", "/etc/passwd", "qwen3:*", ""])
def test_only_a_model_has_settings(http: httpx.Client, model: str) -> None:
    refused = http.post("/localllm/settings", json={"model": model, "settings": {"ctx": 512}})
    assert refused.status_code in (400, 404), refused.text


def test_templates_are_set_as_text_or_by_name_and_a_file_of_the_machine_is_shown_by_its_name_alone(
    http: httpx.Client, config: Path
) -> None:
    assert rows(sent(http, {"chat_template": TEMPLATE}))["chat_template"]["value"] == TEMPLATE
    assert rows(sent(http, {"chat_template": "chatml"}))["chat_template"]["value"] == "chatml"
    config.write_text('[models.demo]\nchat_template = "/secret/place/own.jinja"\n')
    row = rows(sent(http, {}))["chat_template"]
    assert row["value"] == "own.jinja"
    assert "can only be set on the server's machine" in row["fixed"]


def test_a_lock_of_the_file_that_cannot_be_opened_is_said(http: httpx.Client, config: Path) -> None:
    before = config.read_text()
    config.with_name("config.toml.lock").mkdir()
    response = http.post("/localllm/settings", json={"model": "demo", "settings": {"top_k": 9}})
    assert response.status_code == 400
    assert "config.toml cannot be written: its lock: " in response.json()["error"]["message"]
    assert config.read_text() == before


def test_a_file_that_is_broken_is_said_and_stays(http: httpx.Client, config: Path) -> None:
    config.write_text("ctx = \n")
    refused = http.post("/localllm/settings", json={"model": "demo", "settings": {"ctx": 512}})
    assert refused.status_code == 400
    assert "config.toml cannot be read" in refused.json()["error"]["message"]
    assert config.read_text() == "ctx = \n"
