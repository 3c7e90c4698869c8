"""The guide's programs for Node, Electron and Tauri: the server starts, answers, ends, and outlives nobody."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localllm.client.ready import Ready, decode
from tests.e2e import guide
from tests.e2e.conftest import TIMEOUT_S, first_output
from tests.e2e.test_llm_ends import is_gone

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="needs Node")

Application = tuple[subprocess.Popen[str], Ready]
OWN = """
const { startLocalLLM } = require("./sidecar.js");
const [model, end] = process.argv.slice(2);
startLocalLLM(model).then(async ({ url, token, model, pid, ended, stop }) => {
  process.stdout.write(JSON.stringify({ url, token, model, pid, version: "" }) + "\\n");
  if (end === "stays") return;
  await (end === "stop" ? stop() : ended);
  process.stdout.write("ended\\n");
}, (error) => { console.log(`refused: ${error.message}`); });
"""
"""An application around `sidecar.js`: says where its server is, then ends it, waits for its end, or stays."""

ELECTRON = """
const { EventEmitter } = require("node:events");
const app = new EventEmitter();
app.whenReady = () => Promise.resolve();
app.getPath = () => process.env.USER_DATA;
app.exit = process.exit;
const handlers = {};
class BrowserWindow {
  constructor(options) { this.options = options; }
  async loadFile(page) {
    const sender = { send: (channel, text) => process.stdout.write(text) };
    await handlers.chat({ sender }, [{ role: "user", content: "What can you do?" }]);
    app.emit("will-quit");
  }
}
module.exports = { app, BrowserWindow, ipcMain: { handle: (name, handler) => { handlers[name] = handler; } } };
"""
"""A stand-in for the parts of Electron that `main.js` uses: one window, whose page asks once and is closed."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    guide.write(tmp_path, "sidecar.js", "chat.js", "main.js")
    (tmp_path / "own.js").write_text(OWN, "utf-8")
    return tmp_path


def _environment(home: Path, **more: str) -> dict[str, str]:
    command = shutil.which("localllm", path=str(Path(sys.executable).parent))
    assert command is not None
    return {**os.environ, "LOCALLLM_HOME": str(home), "LOCALLLM_COMMAND": command, **more}


def _run(folder: Path, home: Path, *args: str, **more: str) -> str:
    done = subprocess.run(
        [str(NODE), *args], cwd=folder, env=_environment(home, **more), capture_output=True, text=True,
        encoding="utf-8", timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def application(
    folder: Path, home: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[subprocess.Popen[str], Ready]]:
    """`own.js` with a server that answers."""
    args = [str(NODE), "own.js", "demo", request.param]
    with subprocess.Popen(
        args, cwd=folder, env=_environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        ready = decode(first_output(process).encode())
        assert isinstance(ready, Ready)
        yield process, ready
        process.kill()


@pytest.mark.parametrize("application", ["stop"], indirect=True)
def test_a_node_program_ends_its_server_and_waits_until_it_is_gone(
    application: Application,
) -> None:
    process, ready = application
    assert process.stdout is not None
    assert process.stdout.read() == "ended\n"
    assert is_gone(ready.pid)
    assert process.wait(TIMEOUT_S) == 0


@pytest.mark.parametrize("application", ["stays"], indirect=True)
def test_the_server_of_a_node_program_that_is_killed_ends_as_well(
    application: Application,
) -> None:
    process, ready = application
    os.kill(ready.pid, 0)  # raises if there is none
    process.kill()
    assert process.stderr is not None
    process.stderr.read()  # to its end: the server and its worker, who have it as well, are gone
    assert is_gone(ready.pid)


def test_a_node_program_hears_why_its_server_cannot_start(folder: Path, home: Path) -> None:
    assert "refused: " in (said := _run(folder, home, "own.js", "./no-such-model.gguf"))
    assert "no-such-model" in said
    assert "refused: " in _run(folder, home, "own.js", "demo", LOCALLLM_COMMAND=str(folder / "nothing"))


def test_the_example_for_node_answers_with_the_official_client(folder: Path, home: Path) -> None:
    if subprocess.run([str(NODE), "-e", 'require("openai")'], capture_output=True, cwd=folder, check=False).returncode:
        pytest.skip("needs the openai package of npm; NODE_PATH names the folder that holds it")
    assert len(_run(folder, home, "chat.js").split()) > 3


def test_the_main_process_of_electron_streams_to_its_window_and_ends_the_server(folder: Path, home: Path) -> None:
    module = folder / "node_modules" / "electron"
    module.mkdir(parents=True)
    (module / "index.js").write_text(ELECTRON, "utf-8")
    said = _run(folder, home, "main.js", USER_DATA=str(folder / "data"))  # returns, so nothing holds Node's event loop
    assert len(said.split()) > 3
    assert (folder / "data").is_dir()


def test_tauri_bundles_the_program_that_its_example_starts_with_the_options_of_the_sidecar() -> None:
    (rust,) = guide.snippets("rust")
    (config,) = guide.snippets("json")
    settings: dict[str, Any] = json.loads(config)
    started = re.search(r'sidecar\("(.*?)"\)', rust)
    assert started is not None
    assert settings["bundle"]["externalBin"] == [f"binaries/{started[1]}"]
    (arguments,) = re.findall(r"let arguments = (\[.*?\]);", rust)
    assert json.loads(arguments) == ["serve", "demo", "--port", "0", "--ready", "json"]


def test_the_example_in_rust_parses_and_is_formatted(tmp_path: Path) -> None:
    rustfmt = shutil.which("rustfmt")
    if rustfmt is None or subprocess.run([rustfmt, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("needs rustfmt")
    (rust,) = guide.snippets("rust")
    (tmp_path / "lib.rs").write_text(rust, "utf-8")
    done = subprocess.run(
        [rustfmt, "--check", "--edition", "2021", "lib.rs"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
