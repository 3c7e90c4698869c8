"""`localllm launch` with stubs of the agents: what they get, how they end, and that nothing is left of it."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from localllm.gguf import read_model_info
from localllm.launch.known import AGENTS
from localllm.registry.resolve import carried
from tests.e2e.conftest import COMMAND, TIMEOUT_S, first_output
from tests.e2e.servers import Server
from tests.e2e.terminal import Terminal, needs_pty
from tests.homes import share_findings
from tests.models.maker import write_llama
from tests.models.media import MediaModel, MediaModelKind
from tests.waiting import line_with

PROGRAMS = {agent.name: agent.program for agent in AGENTS.values() if agent.program}
CTX = 49_152
STUB = """#!{python}
import json, os, re, signal, sys, urllib.request
environment = dict(os.environ)
home = environment["HOME"]
words = [*sys.argv[1:], *environment.values()]
files = {{}}
for word in sys.argv[1:]:
    path = word.rpartition("=")[2]
    if os.path.isfile(path):
        files[os.path.basename(path)] = open(path).read()
zed = os.path.join(home, ".config", "zed", "settings.json")
if os.path.isfile(zed):
    files["zed"] = open(zed).read()
url = re.search(r"http://127\\.0\\.0\\.1:\\d+", " ".join([*words, *files.values()])).group()
key = next(environment[name] for name in {keys} if name in environment)
request = urllib.request.Request(url + "/v1/models", headers={{"authorization": "Bearer " + key}})
models = json.load(urllib.request.urlopen(request))["data"]
record = {{"arguments": sys.argv[1:], "environment": environment, "files": files, "url": url, "key": key}}
record["models"] = models
with open(environment["STUB_RECORD"], "w") as file:
    json.dump(record, file)
if "STUB_WAITS" in environment:
    for name in ("SIGINT", "SIGTERM"):
        signal.signal(getattr(signal, name), lambda number, _: sys.exit(40 + number))
    print("the agent waits", flush=True)
    while True:
        signal.pause()
sys.exit(int(environment.get("STUB_EXIT", "0")))
"""
KEYS = ("LOCALLLM_API_KEY", "ANTHROPIC_AUTH_TOKEN", "AIDER_OPENAI_API_KEY", "OPENAI_API_KEY")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stubs are scripts with a first line for POSIX")


class Desk:
    """A user with stubs of all agents, a home, and localllm's own home."""

    def __init__(self, folder: Path, findings: Path) -> None:
        self.home = folder / "user"
        self.data = folder / "data"
        self.record = folder / "record.json"
        self.zed = self.home / ".config" / "zed" / "settings.json"
        self.programs = folder / "bin"
        for each in (self.zed.parent, self.data, self.programs):
            each.mkdir(parents=True)
        share_findings(findings, self.data)
        for program in PROGRAMS.values():
            path = self.programs / program
            path.write_text(STUB.format(python=sys.executable, keys=KEYS))
            path.chmod(0o755)

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name in ("LANG", "PYTHONPATH", "TMPDIR")}
        return {
            **kept,
            "PATH": f"{self.programs}:/usr/bin:/bin",
            "HOME": str(self.home),
            "LOCALLLM_HOME": str(self.data),
            "LOCALLLM_PORT": "1",  # nobody listens there
            "STUB_RECORD": str(self.record),
            **more,
        }

    def launch(self, *args: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*COMMAND, "launch", *map(str, args)],
            env=self.environment(**more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=TIMEOUT_S,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def start(self, *args: str | Path, **more: str) -> subprocess.Popen[bytes]:
        """One whose agent waits."""
        process = subprocess.Popen(
            [*COMMAND, "launch", *map(str, args)],
            env=self.environment(STUB_WAITS="1", **more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert first_output(process) == b"the agent waits\n"
        return process

    def recorded(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self.record.read_text())
        return record

    def left(self) -> list[Path]:
        """Of launches, in the data folder."""
        return [path for path in (self.data / "launch").glob("*") if path.is_dir()]


@pytest.fixture(scope="module")
def agent_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random llama with the demo's template, which knows tools, and 65,536 tokens of context."""
    template = read_model_info(carried("demo.gguf")).chat_templates["default"]
    return write_llama(tmp_path_factory.mktemp("models") / "agent.gguf", ctx=65_536, chat_template=template)


@pytest.fixture
def desk(tmp_path: Path, home: Path) -> Desk:
    return Desk(tmp_path, home)


def is_served(url: str) -> bool:
    try:
        httpx.get(f"{url}/health", trust_env=False)
    except httpx.HTTPError:
        return False
    return True


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_an_agent_finds_its_model_and_its_exit_code_is_ours(name: str, desk: Desk, agent_model: Path) -> None:
    done = desk.launch(name, "--model", agent_model, "--ctx", str(CTX), "--yes", "--", "-p", "it's", STUB_EXIT="7")
    assert done.returncode == 7, done.stderr
    seen = desk.recorded()
    assert seen["arguments"][-2:] == ["-p", "it's"]
    (model,) = (model for model in seen["models"] if model["loaded"])
    assert (model["id"], model["ctx"]) == ("agent", CTX)
    told = json.dumps([seen["arguments"], seen["environment"], seen["files"]])
    assert "agent" in told
    assert str(CTX) in told or name == "open-webui"
    assert seen["key"] not in json.dumps(seen["arguments"])
    assert name == "claude" or seen["key"] not in json.dumps(seen["files"])
    assert seen["key"] not in done.stderr
    assert f"uses agent with {CTX:,} tokens of context at {seen['url']}" in done.stderr
    assert not is_served(seen["url"])
    assert desk.left() == []
    assert done.stdout == ""


def test_an_agent_that_wants_another_api_is_not_led_there(desk: Desk, agent_model: Path) -> None:
    done = desk.launch(
        "claude", "--model", agent_model, "--yes", ANTHROPIC_API_KEY="sk-real", CLAUDE_CODE_USE_BEDROCK="1",
        HTTPS_PROXY="http://proxy.example:1", ANTHROPIC_BASE_URL="https://elsewhere.example", no_proxy="corp.example",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    environment = desk.recorded()["environment"]
    assert "ANTHROPIC_API_KEY" not in environment
    assert "CLAUDE_CODE_USE_BEDROCK" not in environment
    assert environment["ANTHROPIC_BASE_URL"] == desk.recorded()["url"]
    assert environment["NO_PROXY"] == "corp.example,127.0.0.1,localhost,::1"


MINE = '{\n  // mine\n  "theme": "One",\n}\n'


def test_zeds_settings_are_shown_changed_and_changed_back(desk: Desk, agent_model: Path) -> None:
    desk.zed.write_text(MINE)
    refused = desk.launch("zed", "--model", agent_model)
    assert refused.returncode == 2
    assert "add --yes" in refused.stderr
    assert '+    "openai_compatible": {' in refused.stderr
    assert not desk.record.exists()
    assert desk.zed.read_text() == MINE
    done = desk.launch("zed", "--model", agent_model, "--yes")
    assert done.returncode == 0, done.stderr
    changed = desk.recorded()["files"]["zed"]
    assert '"provider": "localllm"' in changed
    assert "// mine" in changed
    assert desk.zed.read_text() == MINE


@needs_pty
def test_who_says_no_has_nothing_changed_and_no_agent_started(
    desk: Desk, agent_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.zed.write_text(MINE)
    for name in list(os.environ):
        monkeypatch.delenv(name)
    with Terminal("zed", "--model", agent_model, command="launch", **desk.environment()) as terminal:
        terminal.until(b"until the agent ends? [y/N] ")
        terminal.type(b"n\n")
        assert terminal.end() == 1
    assert not desk.record.exists()
    assert desk.zed.read_text() == MINE


def test_after_a_kill_the_settings_come_back_and_the_server_is_gone(desk: Desk, agent_model: Path) -> None:
    desk.zed.write_text(MINE)
    with desk.start("zed", "--model", agent_model, "--yes") as process:
        assert desk.zed.read_text() != MINE
        process.kill()
        process.wait()
        done = desk.launch("--undo")
        assert done.stderr == f"localllm: {desk.zed} was restored\n"
        assert desk.zed.read_text() == MINE
        os.killpg(process.pid, signal.SIGTERM)  # the agent
        assert process.stdout is not None
        assert process.stdout.read() == b""
    assert desk.left() == []
    assert desk.launch("--undo").stderr == "localllm: nothing to undo\n"


def test_the_next_launch_of_any_agent_takes_back_what_a_killed_one_left(desk: Desk, agent_model: Path) -> None:
    with desk.start("zed", "--model", agent_model, "--yes") as process:
        os.killpg(process.pid, signal.SIGKILL)
    assert desk.zed.exists()
    done = desk.launch("aider", "--model", agent_model, "--yes")
    assert f"{desk.zed} was deleted again" in done.stderr
    assert not desk.zed.exists()


@pytest.mark.parametrize(("number", "to_group"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_a_signal_is_the_agents_and_what_was_set_is_taken_back(
    number: signal.Signals, to_group: bool, desk: Desk, agent_model: Path
) -> None:
    """A terminal sends Ctrl-C to the whole group; who ends localllm ends the agent."""
    desk.zed.write_text(MINE)
    with desk.start("zed", "--model", agent_model, "--yes") as process:
        if to_group:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        assert process.wait(TIMEOUT_S) == 40 + number
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    assert desk.zed.read_text() == MINE
    assert not is_served(desk.recorded()["url"])


@pytest.fixture
def server(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Server]]:
    """Of the same user, with an admin's key and a plain one."""
    monkeypatch.setenv("LOCALLLM_HOME", str(desk.data))
    monkeypatch.setenv("LOCALLLM_API_KEYS", "me(admin)=secret-admin,agents=secret-agents")
    started: list[Server] = []

    def start(*args: str | Path) -> Server:
        started.append(Server(*args))
        return started[-1]

    yield start
    for each in started:
        each.__exit__()


def test_a_running_server_is_used_with_a_key_that_is_no_admins(
    desk: Desk, server: Callable[..., Server], agent_model: Path
) -> None:
    running = server(agent_model, "--ctx", str(CTX), "--slots", "1")
    keys = os.environ["LOCALLLM_API_KEYS"]
    port = running.url.rpartition(":")[2]
    done = desk.launch("claude", LOCALLLM_PORT=port, LOCALLLM_API_KEYS=keys)
    assert done.returncode == 0, done.stderr
    seen = desk.recorded()
    assert (seen["url"], seen["key"]) == (running.url, "secret-agents")
    assert seen["environment"]["ANTHROPIC_MODEL"] == "agent"
    assert is_served(running.url)
    (process,) = httpx.get(
        f"{running.url}/localllm/ps", headers={"authorization": "Bearer secret-admin"}, trust_env=False
    ).json()["models"]
    assert process["expires_in_s"] is None  # `serve MODEL` keeps it, and so it was left
    printed = desk.launch("codex", "--print", LOCALLLM_PORT=port, LOCALLLM_API_KEYS=keys)
    assert "export LOCALLLM_API_KEY=secret-agents" in printed.stdout
    assert f"model_context_window={CTX}" in printed.stdout
    assert "no server is running" not in printed.stderr


def test_a_model_that_the_running_server_loads_for_an_agent_leaves_some_time_after_it(
    desk: Desk, server: Callable[..., Server], agent_model: Path, cli: Any
) -> None:
    done = cli("import", agent_model, "--name", "agent")
    assert done.returncode == 0, done.stderr
    running = server("--model-keep-alive-s", "200")
    more = {"LOCALLLM_PORT": running.url.rpartition(":")[2], "LOCALLLM_API_KEYS": os.environ["LOCALLLM_API_KEYS"]}
    headers = {"authorization": "Bearer secret-admin"}

    def expiry() -> float | None:
        (process,) = httpx.get(f"{running.url}/localllm/ps", headers=headers, trust_env=False).json()["models"]
        assert process["ctx"] == 65_536
        seconds: float | None = process["expires_in_s"]
        return seconds

    with desk.start("claude", **more) as process:
        assert expiry() is None
        process.terminate()
        assert process.wait(TIMEOUT_S) == 40 + signal.SIGTERM
    seconds = expiry()
    assert seconds is not None
    assert seconds <= 300
    assert [model["id"] for model in desk.recorded()["models"] if model["loaded"]] == ["agent"]


def test_a_running_server_loads_for_an_editor_what_was_printed(
    desk: Desk, server: Callable[..., Server], agent_model: Path, cli: Any
) -> None:
    assert cli("import", agent_model, "--name", "agent").returncode == 0
    running = server("demo")
    more = {"LOCALLLM_PORT": running.url.rpartition(":")[2], "LOCALLLM_API_KEYS": os.environ["LOCALLLM_API_KEYS"]}
    printed = desk.launch("kilo", "--print", **more)
    assert "has not loaded agent" in printed.stderr
    done = desk.launch("kilo", **more)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed.stdout
    assert '"context": 65536' in done.stdout
    assert "secret" not in done.stdout
    headers = {"authorization": "Bearer secret-admin"}
    listed = httpx.get(f"{running.url}/localllm/ps", headers=headers, trust_env=False).json()["models"]
    assert {model["model"]: model["ctx"] for model in listed}["agent"] == 65_536


PRINT_ALL = """
import sys
from localllm.cli.app import app

model, *agents = sys.argv[1:]
for name in agents:
    try:
        app(["launch", name, "--model", model, "--print"], prog_name="localllm")
    except SystemExit as end:
        assert not end.code, (name, end.code)
    for stream in (sys.stdout, sys.stderr):
        print("END", file=stream, flush=True)
"""


def test_print_starts_nothing_and_writes_nothing(desk: Desk, agent_model: Path) -> None:
    """For all agents, one after the other in one process."""
    desk.zed.write_text(MINE)
    before = sorted(desk.data.rglob("*"))
    done = subprocess.run(
        [sys.executable, "-P", "-c", PRINT_ALL, agent_model, *AGENTS],
        env=desk.environment(PATH="/usr/bin:/bin"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    printed, said = (text.split("END\n")[:-1] for text in (done.stdout, done.stderr))
    assert len(printed) == len(said) == len(AGENTS)
    assert all("http://127.0.0.1:1" in each and "agent" in each for each in printed)
    assert all(f"localllm serve {agent_model} --ctx=65536 --slots=2" in each for each in said)
    assert sorted(desk.data.rglob("*")) == before
    assert desk.zed.read_text() == MINE


def test_it_is_printed_of_a_model_that_is_not_loaded_that_it_sees_and_hears(
    desk: Desk, media_model: Callable[[MediaModelKind], MediaModel]
) -> None:
    made = media_model("omni")
    done = desk.launch("opencode", "--model", made.model, "--mmproj", made.projector, "--print")
    assert done.returncode == 0, done.stderr
    assert '"input":["text","image","audio"]' in done.stdout.replace("\\", "")
    blind = desk.launch("opencode", "--model", made.model, "--projector=off", "--print")
    assert '"modalities"' not in blind.stdout


def test_what_is_printed_runs_in_a_shell_as_the_launch_does(desk: Desk, agent_model: Path) -> None:
    """With the real server's address in the place of the one that was printed."""
    with desk.start("aider", "--model", agent_model, "--yes") as process:
        seen = desk.recorded()
        printed = desk.launch("aider", "--model", agent_model, "--print").stdout
        script = printed.replace("http://127.0.0.1:1", seen["url"])
        script = re.sub(r"AIDER_OPENAI_API_KEY=\S+", f"AIDER_OPENAI_API_KEY={seen['key']}", script)
        done = subprocess.run(["sh"], input=script, env=desk.environment(), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert desk.recorded()["files"] == seen["files"]
        process.terminate()


def test_an_agent_that_is_not_installed_is_told_how_to_get(desk: Desk, agent_model: Path) -> None:
    done = desk.launch("opencode", "--model", agent_model, PATH="/usr/bin:/bin")
    assert done.returncode == 1
    assert done.stderr == (
        "localllm: opencode is not installed (opencode is not in PATH): npm install -g opencode-ai\n"
    )


def test_an_agent_where_its_installer_puts_it_is_found_without_a_path(desk: Desk, agent_model: Path) -> None:
    folder = desk.home / ".opencode" / "bin"
    folder.mkdir(parents=True)
    (desk.programs / "opencode").rename(folder / "opencode")
    assert desk.launch("opencode", "--model", agent_model, PATH="/usr/bin:/bin").returncode == 0
    listed = desk.launch().stdout
    assert str(folder / "opencode") in listed
    assert [line.split()[0] for line in listed.splitlines()] == ["AGENT", *AGENTS]


def test_without_a_model_it_says_how_to_get_one_and_does_not_take_the_demo(desk: Desk) -> None:
    done = desk.launch("claude")
    assert done.returncode == 3
    assert "--model qwen3:4b downloads one" in done.stderr


def test_who_asks_for_the_demo_gets_it_with_the_truth_about_it(desk: Desk) -> None:
    refused = desk.launch("claude", "--model", "demo")
    assert refused.returncode == 2
    assert "not capable of agent work" in refused.stderr
    assert "but this model has 2,048" in refused.stderr
    done = desk.launch("claude", "--model", "demo", "--yes")
    assert done.returncode == 0, done.stderr
    assert desk.recorded()["environment"]["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] == "2048"


def test_a_model_whose_template_knows_no_tools_is_doubted(desk: Desk, tiny_chat_model: Path) -> None:
    done = desk.launch("aider", "--model", tiny_chat_model)
    assert done.returncode == 2
    assert "calls may arrive as text" in done.stderr


def test_a_model_without_a_template_is_doubted(desk: Desk, tiny_model: Path) -> None:
    done = desk.launch("aider", "--model", tiny_model)
    assert done.returncode == 2
    assert "has no chat template, so it cannot call tools" in done.stderr


def test_what_cannot_be_loaded_is_an_error_before_any_agent_starts(desk: Desk, agent_model: Path) -> None:
    done = desk.launch("aider", "--model", agent_model, "--ctx", "200000", "--yes")
    assert done.returncode == 2
    assert "trained for" in done.stderr
    assert not desk.record.exists()


def test_an_editors_settings_are_printed_and_served_until_ctrl_c(desk: Desk, agent_model: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "launch", "cline", "--model", str(agent_model), "--port", "0"],
        env=desk.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "Cline in VS Code" in first_output(process)
        assert "OpenAI Compatible" in process.stdout.readline()
        line_with(process, "serving agent at")
        assert select.select([process.stderr], [], [], 0) is not None
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) in (0, 130)
