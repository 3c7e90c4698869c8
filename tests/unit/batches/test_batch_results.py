"""Results of a batch: each line once, whatever happened to the run before."""

from __future__ import annotations

import asyncio
import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from localllm.batches.lines import MESSAGES, BatchLine
from localllm.batches.results import Reply, ResultFile, read_results, result_of
from localllm.batches.running import Tally, run, taking

OK = Reply(200, "r", b'{"a":1}')


def line(number: int, problem: str = "", url: str = "/v1/completions") -> BatchLine:
    return BatchLine(number, f"id-{number}", url, b"{}", f"{number:016}", problem)


def test_results_have_the_form_of_the_api_they_are_from() -> None:
    def made(each: BatchLine, reply: Reply | None) -> Any:
        return json.loads(msgspec.json.encode(result_of(each, reply)))

    assert made(line(3), OK) == {
        "id": "batch_req_3",
        "custom_id": "id-3",
        "response": {"status_code": 200, "request_id": "r", "body": {"a": 1}},
        "error": None,
    }
    errored = made(line(3, url=MESSAGES), Reply(400, "r", b'{\n "e": 1\n}'))
    assert errored["result"] == {"type": "errored", "error": {"e": 1}}
    assert made(line(3, "is wrong"), None)["error"]["message"] == "line 3: is wrong"


def test_a_file_cut_at_any_byte_is_gone_on_with(tmp_path: Path) -> None:
    file = io.BytesIO()
    for number in range(1, 5):
        ResultFile(file).add(line(number), OK if number != 2 else Reply(500, "r", b"{}"))
    whole = file.getvalue()
    out = tmp_path / "out.jsonl"
    for end in range(len(whole) + 1):
        out.write_bytes(whole[:end])
        finished = read_results(out)
        num_whole = whole[:end].count(b"\n")
        expected = [f"id-{number}" for number in range(1, num_whole + 1) if number != 2]
        assert list(finished.digests) == expected
        assert finished.is_torn == (end != 0 and whole[end - 1 : end] != b"\n")
        assert finished.num_again == (num_whole >= 2)
        kept = [json.loads(each)["custom_id"] for each in out.read_bytes().splitlines()]
        assert kept == expected, "what is made again is gone from the file"


@pytest.mark.parametrize("content", [b"hello\n", b'{"a": 1}\n', b"[]\n"])
def test_a_file_of_something_else_is_refused_and_stays(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "out").write_bytes(content)
    with pytest.raises(ValueError, match="line 1 is no result of a batch"):
        read_results(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == content


async def no_pause(_: float) -> None:
    """Retries follow at once."""


def test_every_line_is_sent_and_written_once_and_never_too_many_at_a_time() -> None:
    running, most, tries, written = 0, 0, Counter[int](), list[int]()

    async def send(each: BatchLine) -> Reply:
        nonlocal running, most
        running += 1
        most = max(most, running)
        tries[each.number] += 1
        for _ in range(each.number % 5):
            await asyncio.sleep(0)
        running -= 1
        full = each.number % 7 == 3 and tries[each.number] < 3
        return Reply(503 if full else 400 if each.number == 50 else 200, "", b"{}")

    tally = Tally()
    lines = iter([line(number, "is wrong" if number == 20 else "") for number in range(100)])
    asyncio.run(
        run(
            taking(lines), send, lambda each, _: written.append(each.number), concurrency=8, tally=tally, pause=no_pause
        )
    )
    assert sorted(written) == list(range(100))
    assert most == 8
    assert (tally.num_answered, tally.num_failed) == (98, 2)
    assert 20 not in tries
    assert set(tries.values()) == {1, 3}


def test_lines_are_read_when_they_are_sent() -> None:
    read = 0

    def lines() -> Iterator[BatchLine]:
        nonlocal read
        for number in range(1000):
            read += 1
            yield line(number)

    async def send(each: BatchLine) -> Reply:
        assert read <= each.number + 4
        await asyncio.sleep(0)
        return OK

    asyncio.run(run(taking(lines()), send, lambda *_: None, concurrency=4, tally=Tally()))
    assert read == 1000


def test_what_ends_the_server_ends_the_batch_with_its_error() -> None:
    async def send(each: BatchLine) -> Reply:
        if each.number == 3:
            raise ConnectionError("gone")
        await asyncio.sleep(1000)
        return OK

    with pytest.raises(ConnectionError, match="gone"):
        asyncio.run(run(taking(iter(map(line, range(9)))), send, lambda *_: None, concurrency=4, tally=Tally()))
