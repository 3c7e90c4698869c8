"""Help, `show`, and what every command has in common. No llama.cpp is needed here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import localllm
from localllm.gguf import read_model_info
from localllm.server.answers.catalog import of_file
from localllm.server.apis.ollama.models import _capabilities
from localllm.settings.config import Settings
from tests.e2e.conftest import Cli
from tests.models.assistant import write_assistant
from tests.models.dflash import write_dflash
from tests.models.eagle import write_eagle
from tests.models.maker import write_llama

NOT_OPTIONS = {"api_keys", "otel_headers"}
"""Settings that a command line would show to everybody who can list processes."""


def test_the_version_is_that_of_the_package(cli: Cli) -> None:
    assert cli("--version").stdout == f"localllm {localllm.__version__}\n"


@pytest.mark.parametrize("command", ["run", "serve", "show", "doctor"])
def test_every_command_explains_itself(cli: Cli, command: str) -> None:
    done = cli(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: localllm {command}")


def test_serve_has_an_option_for_every_setting(cli: Cli) -> None:
    text = cli("serve", "--help-all").stdout
    for field in msgspec.structs.fields(Settings):
        option = f"--{field.name.replace('_', '-')} "
        assert (option in text) == (field.name not in NOT_OPTIONS), option


def test_help_imports_nothing_heavy() -> None:
    """What keeps `--help` under 0.2 s."""
    code = (
        "import sys, atexit; sys.argv = ['localllm', '--help']; from localllm.cli import main\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); main()"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True, timeout=60)
    heavy = {"asyncio", "httpx", "rich", "prompt_toolkit", "starlette", "uvicorn", "numpy", "gguf", "llama_cpp"}
    assert not heavy & set(done.stderr.split())


def test_show_prints_a_header_as_a_table_and_as_json(cli: Cli, tiny_model: Path, tiny_chat_model: Path) -> None:
    table = dict(
        line.split(None, 1) for line in cli("show", tiny_model).stdout.replace("chat t", "chat-t").splitlines()
    )
    assert table["architecture"] == "llama"
    assert table["chat-template"].startswith("none")
    info = json.loads(cli("show", tiny_chat_model, "--json").stdout)
    assert info["architecture"] == "llama"
    assert info["num_layers"] == 2
    assert "default" in info["chat_templates"]


def test_show_tells_how_a_models_answers_are_read_without_loading_it(cli: Cli, tiny_model: Path, home: Path) -> None:
    shown = cli("show", "demo").stdout
    for row in (
        "format          hermes: known, and checked against its template\n",
        "thinking        can be turned on and off\n",
        "tools           rendered by its template\n",
        "capabilities    completion, chat, tools, thinking, vision, structured_outputs\n",
    ):
        assert row in shown
    wild = "{% for i in range(99999) %}{% for j in range(99999) %}{{ i }}{% endfor %}{% endfor %}"
    path = write_llama(home / "wild.gguf", chat_template=wild)
    done = cli("show", path, "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["chat_format"]["origin"]) == (0, "generic")
    assert "needed more than" in found["chat_format"]["note"]
    assert found["capabilities"] == ["completion", "chat", "tools", "structured_outputs"]
    without = cli("show", tiny_model).stdout
    assert "format " not in without
    assert "capabilities    completion, structured_outputs\n" in without


@pytest.mark.parametrize("write", [write_eagle, write_dflash, write_assistant])
def test_show_tells_of_a_draft_that_it_is_no_model_by_itself(cli: Cli, home: Path, write: Callable[..., Path]) -> None:
    path = write(home / "draft-to-show.gguf")
    assert (
        "capabilities    none by itself: it guesses for the model it was made for (--draft)\n"
        in cli("show", path).stdout
    )
    assert json.loads(cli("show", path, "--json").stdout)["capabilities"] == []
    info = read_model_info(path)
    assert of_file(info) == _capabilities(info, None, ()) == []


def test_show_tells_a_missing_file_from_a_bad_one(cli: Cli, home: Path) -> None:
    bad = home / "bad-to-show.gguf"
    bad.write_bytes(b"no")
    assert cli("show", home / "nothing.gguf").returncode == 3
    done = cli("show", bad)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("localllm: ")
