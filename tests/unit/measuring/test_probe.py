"""A question to a child that may do anything: real children that die, hang, print and repeat themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from localllm.measuring import probe


class Number(msgspec.Struct):
    """Question and answer."""

    value: int


SERVES = """
import os, sys, time
from localllm.measuring import probe
from tests.unit.measuring.test_probe import Number
def reply(question, send):
    {deed}
probe.serve(Number, reply)
"""


def command(deed: str) -> list[str]:
    return [sys.executable, "-c", SERVES.format(deed=deed)]


def asked(deed: str, limit_s: float = 30) -> tuple[Number | None, probe.Failure | None]:
    return probe.ask(command(deed), Number(3), Number, limit_s)


def test_the_last_answer_counts_and_what_native_code_prints_is_none() -> None:
    assert asked("send(Number(1)); os.write(1, b'noise'); print('noise'); send(Number(question.value))") == (
        Number(3),
        None,
    )


@pytest.mark.parametrize(
    ("deed", "kind", "detail"),
    [
        pytest.param(
            "os.abort()", "died", "signal SIGABRT", marks=pytest.mark.skipif(sys.platform == "win32", reason="POSIX")
        ),
        ("print('no such thing', file=sys.stderr); os._exit(3)", "failed", "exit code 3: no such thing"),
        ("time.sleep(600)", "hung", "no answer in 3 s"),
    ],
)
@pytest.mark.parametrize("finding", [None, Number(7)])
def test_a_child_that_fails_is_told_apart_and_what_it_found_before_is_kept(
    deed: str, kind: str, detail: str, finding: Number | None
) -> None:
    found, failure = asked(deed if finding is None else f"send(Number(7)); {deed}", 3 if kind == "hung" else 30)
    assert found == finding
    assert failure is not None
    assert failure.kind == kind
    assert detail in failure.detail


@pytest.mark.parametrize(
    ("argv", "detail"),
    [
        ([sys.executable, "-c", "print('hello')"], "unreadable"),
        ([sys.executable, "-c", ""], "it gave no answer"),
        ([str(Path(sys.executable).with_name("nowhere"))], "does not start"),
    ],
)
def test_a_child_without_an_answer_failed(argv: list[str], detail: str) -> None:
    found, failure = probe.ask(argv, Number(3), Number, 30)
    assert found is None
    assert failure is not None
    assert (failure.kind, detail in failure.detail) == ("failed", True)


def test_a_child_whose_parent_was_killed_ends_itself_even_in_native_code() -> None:
    """Sleeping in C with the GIL held, as a kernel that never ends."""
    child = [*command("import ctypes; ctypes.PyDLL(None).sleep(600)"), "0.3"]
    if sys.platform == "win32":
        pytest.skip("its C library has no sleep")
    done = subprocess.run(child, input=b'{"value":1}', capture_output=True, timeout=30, check=False)
    assert (done.returncode != 0, done.stdout) == (True, b"")
