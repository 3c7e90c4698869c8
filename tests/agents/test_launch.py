"""`localllm launch` with the real agents: each finds the server, reads what it was told, and finishes a task.

Claude Code and Continue are looked for beside Codex and opencode; LOCALLLM_AIDER names Aider's program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.agents.conftest import PROGRAMS, AgentServer, Step, agent, check_requests, run, started
from tests.agents.test_agents import ANSWER, TASK, WANTED, codex_steps, opencode_steps

CTX = 65_536
FORMAT = "hermes"
AIDER = Path(os.environ.get("LOCALLLM_AIDER", ""))
"""Read before the tests' own environment takes the variables away."""

pytestmark = pytest.mark.agents


def launched(
    name: str, server: AgentServer, repository: Path, folder: Path, *arguments: str, program: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """The agent on the server that runs there, with homes of their own."""
    programs = PROGRAMS if program is None else program.parent
    command = [sys.executable, "-P", "-m", "localllm", "launch", name, "--", *arguments]
    data = folder / "data"
    data.mkdir()
    done = run(
        command,
        repository,
        folder / "home",
        PATH=f"{programs}:{os.environ['PATH']}",
        LOCALLLM_HOME=str(data),
        LOCALLLM_PORT=server.url.removesuffix("/v1").rpartition(":")[2],
    )
    assert "no server is running" not in done.stderr
    assert not [path for path in (data / "launch").iterdir() if path.is_dir()]
    return done


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[AgentServer]]:
    """To be closed."""
    found: list[AgentServer] = []
    yield found
    for server in found:
        server.close()


def serve(servers: list[AgentServer], folder: Path, steps: Sequence[Step]) -> AgentServer:
    servers.append(started(folder, FORMAT, steps, CTX))
    return servers[-1]


def called(name: str, **arguments: Any) -> Step:
    return {"calls": [{"name": name, "arguments": arguments}]}


def test_codex_does_its_task(servers: list[AgentServer], repository: Path, tmp_path: Path) -> None:
    agent("codex")
    server = serve(servers, tmp_path, codex_steps())
    done = launched("codex", server, repository, tmp_path, "exec", "--sandbox", "danger-full-access", TASK)
    assert done.returncode == 0, done.stderr
    assert (repository / "a.txt").read_text("utf-8") == WANTED, done.stderr
    assert ANSWER in done.stdout + done.stderr
    assert "provider: localllm" in done.stderr
    check_requests(server.requests(), least=4)
    config = tmp_path / "home" / ".codex" / "config.toml"
    assert not config.exists() or "localllm" not in config.read_text("utf-8")


def test_opencode_does_its_task(servers: list[AgentServer], repository: Path, tmp_path: Path) -> None:
    agent("opencode")
    server = serve(servers, tmp_path, opencode_steps(repository))
    done = launched("opencode", server, repository, tmp_path, "run", TASK)
    assert done.returncode == 0, done.stderr
    assert (repository / "a.txt").read_text("utf-8") == WANTED, done.stderr
    assert ANSWER in done.stdout + done.stderr
    check_requests(server.requests(), least=4)
    assert not list((tmp_path / "home" / ".config").rglob("opencode.json*"))


def test_claude_code_does_its_task(servers: list[AgentServer], repository: Path, tmp_path: Path) -> None:
    agent("claude")
    path = str(repository / "a.txt")
    steps: list[Step] = [
        {**called("Read", file_path=path), "thought": "I look at the file first."},
        {**called("Edit", file_path=path, old_string="hello", new_string="goodbye"), "text": "Now I edit it."},
        called("Bash", command="cat a.txt", description="Look"),
        {"text": ANSWER, "thought": "That was all."},
    ]
    server = serve(servers, tmp_path, steps)
    settings = tmp_path / "home" / ".claude" / "settings.json"  # which the environment does not beat
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_MODEL": "opus"}}))
    arguments = ("-p", TASK, "--allowedTools", "Read,Edit,Bash", "--output-format", "json")
    done = launched("claude", server, repository, tmp_path, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (repository / "a.txt").read_text("utf-8") == WANTED, done.stdout
    told = json.loads(done.stdout)
    assert told["result"] == ANSWER
    assert list(told["modelUsage"]) == [FORMAT]
    assert told["modelUsage"][FORMAT]["contextWindow"] == CTX
    check_requests(server.requests(), least=4)


def test_continue_does_its_task(servers: list[AgentServer], repository: Path, tmp_path: Path) -> None:
    agent("cn")
    steps: list[Step] = [called("Read", filepath=str(repository / "a.txt")), {"text": ANSWER}]
    server = serve(servers, tmp_path, steps)
    done = launched("continue", server, repository, tmp_path, "--auto", "-p", TASK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ANSWER in done.stdout
    check_requests(server.requests(), least=2)


@pytest.mark.skipif(not AIDER.is_file(), reason="LOCALLLM_AIDER names no program")
def test_aider_does_its_task(servers: list[AgentServer], repository: Path, tmp_path: Path) -> None:
    edit = "a.txt\n```\ngoodbye\n```\n"
    # Its examples are answers of the conversation, too.
    server = serve(servers, tmp_path, [{"text": edit, "for": "expert software developer"}] * 4)
    arguments = ("--yes-always", "--no-check-update", "--no-auto-commits", "--no-gitignore", "--message", TASK, "a.txt")
    done = launched("aider", server, repository, tmp_path, *arguments, program=AIDER)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (repository / "a.txt").read_text("utf-8") == WANTED, done.stdout
    assert "Warning for openai/" not in done.stdout
    requests = server.requests()
    assert requests
    assert all(line["status"] == 200 for line in requests)
