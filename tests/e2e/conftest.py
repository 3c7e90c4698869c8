"""The command line as a user meets it: real processes, the real llama.cpp, a tiny random model."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import AnyStr

import pytest

from tests.waiting import killed_after

TIMEOUT_S = 120
COMMAND = [sys.executable, "-P", "-m", "localllm"]

if importlib.util.find_spec("llama_cpp") is None:
    collect_ignore = [
        "test_bench.py", "test_chat.py", "test_demo.py", "test_embed.py", "test_hostile_values.py", "test_launch.py",
        "test_llm.py", "test_models.py", "test_on_demand.py", "test_run.py", "test_serve.py",
    ]  # fmt: skip


class Cli:
    """Runs `localllm` to its end."""

    def __call__(self, *args: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*COMMAND, *map(str, args)],
            input=stdin if stdin is not None else "",
            capture_output=True,
            encoding="utf-8",
            timeout=TIMEOUT_S,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done


def first_output(process: subprocess.Popen[AnyStr], size: int = -1) -> AnyStr:
    """The first line, or at most `size` of it; if it ends without, the test fails with its exit code and its log.

    process: its stdout and stderr are pipes.
    """
    assert process.stdout is not None
    with killed_after(TIMEOUT_S, process):
        output = process.stdout.readline(size)
    if not output:
        log = process.communicate(timeout=TIMEOUT_S)[1]
        pytest.fail(f"ended with {process.returncode} before it printed anything: {log!r}")
    return output


@pytest.fixture(scope="session")
def cli(home: Path) -> Cli:
    """After `home`, so that no command touches the user's own."""
    return Cli()
