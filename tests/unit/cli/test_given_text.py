"""Bytes from pipes, keyboards and arguments become text, or a sentence."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from localllm.cli.shared.given_text import decoded, typed
from localllm.system.programs import own_command

TEXT = "What is naïve? 🙂"


def test_utf_8_and_utf_16_are_told_apart_with_and_without_a_mark(capsys: pytest.CaptureFixture[str]) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"):
        assert decoded(TEXT.encode(encoding), "x") == TEXT
    assert decoded(b"", "x") == ""
    assert decoded("中文".encode(), "x") == "中文"
    assert capsys.readouterr().err == ""


def test_what_is_not_text_is_replaced_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert decoded(b"caf\xe9 x", "the standard input") == "caf\ufffd x"
    assert "the standard input is not valid UTF-8 from byte 3 on" in capsys.readouterr().err
    assert typed("caf\udce9") == "caf\ufffd"
    assert "the line is not valid UTF-8" in capsys.readouterr().err
    assert typed(TEXT) == TEXT


@pytest.mark.skipif(sys.platform == "win32", reason="arguments are UTF-16 there, and descriptors cannot be closed so")
@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_standard_streams_are_the_null_device(closed: tuple[int, ...]) -> None:
    def close() -> None:
        for fd in closed:
            os.close(fd)

    done = subprocess.run([*own_command("localllm"), "list"], capture_output=True, preexec_fn=close)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (b"demo" in done.stdout) is (1 not in closed)


@pytest.mark.skipif(sys.platform == "win32", reason="arguments are UTF-16 there")
def test_an_argument_that_is_not_utf_8_is_told() -> None:
    done = subprocess.run([*own_command("localllm"), "search", b"\xff\xfeabc"], capture_output=True)
    assert done.returncode == 2
    assert done.stderr.startswith(b"localllm: b'\\xff\\xfeabc' is not valid UTF-8")
