"""Every example of the guide to embedding runs as it stands, on the model that is carried."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import localllm

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


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_an_example_in_python_answers(number: int, home: Path) -> None:
    assert len(_run([sys.executable, "-c", PYTHON[number]], home).split()) > 5


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
