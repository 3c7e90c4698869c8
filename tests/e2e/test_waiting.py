"""A registry that is not there, as a person at a terminal sees it: why, for whom it waits, and Ctrl-C ends it."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from localllm.cli.shared.report import INTERRUPTED
from tests.e2e.conftest import COMMAND
from tests.e2e.terminal import Terminal, needs_pty


@pytest.mark.parametrize("command", ["pull", "push"])
@needs_pty
def test_a_registry_that_refuses_connections_is_waited_for_in_sight(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCALLLM_HOME", str(tmp_path))
    modelfile = tmp_path / "Modelfile"
    modelfile.write_text("FROM demo\n")
    subprocess.run([*COMMAND, "create", "mine:1", "-f", str(modelfile)], check=True, capture_output=True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # never listens
        host = f"127.0.0.1:{taken.getsockname()[1]}"
        words = ["mine:1", f"{host}/team/mine:1"] if command == "push" else [f"ollama:{host}/team/mine:1"]
        with Terminal(*words, command=command) as terminal:
            terminal.until(b"Connection")  # the line may break here
            terminal.until(b"trying again (Ctrl-C stops)")
            terminal.until(b"waiting for")
            terminal.until(b"s)")
            terminal.interrupt()
            assert terminal.end() == INTERRUPTED
    shown = terminal.everything.replace(b"\x1b[2K", b"")
    assert host.encode() in shown
    assert b"2Kwaiting" not in shown, "an escape sequence of ours was shown as text"
