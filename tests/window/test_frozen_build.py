"""The frozen build (`native/localllm.spec`), really made and run: no Python is needed to answer, serve or show."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.servers import Server
from tests.window.conftest import Windows, ended
from tests.window.test_window import ask

ROOT = Path(__file__).parents[2]
BUILD_S = 1200.0
RUN_S = 120.0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What PyInstaller makes; FROZEN_LOCALLLM names one that is made already."""
    if made := os.environ.get("FROZEN_LOCALLLM"):
        return Path(made)
    if importlib.util.find_spec("PyInstaller") is None:
        pytest.skip("no PyInstaller")
    folder = tmp_path_factory.mktemp("frozen")
    command = [sys.executable, "-m", "PyInstaller", "--noconfirm", "--distpath", str(folder / "dist")]
    command += ["--workpath", str(folder / "work"), str(ROOT / "native" / "localllm.spec")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder / "dist" / "localllm" / "localllm"


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Python on the PATH, and none that another variable leads to."""
    monkeypatch.setenv("LOCALLLM_HOME", str(tmp_path / "home"))
    for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)


def run(program: Path, *args: str) -> str:
    done = subprocess.run(
        [str(program), *args],
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
        env=os.environ | {"PATH": "/nonexistent"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.exhaustive
def test_a_frozen_program_answers_holds_answers_to_a_schema(program: Path, alone: None) -> None:
    assert "demo" in run(program, "run", "demo", "What is the capital of France?")
    assert run(program, "run", "demo", "Name a city.", "--json").startswith("{")
    assert "works" in run(program, "doctor")


@pytest.mark.exhaustive
def test_a_frozen_program_serves_and_ends_with_its_workers(
    program: Path, alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.e2e.servers.COMMAND", [str(program)])
    with Server("demo") as server:
        assert server.status() == 200
        assert server.status(path="/ui/main.js") == 200
        pid = server.process.pid
    assert ended({pid})


@pytest.mark.exhaustive
def test_a_frozen_program_has_a_window(program: Path, alone: None, windows: Windows, tmp_path: Path, port: str) -> None:
    started_s = time.monotonic()
    window = windows.open(tmp_path / "home", "demo", "--port", port, command=(str(program),))
    window.page.wait("document.querySelector('select').value === 'demo'")
    print(f"page and model after {time.monotonic() - started_s:.1f} s")
    ask(window.page)
    pids = window.processes()
    assert window.close() == 0
    assert ended(pids)
