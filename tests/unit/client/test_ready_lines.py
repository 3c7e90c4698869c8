"""The lines of `serve --ready json`."""

from __future__ import annotations

import pytest

from localllm.client.ready import Failure, Line, Progress, Ready, decode, encode
from localllm.errors import ErrorInfo


@pytest.mark.parametrize(
    "line",
    [
        Progress(0.25),
        Ready("http://127.0.0.1:1", "t", "m", 3, "0.1.0"),
        Ready("http://127.0.0.1:1", "t", None, 3, "0.1.0"),
        Failure(ErrorInfo("load_failed", "no", details={"n": 1})),
    ],
)
def test_a_line_is_read_as_it_was_written(line: Line) -> None:
    raw = encode(line)
    assert raw.endswith(b"\n")
    assert b"\n" not in raw[:-1]
    assert decode(raw) == line


@pytest.mark.parametrize("raw", [b"", b"noise\n", b"{}\n", b'{"later": 1}\n', b"[1]\n", b"\xff\n"])
def test_a_line_that_is_nobodys_is_skipped(raw: bytes) -> None:
    assert decode(raw) is None
