"""Saved conversations and SIGKILL: whenever writers die, what is found is whole, and what was written is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork, which Windows has not")


def test_processes_killed_while_they_write_leave_whole_conversations_only(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.crashing_kvdisk", str(tmp_path), "7"],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *complaints, conversations = done.stdout.splitlines()
    assert complaints == []
    assert int(conversations.split()[0]) > 50
