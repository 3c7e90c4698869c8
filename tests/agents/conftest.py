"""Agents from the npm registry (LOCALLLM_AGENTS names the folder of their programs), and the server they talk to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.agents.agent_models import FORMATS, write_agent_model
from tests.waiting import line_with

ROOT = Path(__file__).parents[2]
CTX = 32768
OPTIONS = ("--port", "0", "--ctx", str(CTX), "--log-format", "json")
LARGE = 4000
"""Tokens: a prompt with tools is longer, one for a title is not."""
PATIENCE_S = 180
"""A task that takes longer has failed."""

Step = dict[str, Any]


def programs() -> Path | None:
    """Where `codex` and `opencode` are."""
    folder = os.environ.get("LOCALLLM_AGENTS", "")
    return Path(folder) if folder else None


PROGRAMS = programs()
"""Read before the tests' own environment takes the variables away."""
TEMPLATES = Path(os.environ.get("LOCALLLM_CHAT_TEMPLATES", ""))


def agent(name: str) -> str:
    """Its program. Skips where there is none."""
    if PROGRAMS is None or not (PROGRAMS / name).exists():
        pytest.skip(f"LOCALLLM_AGENTS names no folder with {name}")
    return str(PROGRAMS / name)


class AgentServer:
    """A server of one model; its log says what was asked of it."""

    def __init__(self, model: Path, script: Path | None, log: Path, ctx: int = CTX) -> None:
        self.model = model.stem
        self._log = log
        program = ["localllm", "serve"] if script is None else ["tests.agents.scripted_server", str(script)]
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                *program,
                str(model),
                "--port",
                "0",
                "--ctx",
                str(ctx),
                "--log-format",
                "json",
            ],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            text=True,
            start_new_session=True,
        )
        self.url = line_with(self._process, "/v1 (").partition(" at ")[2].partition("/v1")[0] + "/v1"

    def requests(self) -> list[dict[str, Any]]:
        """Ends the server; what it logged of each request for an answer."""
        self._process.terminate()
        assert self._process.stderr is not None
        text = self._process.stderr.read()
        self._process.stderr.close()
        self._process.wait(PATIENCE_S)
        self._log.write_text(text, "utf-8")
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        assert not [line for line in lines if line["event"] in ("request_failed", "stream_failed")], text
        return [line for line in lines if line["event"] == "request" and line["method"] == "POST"]

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        if self._process.stderr is not None:
            self._process.stderr.close()
        self._process.wait()


Serve = Callable[[str, Sequence[Step] | None], AgentServer]


def started(folder: Path, name: str, steps: Sequence[Step] | None, ctx: int = CTX) -> AgentServer:
    """A server of a format's model, which says what the steps say, or whatever random weights do. To be closed."""
    chosen = FORMATS[name]
    template = TEMPLATES / chosen.template
    if not template.is_file():
        pytest.skip("LOCALLLM_CHAT_TEMPLATES names no folder with llama.cpp's models/templates")
    model = write_agent_model(folder / f"{name}.gguf", template.read_text("utf-8"), chosen.control, chosen.end, ctx=ctx)
    script = None
    if steps is not None:
        script = folder / "script.json"
        script.write_text(json.dumps(list(steps)), "utf-8")
    return AgentServer(model, script, folder / "server.log", ctx)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts servers, and ends them."""
    servers: list[AgentServer] = []

    def start(name: str, steps: Sequence[Step] | None) -> AgentServer:
        servers.append(started(tmp_path, name, steps))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """An empty one, but for a file that says hello."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "a.txt").write_text("hello\n", "utf-8")
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    return folder


def run(command: Sequence[str], folder: Path, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """An agent with a home of its own and nobody to ask."""
    home.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "NODE_PATH")}
    return subprocess.run(
        command,
        cwd=folder,
        env={**kept, "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
    )


def check_requests(requests: Sequence[dict[str, Any]], *, least: int) -> None:
    """None was refused, and from the second turn on hardly anything was computed again."""
    assert len(requests) >= least
    assert all(line["status"] == 200 and line.get("outcome") is None for line in requests), requests
    turns = [line for line in requests if line.get("prompt_tokens", 0) > LARGE]
    for line in turns[1:]:
        assert line["cached_tokens"] >= 0.95 * line["prompt_tokens"], turns
