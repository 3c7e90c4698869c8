"""A program without an interpreter: its children are itself. As PyInstaller makes them, and as a script pretends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import TIMEOUT_S

PROGRAM = """\
#!{python}
import sys
sys.frozen, sys.executable = True, __file__
from localllm.system.programs import run_child
run_child()
from localllm.cli import main
main()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Takes itself for frozen: `python -m` is nowhere to be had."""
    path = tmp_path / "program"
    path.write_text(PROGRAM.format(python=sys.executable), "utf-8")
    path.chmod(0o755)
    return path


def output(program: Path, *args: str) -> str:
    done = subprocess.run([str(program), *args], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(os.name == "nt", reason="Windows starts no script by its first line")
def test_a_program_without_an_interpreter_answers_and_holds_answers_to_a_schema(program: Path, tmp_path: Path) -> None:
    """The server, the worker, the self-test and the children for templates and grammars are the program itself."""
    assert output(program, "run", "demo", "What is the capital of France?").strip()
    assert output(program, "run", "demo", "Name a city.", "--json").startswith("{")


@pytest.mark.skipif(os.name == "nt", reason="Windows starts no script by its first line")
def test_a_program_without_an_interpreter_says_that_it_cannot_compile(program: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(program), "runtime", "build", "cpu", "--home", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 4
    assert "a build needs Python and pip" in done.stderr


def test_only_modules_of_ours_are_run_as_children(program: Path) -> None:
    done = subprocess.run(
        [str(program), "--localllm-child", "http.server"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "not 'http.server'" in done.stderr
