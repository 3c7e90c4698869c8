"""Every snippet in Python of the guide to embedding runs as it stands, on the model that is carried."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import localllm
from localllm.registry import catalog
from tests.e2e.guide import BLOCKS, snippets
from tests.registry.hub_server import HubServer, Repo

PYTHON = snippets("python")
TIMEOUT_S = 120
MYPY_TIMEOUT_S = 300
MOST_LINES, MOST_LINES_OF_A_PROGRAM = 24, 45


def _run(command: list[str], home: Path, **env: str) -> str:
    environment = {**os.environ, "LOCALLLM_HOME": str(home), **env}
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT_S, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def hub(tiny_chat_model: Path) -> Iterator[HubServer]:
    """Has the model that the guide pulls, much smaller."""
    entry = catalog.load().find("qwen3", "0.6b")
    assert entry is not None
    files = {f"tiny-{entry.quant}.gguf": tiny_chat_model.read_bytes()}
    with HubServer({entry.repo: Repo(files, {"license": "mit"})}) as hub:
        yield hub


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_an_example_in_python_answers(number: int, home: Path, hub: HubServer) -> None:
    said = _run([sys.executable, "-c", PYTHON[number]], home, LOCALLLM_HUB_ENDPOINT=hub.url)
    assert len(said.split()) > 5
    assert "no pull" not in said


def test_every_example_passes_a_strict_type_check(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    programs = [block for block in BLOCKS if block.language == "python" and "qasync" not in block.text]
    for number, block in enumerate(programs):
        (tmp_path / f"example_{number}.py").write_text(block.text, "utf-8")
    kept = getattr(pytestconfig, "cache", None)  # `-p no:cacheprovider` has none
    cache = tmp_path / "cache" if kept is None else kept.mkdir("guide-mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", f"--cache-dir={cache}", "."],
        capture_output=True,
        text=True,
        timeout=MYPY_TIMEOUT_S,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(Path(localllm.__file__).parents[1])},
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_every_example_stays_short() -> None:
    assert len(BLOCKS) > len(PYTHON) > 8
    for block in BLOCKS:
        most = MOST_LINES if block.file_name is None else MOST_LINES_OF_A_PROGRAM
        assert len([line for line in block.text.splitlines() if line.strip()]) <= most, block.text
