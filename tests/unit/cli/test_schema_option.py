"""`--schema` and `--json` of the command line: what is sent, what is refused by the file's name, what is printed."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from localllm.cli.chat.answer import Talk
from localllm.cli.chat.schema import document_format
from localllm.cli.commands.run import RunOptions, _answer
from localllm.cli.shared import report
from localllm.errors import InvalidParameter, UnsupportedParameter, WorkerCrashed
from localllm.types import Delta, Finish, FinishReason, SamplingParams, Timings, Usage

SCHEMA = '{"type": "object", "properties": {"b": {}, "a": {}}}'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "person.json"
    path.write_text(SCHEMA)
    return path


def test_a_schema_is_sent_as_it_stands_in_its_file(file: Path) -> None:
    found = document_format(file, as_json=False)
    assert found is not None
    sent = msgspec.json.encode(found.response_format).decode()
    assert sent == '{"type":"json_schema","json_schema":{"name":"document","schema":' + SCHEMA + "}}"
    file.write_bytes(b"\xef\xbb\xbf" + SCHEMA.encode())
    assert document_format(file, as_json=False) == found
    assert document_format(None, as_json=False) is None
    assert document_format(None, as_json=True) == ({"type": "json_object"}, None)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (None, "cannot be read"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[]", "not a JSON Schema"),
        (b" " * 1_000_001, "more than 1,000,000 bytes"),
        (b"[" * 100_000, "is not JSON"),
    ],
)
def test_a_file_that_is_no_schema_is_refused_by_its_name(tmp_path: Path, content: bytes | None, word: str) -> None:
    path = tmp_path / "person.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidParameter, match=word) as caught:
        document_format(path, as_json=False)
    assert str(path) in caught.value.message
    assert report.exit_code(caught.value) == report.USAGE


def test_both_options_and_stdin_are_refused(file: Path) -> None:
    with pytest.raises(InvalidParameter, match="--schema and --json"):
        document_format(file, as_json=True)
    with pytest.raises(InvalidParameter, match="stdin is for the prompt"):
        document_format(Path("-"), as_json=False)


class Scripted:
    """A client that answers as the test says."""

    def __init__(self, *deltas: Delta | Exception) -> None:
        self.deltas = deltas
        self.asked: list[dict[str, Any]] = []

    def chat(self, *_: object, **fields: Any) -> Generator[Delta]:
        self.asked.append(fields)
        for delta in self.deltas:
            if isinstance(delta, Exception):
                raise delta
            yield delta

    complete = chat


def finish(reason: FinishReason, *, is_context_full: bool = False) -> Delta:
    return Delta(finish=Finish(reason, Usage(1, 3), Timings(0.0, 0.0, 0.0), is_context_full=is_context_full))


def ask(client: Scripted, schema: Path | None, *, raw: bool = False) -> int:
    document = document_format(schema, as_json=schema is None)
    params = SamplingParams(max_tokens=3)
    talk = Talk(cast("Any", client), "tiny", params, raw=raw, ctx=64, document=document)
    return _answer(talk, "Hi", RunOptions("tiny", "Hi", None, raw, params, {}, document=document), verbose=False)


@pytest.mark.parametrize("raw", [False, True])
def test_stdout_is_the_document_and_a_line_end_whatever_it_looks_like(
    file: Path, capsys: pytest.CaptureFixture[str], *, raw: bool
) -> None:
    client = Scripted(
        Delta(thought="I wonder."), Delta('{"a":"<think>'), Delta(' **b** </think>"'), Delta("}"), finish("stop")
    )
    assert ask(client, file, raw=raw) == report.OK
    assert capsys.readouterr().out == '{"a":"<think> **b** </think>"}\n'
    assert client.asked[0]["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize(
    ("end", "word"),
    [
        (finish("length"), "at max_tokens, 3"),
        (finish("length", is_context_full=True), "context of 64"),
        (finish("timeout"), "time"),
    ],
)
def test_half_a_document_is_printed_and_a_failure(end: Delta, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(Scripted(Delta('{"a":'), end), None) == report.FAILURE
    shown = capsys.readouterr()
    assert shown.out == '{"a":\n'
    assert "the document is incomplete" in shown.err
    assert word in shown.err


def test_what_is_refused_of_a_schema_is_refused_by_its_files_name(file: Path) -> None:
    refused = UnsupportedParameter("uniqueItems is not served", param="response_format.json_schema.schema.uniqueItems")
    with pytest.raises(UnsupportedParameter) as caught:
        ask(Scripted(refused), file)
    assert caught.value.message == f"{file}: uniqueItems is not served"
    assert caught.value.param == refused.param
    assert report.exit_code(caught.value) == report.USAGE
    with pytest.raises(UnsupportedParameter, match=r"^uniqueItems"):
        ask(Scripted(refused), None)
    with pytest.raises(WorkerCrashed, match=r"^it died$"):
        ask(Scripted(WorkerCrashed("it died")), file)
