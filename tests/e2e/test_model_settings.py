"""What is set for a model, as a user meets it: `localllm set`, and every way to load the model after it."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from localllm import LLM
from localllm.client.api import Client
from localllm.client.sidecar import Sidecar
from localllm.types import Message, SamplingParams
from tests.e2e.conftest import Cli
from tests.homes import share_findings

GREEDY = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
ASK = [Message("user", "Hi")]


@pytest.fixture
def data_dir(home: Path, tmp_path: Path) -> Path:
    share_findings(home, tmp_path)
    return tmp_path


def test_what_is_set_for_a_model_is_shown_with_where_it_comes_from_and_removed_again(cli: Cli, data_dir: Path) -> None:
    file = data_dir / "config.toml"
    file.write_text("# mine\nslots = 2  # two people\n")
    assert cli("set", "demo", "ctx=1024", "aliases=tiny, small", f"--home={data_dir}").returncode == 0
    assert file.read_text() == (
        '# mine\nslots = 2  # two people\n\n[models.demo]\nctx = 1024\naliases = ["tiny", "small"]\n'
    )
    shown = json.loads(cli("set", "tiny", "--json", f"--home={data_dir}").stdout)
    assert shown["model"] == "demo"
    assert shown["settings"]["ctx"] == {"value": 1024, "source": '[models."demo"]'}
    assert shown["settings"]["slots"] == {"value": 2, "source": str(file)}
    assert shown["settings"]["threads"]["source"] == "default"
    assert 'set ctx         1024  [models."demo"]' in cli("show", "demo", f"--home={data_dir}").stdout
    assert cli("set", "demo", "ctx=", "aliases=", f"--home={data_dir}").returncode == 0
    assert file.read_text() == "# mine\nslots = 2  # two people\n"


@pytest.mark.parametrize(
    ("pair", "words"),
    [("cxt=1", "did you mean ctx?"), ("ctx", "KEY=VALUE"), ("ctx=3", 'config.toml, [models."demo"]: ctx must be')],
)
def test_what_cannot_be_set_changes_nothing_and_says_why(pair: str, words: str, cli: Cli, data_dir: Path) -> None:
    done = cli("set", "demo", "slots=3", pair, f"--home={data_dir}")
    assert done.returncode != 0
    assert words in done.stderr
    assert not (data_dir / "config.toml").exists()


def test_run_asks_a_model_by_its_alias_and_loads_it_as_it_is_set(cli: Cli, data_dir: Path) -> None:
    cli("set", "demo", "ctx=512", "aliases=tiny", "max_tokens=3", f"--home={data_dir}")
    done = cli("run", "tiny", "Hi", "--stats", f"--home={data_dir}")
    assert done.returncode == 0
    assert "512" in done.stderr
    assert "3 tokens" in done.stderr


def test_a_server_loads_on_demand_as_is_set_then_and_answers_for_the_alias(cli: Cli, data_dir: Path) -> None:
    cli("set", "demo", "ctx=1024", "slots=1", f"--home={data_dir}")
    options = [f"--home={data_dir}", "--threads=1"]
    with Sidecar.start(options) as sidecar, Client(sidecar.url, sidecar.token) as client:
        assert client.load("demo") == "demo"
        (process,) = client.processes()
        assert (process.ctx, process.slots) == (1024, 1)
        client.unload("demo")
        cli("set", "demo", "ctx=512", "aliases=tiny", f"--home={data_dir}")
        assert "".join(delta.text for delta in client.chat("tiny", ASK, GREEDY))
        assert client.model("tiny").id == "demo"
        assert client.model("demo").ctx == 512


def test_the_command_line_of_a_server_wins_over_what_is_set(cli: Cli, data_dir: Path) -> None:
    cli("set", "demo", "ctx=1024", f"--home={data_dir}")
    with (
        Sidecar.start(["demo", f"--home={data_dir}", "--threads=1", "--ctx=256"]) as sidecar,
        Client(sidecar.url, sidecar.token) as client,
    ):
        assert client.model("demo").ctx == 256


def test_a_context_beyond_the_trained_one_is_refused_without_and_answers_with_rope_scaling(
    cli: Cli, data_dir: Path, tiny_chat_model: Path
) -> None:
    refused = cli("run", tiny_chat_model, "Hi", "--ctx=4096", f"--home={data_dir}")
    assert refused.returncode != 0
    assert "--rope-scaling yarn --rope-scale" in refused.stderr
    cli("set", tiny_chat_model, "rope_scaling=yarn", "rope_scale=16", "ctx=4096", f"--home={data_dir}")
    with (
        Sidecar.start([str(tiny_chat_model), f"--home={data_dir}", "--slots=1"]) as sidecar,
        Client(sidecar.url, sidecar.token) as client,
    ):
        (model,) = [each for each in client.models() if each.loaded]
        assert model.ctx == 4096
        long = [Message("user", "a b c d " * 700)]
        assert "".join(delta.text for delta in client.chat(model.id, long, GREEDY))


def test_of_several_models_at_the_start_the_first_is_for_requests_that_name_none(
    cli: Cli, data_dir: Path, tiny_chat_model: Path
) -> None:
    cli("set", "demo", "slots=1", "aliases=tiny", f"--home={data_dir}")
    options = ["tiny", str(tiny_chat_model), f"--home={data_dir}", "--threads=1", "--ctx=256"]
    with Sidecar.start(options) as sidecar, Client(sidecar.url, sidecar.token) as client:
        loaded = {process.model: process.slots for process in client.processes()}
        assert loaded == {"demo": 1, "tiny-chat": 4}
        asked = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
        answer = httpx.post(
            f"{sidecar.url}/v1/chat/completions",
            json=asked,
            headers={"Authorization": f"Bearer {sidecar.token}"},
            timeout=60,
        )
        assert answer.json()["model"] == "demo"
        told = httpx.get(
            f"{sidecar.url}/v1/models/tiny", headers={"Authorization": f"Bearer {sidecar.token}"}, timeout=60
        )
        assert told.json()["settings"] == {"slots": 1, "aliases": ["tiny"]}


def test_a_model_in_python_is_loaded_as_it_is_set_but_for_its_arguments(cli: Cli, data_dir: Path) -> None:
    cli("set", "demo", "ctx=512", "slots=2", "max_tokens=3", f"--home={data_dir}")
    with LLM("demo", home=data_dir, slots=1) as llm:
        assert (llm.info.ctx, llm.info.slots) == (512, 1)
        assert llm.chat(ASK).finish.usage.completion_tokens <= 3
