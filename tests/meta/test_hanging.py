"""A test that hangs or ends its process fails, once, and all others run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
CONFTEST = """
from tests.scheduler import ByFile

def pytest_xdist_make_scheduler(config, log):
    return ByFile(config, log)
"""
TESTS = """
import os, socket

def test_first():
    pass

def test_that_reads_for_ever():
    left, right = socket.socketpair()
    right.close()
    while not left.recv(9):
        pass

def test_between():
    pass

def test_that_ends_its_process():
    with open(os.environ["RUNS"], "a") as file:
        file.write("once")
    os._exit(3)

def test_last():
    pass
"""


def test_others_run_and_it_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "test_others.py").write_text("def test_other(): pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 3\n")
    monkeypatch.setenv("RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    command = [sys.executable, "-m", "pytest", "-n", "2", "-p", "no:langsmith_plugin", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 failed, 4 passed" in done.stdout.splitlines()[-1], done.stdout
    assert (tmp_path / "runs").read_text() == "once"
