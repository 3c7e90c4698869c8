"""Agents finish a task: read a file, edit it, run a command, answer. A model of random weights makes nonsense and no
error. By default Codex runs in one format here, and both in another in `test_launch.py`; `test_replays.py` has every
format. Each agent in each, and random weights, are exhaustive.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents.agent_models import FORMATS
from tests.agents.conftest import CTX, AgentServer, Serve, Step, agent, check_requests, run

TASK = "Change hello to goodbye in a.txt"
ANSWER = 'Done: a.txt says "goodbye" — ✓'
WANTED = "goodbye\n"

pytestmark = pytest.mark.agents


def formats(*tried: str) -> list[Any]:
    """All of them; only those named are tried by default."""
    return [name if name in tried else pytest.param(name, marks=pytest.mark.exhaustive) for name in FORMATS]


def thinking(name: str, step: Step) -> Step:
    """Without its thought where the format's model has none."""
    return step if name in ("hermes", "harmony") else {**step, "thought": ""}


def codex_steps() -> list[Step]:
    def called(command: str, **more: str) -> Step:
        return {"calls": [{"name": "exec_command", "arguments": {"cmd": command}}], **more}

    return [
        called("cat a.txt", thought="I look at the file first."),
        called("sed -i 's/hello/goodbye/' a.txt", text="Now I edit it."),
        called('test "$(cat a.txt)" = goodbye && echo "{}\\"}</tool_call>"'),
        {"text": ANSWER, "thought": "That was all."},
    ]


def opencode_steps(folder: Path) -> list[Step]:
    path = str(folder / "a.txt")

    def called(name: str, **arguments: Any) -> Step:
        return {"calls": [{"name": name, "arguments": arguments}]}

    return [
        {**called("read", filePath=path), "thought": "I look at the file first."},
        {**called("edit", filePath=path, oldString="hello", newString="goodbye"), "text": "Now I edit it."},
        called("bash", command="cat a.txt && echo '{\"}'"),
        {"text": ANSWER, "thought": "That was all."},
    ]


def run_codex(server: AgentServer, repository: Path, home: Path, sandbox: str = "read-only") -> str:
    settings = home / ".codex"
    settings.mkdir(parents=True)
    (settings / "config.toml").write_text(
        f'model = "{server.model}"\nmodel_provider = "local"\nmodel_context_window = {CTX}\n'
        f'[model_providers.local]\nname = "local"\nbase_url = "{server.url}"\nwire_api = "responses"\n',
        "utf-8",
    )
    command = [agent("codex"), "exec", "--sandbox", sandbox, TASK]
    done = run(command, repository, home)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def run_opencode(server: AgentServer, repository: Path, home: Path) -> str:
    settings = home / ".config" / "opencode"
    settings.mkdir(parents=True)
    model = {"name": server.model, "limit": {"context": CTX, "output": 4096}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "local",
        "options": {"baseURL": server.url, "apiKey": "none"},
        "models": {server.model: model},
    }
    given = {"provider": {"local": provider}, "autoupdate": False, "share": "disabled"}
    (settings / "opencode.json").write_text(json.dumps(given), "utf-8")
    done = run([agent("opencode"), "run", "-m", f"local/{server.model}", TASK], repository, home)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", formats("harmony"))
def test_codex_reads_edits_runs_and_answers(name: str, serve: Serve, repository: Path, tmp_path: Path) -> None:
    agent("codex")
    server = serve(name, [thinking(name, step) for step in codex_steps()])
    shown = run_codex(server, repository, tmp_path / "home", "danger-full-access")
    assert (repository / "a.txt").read_text("utf-8") == WANTED, shown
    assert ANSWER in shown
    check_requests(server.requests(), least=4)


@pytest.mark.parametrize("name", formats())
def test_opencode_reads_edits_runs_and_answers(name: str, serve: Serve, repository: Path, tmp_path: Path) -> None:
    agent("opencode")
    server = serve(name, [thinking(name, step) for step in opencode_steps(repository)])
    shown = run_opencode(server, repository, tmp_path / "home")
    assert (repository / "a.txt").read_text("utf-8") == WANTED, shown
    assert ANSWER in shown
    check_requests(server.requests(), least=4)


@pytest.mark.exhaustive
@pytest.mark.parametrize("run_agent", [run_codex, run_opencode])
def test_a_model_of_random_weights_answers_nonsense_and_no_request_fails(
    run_agent: Any, serve: Serve, repository: Path, tmp_path: Path
) -> None:
    """Its prompts are of thousands of tokens; what it calls by chance is held to the tools' schemas."""
    agent("codex" if run_agent is run_codex else "opencode")
    server = serve("hermes", None)
    run_agent(server, repository, tmp_path / "home")
    requests = server.requests()
    assert all(line["status"] == 200 and line.get("outcome") is None for line in requests), requests
    assert max(line["prompt_tokens"] for line in requests) > 5000
