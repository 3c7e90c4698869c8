"""What each agent is told: the address, the model, the true context; the key by its environment only."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.errors import InvalidParameter
from localllm.launch import exports
from localllm.launch.known import AGENTS, agent_named
from localllm.launch.setup import AgentFolders, Setup, Target

SECRET = "sk-very-secret"
CTX = 40_960
TARGET = Target("http://127.0.0.1:11435", "qwen3:4b", CTX, SECRET, thinks=True)
ALL = pytest.mark.parametrize("name", list(AGENTS))


def set_up(name: str, target: Target = TARGET, environ: Mapping[str, str] = {}) -> Setup:
    return AGENTS[name].set_up(target, AgentFolders(Path("/home/me"), environ, Path("/private")))


def everything(setup: Setup) -> str:
    """All that the agent can read."""
    changes = [] if setup.change is None else [key.value for key in setup.change.keys]
    return json.dumps([dict(setup.environment), setup.arguments, dict(setup.files), changes, setup.panel])


@ALL
def test_every_agent_is_told_the_address_the_model_and_the_context(name: str) -> None:
    told = everything(set_up(name))
    assert "http://127.0.0.1:11435" in told
    assert "qwen3:4b" in told
    assert str(CTX) in told or name == "open-webui"  # which asks the server


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("codex", "features.view_image=true"),
        ("opencode", '"input":["text","image"]'),
        ("aider", '"supports_vision":true'),
        ("zed", '"images":true'),
        ("continue", "image_input"),
        ("cline", "SupportsImageson"),
        ("kilo", '"attachment":true'),
    ],
)
def test_agents_that_ask_whether_a_model_sees_are_told(name: str, says: str) -> None:
    def told(target: Target) -> str:
        return re.sub(r"[\s\\]", "", everything(set_up(name, target)).replace("\\n", ""))

    assert says in told(TARGET._replace(reads=frozenset({"image"})))
    assert says not in told(TARGET)


@pytest.mark.parametrize("name", ["opencode", "kilo", "aider"])
def test_agents_that_ask_whether_a_model_hears_are_told(name: str) -> None:
    def told(target: Target) -> str:
        return re.sub(r"[\s\\]", "", everything(set_up(name, target)).replace("\\n", ""))

    says = '"supports_audio_input":true' if name == "aider" else '"input":["text","audio"]'
    assert says in told(TARGET._replace(reads=frozenset({"audio"})))
    assert says not in told(TARGET)


def test_open_webui_embeds_and_ranks_with_the_servers_models_if_it_has_any() -> None:
    assert "RAG" not in everything(set_up("open-webui"))
    environment = set_up("open-webui", TARGET._replace(embedder="nomic:v1.5", reranker="bge:m3")).environment
    assert (environment["RAG_EMBEDDING_ENGINE"], environment["RAG_EMBEDDING_MODEL"]) == ("openai", "nomic:v1.5")
    assert environment["RAG_OPENAI_API_BASE_URL"] == environment["OPENAI_API_BASE_URL"]
    assert environment["RAG_EXTERNAL_RERANKER_URL"] == "http://127.0.0.1:11435/v1/rerank"
    assert environment["RAG_RERANKING_MODEL"] == "bge:m3"
    assert environment["RAG_OPENAI_API_KEY"] == environment["RAG_EXTERNAL_RERANKER_API_KEY"] == SECRET


@ALL
def test_a_key_is_on_no_command_line_in_no_file_of_the_users_and_on_no_panel(name: str) -> None:
    setup = set_up(name)
    private = setup.files if name == "claude" else {}  # whose settings.json would win over the environment
    assert SECRET not in everything(setup._replace(environment={}, files=dict(setup.files.items() - private.items())))
    assert bool(setup.panel) or SECRET in setup.environment.values()


@ALL
def test_where_the_server_wants_no_key_something_is_sent_all_the_same(name: str) -> None:
    setup = set_up(name, TARGET._replace(key=None))
    assert "localllm" in setup.environment.values() or "localllm" in setup.panel


def test_claude_code_has_all_its_tiers_on_the_model_and_compacts_in_time() -> None:
    setup = set_up("claude")
    models = {value for name, value in setup.environment.items() if name.endswith("_MODEL")}
    assert models == {"qwen3:4b"}
    assert len([name for name in setup.environment if name.endswith("_MODEL")]) == 6
    assert setup.environment["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:11435"  # it adds /v1 itself
    assert setup.environment["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] == str(CTX)
    assert setup.environment["CLAUDE_CODE_ATTRIBUTION_HEADER"] == "0"
    assert setup.environment["CLAUDE_CODE_TOTAL_TOKENS_REMINDER"] == "off"
    assert "ANTHROPIC_API_KEY" in setup.unset


def test_codex_reads_its_overrides_as_toml() -> None:
    arguments = set_up("codex", TARGET._replace(model='odd "name"\\')).arguments
    assert set(arguments[::2]) == {"-c"}
    settings = tomllib.loads("\n".join(arguments[1::2]))
    assert settings["model"] == 'odd "name"\\'
    assert settings["model_context_window"] == CTX
    provider = settings["model_providers"][settings["model_provider"]]
    assert (provider["wire_api"], provider["base_url"]) == ("responses", "http://127.0.0.1:11435/v1")
    assert set_up("codex").environment[provider["env_key"]] == SECRET


def test_opencode_uses_the_model_for_large_and_small_and_knows_its_limits() -> None:
    environment = set_up("opencode").environment
    given = json.loads(environment["OPENCODE_CONFIG_CONTENT"])
    assert given["model"] == given["small_model"] == "localllm/qwen3:4b"
    model = given["provider"]["localllm"]["models"]["qwen3:4b"]
    assert model["limit"] == {"context": CTX, "output": CTX // 4}
    assert given["provider"]["localllm"]["options"]["apiKey"] == "{env:LOCALLLM_API_KEY}"


def test_aiders_files_are_those_that_its_options_name() -> None:
    setup = set_up("aider")
    for name, text in setup.files.items():
        assert any(argument.endswith(str(Path("/private") / name)) for argument in setup.arguments)
        assert json.loads(text)
    (metadata,) = (json.loads(text) for name, text in setup.files.items() if "metadata" in name)
    assert metadata["openai/qwen3:4b"]["max_input_tokens"] == CTX


@pytest.mark.parametrize(
    ("environ", "file"),
    [
        ({}, "/home/me/.config/zed/settings.json"),
        ({"XDG_CONFIG_HOME": "/conf"}, "/conf/zed/settings.json"),
        ({"APPDATA": "/roaming"}, "/roaming/Zed/settings.json"),
    ],
)
def test_zeds_settings_are_where_zed_looks_for_them(environ: dict[str, str], file: str) -> None:
    change = set_up("zed", environ=environ).change
    assert change is not None
    assert change.file == Path(file)


def test_no_agent_but_zed_has_a_file_of_the_users_changed() -> None:
    assert [name for name in AGENTS if set_up(name).change is not None] == ["zed"]


def test_a_mistyped_name_is_answered_with_what_was_meant() -> None:
    assert agent_named("Claude-Code").name == "claude"
    with pytest.raises(InvalidParameter, match="did you mean opencode"):
        agent_named("opncode")


@pytest.mark.skipif(shutil.which("sh") is None, reason="no sh")
@given(
    st.dictionaries(
        st.from_regex(r"X_[A-Z]{1,5}", fullmatch=True), st.text(st.characters(exclude_characters="\0", codec="utf-8"))
    )
)
def test_what_is_printed_sets_exactly_that_in_a_shell(values: dict[str, str]) -> None:
    printed = exports.lines(Setup(environment=values, unset=("X_GONE",)), Path(), (), powershell=False)
    show = f"{sys.executable} -c 'import os, json; print(json.dumps(dict(os.environ)))'"
    environment = {**os.environ, "X_GONE": "here", "PYTHONUTF8": "1"}
    done = subprocess.run(
        ["sh"], input="\n".join([*printed, show]).encode(), env=environment, capture_output=True, check=True
    )
    seen: dict[str, Any] = json.loads(done.stdout)
    assert {name: value for name, value in seen.items() if name.startswith("X_")} == values


@pytest.mark.skipif(shutil.which("sh") is None, reason="no sh")
def test_printed_files_and_commands_work_in_a_shell(tmp_path: Path) -> None:
    setup = Setup(files={"it's.json": '{"a": "$HOME `x`"}\n'})
    printed = exports.lines(setup, tmp_path / "a b", ("printf", "%s|", "it's", "$HOME", ""), powershell=False)
    done = subprocess.run(["sh"], input="\n".join(printed), text=True, capture_output=True, check=True)
    assert done.stdout == "it's|$HOME||"
    assert (tmp_path / "a b" / "it's.json").read_text() == '{"a": "$HOME `x`"}\n'


def test_in_powershell_quotes_are_doubled() -> None:
    assert exports.uses_powershell({"PSModulePath": "x"})
    assert not exports.uses_powershell({"PSModulePath": "x", "SHELL": "/bin/sh"})
    setup = Setup(environment={"A": "it's"}, unset=("B",), files={"f": "text\n"})
    lines = list(exports.lines(setup, Path("dir"), ("cn", "a b"), powershell=True))
    assert "$env:A = 'it''s'" in lines
    assert "Remove-Item Env:B -ErrorAction SilentlyContinue" in lines
    assert lines[-1] == "& 'cn' 'a b'"
