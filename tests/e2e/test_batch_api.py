"""`/v1/batches` of a real server that is killed: each line has one answer, wherever the kill falls."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.e2e.servers import Server
from tests.homes import share_findings
from tests.waiting import until

NUM_LINES = 120
CHATS = "/v1/chat/completions"


def lines() -> bytes:
    def line(number: int) -> bytes:
        body = {"model": "demo", "messages": [{"role": "user", "content": f"Word {number}"}], "max_tokens": 6}
        return json.dumps({"custom_id": f"id-{number}", "method": "POST", "url": CHATS, "body": body}).encode() + b"\n"

    return b"".join(map(line, range(NUM_LINES)))


@pytest.mark.parametrize("num_kills", [2, pytest.param(30, marks=pytest.mark.exhaustive)])
def test_a_killed_server_goes_on_with_its_batches(home: Path, tmp_path: Path, num_kills: int) -> None:
    share_findings(home, tmp_path)
    chance, args = random.Random(num_kills), ("demo", "--home", tmp_path)
    server = Server(*args)
    file = httpx.post(
        f"{server.url}/v1/files", data={"purpose": "batch"}, files={"file": ("in.jsonl", lines())}, trust_env=False
    ).json()
    asked = {"input_file_id": file["id"], "endpoint": CHATS}
    id = httpx.post(f"{server.url}/v1/batches", json=asked, trust_env=False).json()["id"]
    (answered,) = [path / "answered.jsonl" for path in tmp_path.glob("batches/*/jobs/*")]

    def num_answered() -> int:
        return answered.read_bytes().count(b"\n") if answered.exists() else NUM_LINES

    def is_behind(least: int) -> bool:
        return num_answered() >= least

    until(answered.exists)
    most = NUM_LINES // num_kills
    for number in range(num_kills):
        least = number * most + chance.randrange(most)
        until(partial(is_behind, least))
        server.process.kill()
        server.process.communicate()
        server = Server(*args)
    with server:
        url = f"{server.url}/v1/batches/{id}"
        until(lambda: httpx.get(url, trust_env=False).json()["status"] == "completed")
        batch = httpx.get(url, trust_env=False).json()
        output = f"{server.url}/v1/files/{batch['output_file_id']}/content"
        results = [json.loads(line) for line in httpx.get(output, trust_env=False).text.splitlines()]
    assert batch["request_counts"] == {"total": NUM_LINES, "completed": NUM_LINES, "failed": 0}
    assert sorted(each["custom_id"] for each in results) == sorted(f"id-{number}" for number in range(NUM_LINES))
    assert {each["response"]["status_code"] for each in results} == {200}
