"""`localllm` alone: a menu in a terminal, the help in a pipe."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.e2e.conftest import COMMAND, TIMEOUT_S
from tests.e2e.terminal import Terminal, needs_pty


@needs_pty
def test_an_entry_of_the_menu_runs_its_command(tmp_path: Path) -> None:
    with Terminal(command=None, LOCALLLM_HOME=str(tmp_path)) as terminal:
        terminal.until(b"q leaves")
        terminal.type(b"1")
        terminal.until(b"$ localllm run demo")
        terminal.until(b">>> ")
        terminal.type(b"\x04")
        assert terminal.end() == 0


@needs_pty
def test_leaving_the_menu_does_nothing(tmp_path: Path) -> None:
    with Terminal(command=None, LOCALLLM_HOME=str(tmp_path)) as terminal:
        terminal.until(b"q leaves")
        terminal.type(b"q")
        assert terminal.end() == 0


def test_in_a_pipe_it_is_the_help() -> None:
    done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 2
    assert "Commands:" in done.stdout
