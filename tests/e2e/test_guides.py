"""Every example of the guide to embedding runs as it stands, on the model that is carried."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import localllm
from localllm.registry import catalog
from tests.registry.hub_server import HubServer, Repo

GUIDE = (Path(localllm.__file__).parent / "EMBEDDING.md").read_text("utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
(JAVASCRIPT,) = re.findall(r"```js\n(.*?)```", GUIDE, re.DOTALL)
TIMEOUT_S = 120


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


def test_every_example_stays_short() -> None:
    for example in PYTHON:
        assert len([line for line in example.splitlines() if line.strip()]) <= 24, example


def test_the_example_for_node_answers_with_the_official_client(home: Path, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node")
    has_client = subprocess.run([node, "-e", 'require("openai")'], capture_output=True, cwd=tmp_path, check=False)
    if has_client.returncode != 0:
        pytest.skip("needs the openai package of npm; NODE_PATH names the folder that holds it")
    (tmp_path / "main.js").write_text(JAVASCRIPT, "utf-8")
    command = shutil.which("localllm", path=str(Path(sys.executable).parent))
    assert command is not None
    answer = _run([node, str(tmp_path / "main.js")], home, LOCALLLM_COMMAND=command)
    assert len(answer.split()) > 3
