"""The model store and SIGKILL: at whatever step a process dies, what is listed is whole, and the rest can go."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork, which Windows has not")


def run_crashing(*arguments: str) -> list[str]:
    """What it prints, line by line: complaints, then a count."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.crashing_store", *arguments],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_a_process_killed_at_any_step_leaves_whole_models_and_can_be_repeated(tmp_path: Path, every: int) -> None:
    *complaints, steps = run_crashing("steps", str(tmp_path / "store"), str(every))
    assert complaints == []
    assert int(steps.split()[0]) > 150


def test_processes_killed_while_others_work_spoil_nothing(tmp_path: Path) -> None:
    *complaints, models = run_crashing("together", str(tmp_path / "store"), "6")
    assert complaints == []
    assert int(models.split()[0]) > 10
