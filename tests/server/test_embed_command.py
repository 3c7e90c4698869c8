"""`localllm embed` against a running server whose model is scripted: what it reads, prints and refuses."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from localllm.cli.commands.embed import BATCH_TEXTS, EmbedOptions, embed_texts
from localllm.cli.shared import report
from localllm.errors import ContextLengthExceeded, InvalidParameter, LocalLLMError
from tests.server.conftest import Served
from tests.server.fake_runtime import tiny_model

NOTHING = EmbedOptions(
    model="demo",
    texts=None,
    file=None,
    query=None,
    dimensions=None,
    no_normalize=False,
    truncate=False,
    as_json=False,
    npy=None,
    load={},
)


@pytest.fixture(autouse=True)
def there(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is the one that runs already, and has the model."""
    served.runtime.models = [tiny_model("demo")]
    monkeypatch.setenv("LOCALLLM_PORT", str(served.address[1]))
    _type(monkeypatch, b"")


def _type(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text))))


def _run(*texts: str, **given: Any) -> int:
    return embed_texts(NOTHING._replace(texts=texts, **given))


def test_a_vector_is_a_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("a", "bc", dimensions=2) == report.OK
    assert capsys.readouterr().out == "[0.100000001,-0.25]\n[1.10000002,-0.25]\n"


def test_texts_come_from_a_file_or_stdin_a_line_each(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "texts"
    file.write_bytes("a \u2028 b\r\n✓\n".encode())
    _run(file=file)
    _type(monkeypatch, b"c\nd")
    _run()
    _type(monkeypatch, b"e\n")
    _run(file=Path("-"))
    assert [request.texts for request in served.runtime.embedded] == [("a \u2028 b", "✓"), ("c", "d"), ("e",)]


def test_many_texts_go_in_several_requests_and_come_out_in_order(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _type(monkeypatch, b"x\n" * (BATCH_TEXTS + 2))
    served.runtime.truncated = (1,)
    _run(as_json=True, truncate=True)
    assert [len(request.texts or ()) for request in served.runtime.embedded] == [BATCH_TEXTS, 2]
    printed = capsys.readouterr()
    whole = json.loads(printed.out)
    assert (whole["model"], len(whole["embeddings"])) == ("demo", BATCH_TEXTS + 2)
    assert (whole["prompt_tokens"], whole["truncated"]) == (BATCH_TEXTS + 2, [1, BATCH_TEXTS + 1])
    assert printed.err == f"localllm: 2 of 258 texts were too long and were truncated: 2, {BATCH_TEXTS + 2}\n"


def test_long_texts_go_in_requests_that_a_server_takes(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localllm.cli.commands.embed.BATCH_CHARS", 100)
    _run("x" * 60, "y" * 60, "z" * 300, "short", "shorter")
    assert [len(request.texts or ()) for request in served.runtime.embedded] == [2, 1, 2]


def test_an_array_is_written_for_numpy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run("a", "b", npy=tmp_path / "x.npy")
    found = np.load(tmp_path / "x.npy")
    assert (found.dtype, found.shape) == (np.float32, (2, 4))
    assert found[1, 0] == np.float32(1.1)
    assert capsys.readouterr().out == ""


def test_without_pooling_a_text_is_an_array_of_vectors_and_no_row(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served.runtime.models = [msgspec.structs.replace(tiny_model("demo"), pooling="none")]
    _run("ab")
    assert np.array(json.loads(capsys.readouterr().out)).shape == (2, 4)
    with pytest.raises(InvalidParameter, match="--npy"):
        _run("ab", npy=tmp_path / "x.npy")


def test_a_query_ranks_the_texts(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    served.runtime.scores = [-1.0, 1.0]
    assert _run("apple", "pear", query="fruit") == report.OK
    assert capsys.readouterr().out == "0.7311\tpear\n0.2689\tapple\n"
    _run("apple", "pear", query="fruit", as_json=True)
    whole = json.loads(capsys.readouterr().out)
    assert [(result["index"], result["text"]) for result in whole["results"]] == [(1, "pear"), (0, "apple")]
    assert [request.query for request in served.runtime.ranked] == ["fruit"] * 2


def test_the_text_at_fault_is_named_by_its_number(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.runtime.refusal = ContextLengthExceeded("input 1 has 9 tokens", param="input", item=1)
    with pytest.raises(ContextLengthExceeded, match="text 2 has 9 tokens"):
        _run("a", "b")
    served.runtime.refusal = ContextLengthExceeded("document 0 has 9 tokens", param="documents", item=0)
    with pytest.raises(ContextLengthExceeded, match="text 1 has 9 tokens"):
        _run("a", "b", query="q")


@pytest.mark.parametrize(
    ("given", "stdin", "reason"),
    [
        ({}, b"", "no text"),
        ({}, b"a\n\nb\n", "line 2 is empty"),
        ({"texts": ["a"], "file": Path("x")}, b"", "--file"),
        ({"file": Path("no-such-file")}, b"", "--file cannot be read"),
        ({"texts": ["a"], "query": "q", "dimensions": 3}, b"", "--dimensions"),
        ({"texts": ["a"], "query": "q", "no_normalize": True}, b"", "--no-normalize"),
        ({"texts": ["a"], "query": "q", "npy": Path("x")}, b"", "--npy"),
        ({"texts": ["a"], "as_json": True, "npy": Path("x")}, b"", "--npy"),
        ({"texts": ["a"], "npy": Path("no-such-folder/x")}, b"", "--npy cannot be written"),
        ({"texts": ["a"], "query": ""}, b"", "query"),
    ],
)
def test_what_cannot_be_done_is_an_error_with_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], stdin: bytes, reason: str
) -> None:
    _type(monkeypatch, stdin)
    with pytest.raises(LocalLLMError, match=reason) as refused:
        embed_texts(NOTHING._replace(**given))
    assert report.exit_code(refused.value) == report.USAGE
