"""Bytes from pipes, keyboards and arguments become text, or a sentence."""

from __future__ import annotations

import codecs
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from localllm.cli.shared.given_text import MAX_SYSTEM_BYTES, decoded, decoded_lines, system_text, typed
from localllm.errors import InvalidParameter
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


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_lines_are_read_as_they_arrive_in_any_encoding(encoding: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`embed` answers the first line before the second one is there."""
    read_fd, write_fd = os.pipe()
    with open(read_fd, "rb") as file, open(write_fd, "wb", buffering=0) as pipe:
        first, second = f"{TEXT}\r\n".encode(encoding), "b\x85c".encode(encoding.replace("-sig", ""))
        pipe.write(first)
        lines = decoded_lines(file, "x")
        assert next(lines) == TEXT
        pipe.write(second.removeprefix(codecs.BOM_UTF16_LE))
        pipe.close()
        assert [*lines] == ["b\x85c"]
        assert not file.closed
    assert capsys.readouterr().err == ""


def test_lines_that_are_not_text_are_replaced_and_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    file = io.BufferedReader(io.BytesIO(b"a\ncaf\xe9\n\xff"))
    assert [*decoded_lines(file, "the file")] == ["a", "caf\ufffd", "\ufffd"]
    assert capsys.readouterr().err.count("line 2 of the file is not valid UTF-8") == 1


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


def test_a_system_message_comes_from_a_file_or_from_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "system.md"
    file.write_bytes("\ufeffSei kurz.\r\n".encode())
    assert system_text(None, file) == "Sei kurz."
    with pytest.raises(InvalidParameter, match="exclude each other"):
        system_text("Be brief.", file)
    with pytest.raises(InvalidParameter, match="cannot be read"):
        system_text(None, tmp_path / "none")
    file.write_bytes(b"x" * (MAX_SYSTEM_BYTES + 1))
    with pytest.raises(InvalidParameter, match="has more than"):
        system_text(None, file)
