"""A server's batch: every line has one result, wherever its process is killed and however it ends."""

from __future__ import annotations

import asyncio
import json
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from localllm.batches import jobs
from localllm.batches.driving import Driver
from localllm.batches.jobs import Job, JobFolder, Kind
from localllm.batches.lines import MESSAGES, BatchLine
from localllm.batches.results import Reply
from localllm.batches.stored import Limits, Owned
from localllm.errors import InvalidParameter

LIMITS = Limits(max_file_mb=1, max_files_mb=2, max_files=3, max_batches=3, max_batch_lines=1000, max_line_bytes=100_000)
URL = "/v1/completions"
T = TypeVar("T")


async def at_once(work: Callable[[], T]) -> T:
    """In place of a thread; lets others run as one would."""
    await asyncio.sleep(0)
    return work()


async def answer(line: BatchLine) -> Reply:
    await asyncio.sleep(0)
    return Reply(400 if line.number % 10 == 0 else 200, f"r{line.number}", b'{"ok":1}')


def owned_in(folder: Path) -> Owned:
    return Owned(folder, "ann", LIMITS)


def openai_lines(count: int) -> bytes:
    lines = [{"custom_id": f"id-{n}", "method": "POST", "url": URL, "body": {"prompt": f"{n}"}} for n in range(count)]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def made(owned: Owned, content: bytes, kind: Kind = "openai", window_s: int = 3600) -> Job:
    if kind == "anthropic":
        job = jobs.new_job("ann", kind, MESSAGES, "24h", window_s)
        jobs.create(owned, job, content.splitlines())
        return job
    upload = owned.upload()
    upload.write(content)
    job = jobs.new_job("ann", kind, URL, "24h", window_s)
    job.input_file = upload.commit("in.jsonl", "batch").id
    jobs.create(owned, job)
    return job


def drive(owned: Owned, id: str, send: Callable[[BatchLine], Any] = answer, until: int | None = None) -> Job:
    """`until`: the process ends as abruptly as one can within this one, after so many turns of the loop."""
    folder = JobFolder(owned, id)
    job = folder.load()
    assert job is not None
    driver = Driver(folder, job, at_once)

    async def main() -> None:
        task = asyncio.ensure_future(driver.drive(send, lambda _: 4))
        for _ in range(until if until is not None else 10**6):
            if task.done():
                break
            await asyncio.sleep(0)
        if until is not None:
            task.cancel()
        await asyncio.gather(task, return_exceptions=until is not None)

    asyncio.run(main())
    return job


def results(owned: Owned, job: Job) -> list[Any]:
    files = [owned.path(id) for id in (job.output_file, job.error_file) if id is not None]
    if job.kind == "anthropic":
        files = [JobFolder(owned, job.id).answered]
    return [json.loads(line) for path in files for line in path.read_bytes().splitlines()]


def test_answers_and_errors_are_files_of_their_own(tmp_path: Path) -> None:
    owned = owned_in(tmp_path)
    job = drive(owned, made(owned, openai_lines(25)).id)
    assert (job.status, job.total, job.answered, job.failed) == ("completed", 25, 23, 2)
    assert job.output_file is not None
    assert job.error_file is not None
    names = {each.id: (each.purpose, each.name) for each in owned.list()}
    assert names[job.output_file] == ("batch_output", f"{job.id}_output.jsonl")
    statuses = [each["response"]["status_code"] for each in results(owned, job)]
    assert statuses == [200] * 23 + [400] * 2


@pytest.mark.parametrize("seed", range(20))
def test_wherever_it_is_killed_each_line_has_one_result(tmp_path: Path, seed: int) -> None:
    """A torn line stands for a write that a kill cut in two."""
    chance, owned = random.Random(seed), owned_in(tmp_path)
    kind: Kind = chance.choice(("openai", "anthropic"))
    lines = (
        openai_lines(40)
        if kind == "openai"
        else b"".join(
            json.dumps({"custom_id": f"id-{n}", "params": {"model": "m"}}).encode() + b"\n" for n in range(40)
        )
    )
    id = made(owned, lines, kind).id
    folder = JobFolder(owned, id)
    for _ in range(5):
        job = folder.load()
        assert job is not None
        if job.has_ended:
            break
        drive(owned, id, until=chance.randrange(120))
        now = folder.load()
        if now is not None and now.status == "in_progress" and folder.answered.exists() and chance.random() < 0.7:
            with folder.answered.open("ab") as file:
                file.write(b'{"id":"batch_req_1","custom_id":"id-')
        if chance.random() < 0.2:
            folder.cancel()
    job = drive(owned, id)
    assert sorted(each["custom_id"] for each in results(owned, job)) == sorted(f"id-{n}" for n in range(40))
    assert job.answered + job.failed + job.unsent == 40


@pytest.mark.parametrize(("kind", "word"), [("openai", "batch_expired"), ("anthropic", "expired")])
def test_lines_that_were_not_sent_in_time_say_so(tmp_path: Path, kind: Kind, word: str) -> None:
    owned = owned_in(tmp_path)
    line = {"custom_id": "a", "params": {}} if kind == "anthropic" else json.loads(openai_lines(1))
    job = drive(owned, made(owned, json.dumps(line).encode() + b"\n", kind, window_s=-1).id)
    assert (job.status, job.unsent) == ("expired", 1)
    (result,) = results(owned, job)
    assert word in json.dumps(result)


def test_a_batch_with_a_wrong_line_sends_nothing(tmp_path: Path) -> None:
    owned = owned_in(tmp_path)
    other = {"custom_id": "id-0", "method": "POST", "url": "/v1/embeddings", "body": {}}
    content = openai_lines(2) + json.dumps(other).encode() + b"\nnonsense\n"

    async def never(_: BatchLine) -> Reply:
        raise AssertionError

    job = drive(owned, made(owned, content).id, never)
    assert job.status == "failed"
    assert [(each.code, each.line) for each in job.problems] == [
        ("mismatched_endpoint", 3), ("duplicate_custom_id", 3), ("invalid_line", 4),
    ]  # fmt: skip


def test_a_batch_whose_results_have_no_room_ends_and_keeps_what_there_is(tmp_path: Path) -> None:
    owned = owned_in(tmp_path)

    async def long(_: BatchLine) -> Reply:
        return Reply(200, "r", json.dumps("x" * 500_000).encode())

    job = drive(owned, made(owned, openai_lines(100)).id, long)
    assert job.status == "failed"
    assert "more than 2 MB (max_files_mb)" in job.problems[0].message
    assert 3 <= job.answered <= 5
    assert len(results(owned, job)) == job.answered


def test_a_batch_of_huge_lines_is_never_in_memory(tmp_path: Path) -> None:
    owned = Owned(tmp_path, "ann", LIMITS._replace(max_file_mb=40, max_files_mb=100))
    head = b'{"custom_id": "' + b"i" * 90_000 + b'", "method": "POST", "url": "/v1/completions", "body": {"prompt": "'
    tracemalloc.start()
    try:
        upload = owned.upload()
        upload.write(head)
        for _ in range(20):
            upload.write(b"x" * 1_000_000)
        upload.write(b'"}}\n' + b"[" * 90_000 + b"\n" + openai_lines(1))
        job = jobs.new_job("ann", "openai", URL, "24h", 60)
        job.input_file = upload.commit("in.jsonl", "batch").id
        jobs.create(owned, job)
        job = drive(owned, job.id)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [(each.line, each.message[:26]) for each in job.problems] == [
        (1, "the line has more than 100"), (2, "the line is no batch reque"),
    ]  # fmt: skip
    assert peak_bytes < 5_000_000


def test_what_a_key_may_keep_is_bounded(tmp_path: Path) -> None:
    owned = owned_in(tmp_path)
    upload = owned.upload()
    with pytest.raises(InvalidParameter, match=r"larger than 1 MB \(max_file_mb\)"):
        upload.write(b"x" * 1_000_001)
    upload.discard()
    first, second, third = owned.upload(), owned.upload(), owned.upload()
    for one in (first, second):
        one.write(b"x" * 900_000)
    with pytest.raises(InvalidParameter, match=r"more than 2 MB \(max_files_mb\)"):
        third.write(b"x" * 900_000)
    with pytest.raises(InvalidParameter, match=r"at most 3 may be \(max_files\)"):
        owned.upload()
    third.discard()
    for one in (first, second):
        one.commit("a", "batch")
    assert len(owned.list()) == 2
    assert not [path for path in owned.folder.rglob("*") if path.name.startswith(".tmp-")]


def test_the_oldest_batch_that_has_ended_makes_room(tmp_path: Path) -> None:
    owned = owned_in(tmp_path)
    ids = [made(owned, b'{"custom_id": "a", "params": {}}\n', "anthropic").id for _ in range(3)]
    with pytest.raises(InvalidParameter, match=r"3 batches of this key have not ended.*\(max_batches\)"):
        made(owned, b"{}\n", "anthropic")
    drive(owned, ids[1])
    made(owned, b'{"custom_id": "a", "params": {}}\n', "anthropic")
    assert jobs.ids(owned)[1:] == [ids[2], ids[0]]


def test_one_process_alone_goes_on_with_a_batch(tmp_path: Path) -> None:
    owned = owned_in(tmp_path)
    folder = JobFolder(owned, made(owned, openai_lines(1)).id)
    with folder.locked() as is_ours, folder.locked() as is_another:
        assert (is_ours, is_another) == (True, False)
    with folder.locked() as is_ours:
        assert is_ours
