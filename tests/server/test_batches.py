"""Files and batches over HTTP, with the official clients; what one key has is nothing to another."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import generate_latest

from localllm.server.watching.metrics import Metrics
from localllm.settings.config import Settings
from localllm.types import Delta
from tests.later import anthropic, openai
from tests.server.conftest import Served, running
from tests.server.fake_runtime import FINISH, HANG
from tests.waiting import until

CHATS = "/v1/chat/completions"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def team_server(home: Path) -> Iterator[Served]:
    settings = Settings(
        port=0, grace_s=0.1, api_keys="ann=a,bob=b", home=home, max_file_mb=1, max_body_bytes=100_000,
        max_concurrent_per_key=1, requests_per_minute_per_key=0,
    )  # fmt: skip
    with running(settings) as served:
        yield served


@pytest.fixture
def team(team_server: Served) -> Served:
    team_server.runtime.reset()
    return team_server


def client(served: Served, key: str = "a") -> Any:
    return openai.OpenAI(base_url=f"{served.url}/v1", api_key=key, max_retries=0)


def chats(count: int, **fields: object) -> bytes:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], **fields}
    lines = [{"custom_id": f"id-{n}", "method": "POST", "url": CHATS, "body": body} for n in range(count)]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def upload(api: Any, content: bytes) -> str:
    id: str = api.files.create(file=("in.jsonl", content), purpose="batch").id
    return id


def ended(api: Any, id: str) -> Any:
    until(lambda: api.batches.retrieve(id).status in ("completed", "failed", "cancelled", "expired"))
    return api.batches.retrieve(id)


def test_openais_client_has_a_file_answered_and_deletes_all_of_it(team: Served) -> None:
    api = client(team)
    file = api.files.create(
        file=("in.jsonl", chats(9)), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert (file.bytes, file.filename, file.expires_at) == (len(chats(9)), "in.jsonl", file.created_at + 3600)
    batch = api.batches.create(
        input_file_id=file.id, endpoint=CHATS, completion_window="24h", metadata={"job": "nightly"}
    )
    assert (batch.object, batch.endpoint, batch.metadata) == ("batch", CHATS, {"job": "nightly"})
    batch = ended(api, batch.id)
    assert (batch.status, batch.request_counts.completed, batch.error_file_id) == ("completed", 9, None)
    results = [json.loads(line) for line in api.files.content(batch.output_file_id).text.splitlines()]
    assert sorted(each["custom_id"] for each in results) == [f"id-{n}" for n in range(9)]
    assert {each["response"]["body"]["choices"][0]["message"]["content"] for each in results} == {"Hello ✓"}
    assert all(request.batch for request in team.runtime.requests)
    assert next(iter(api.batches.list(limit=1))).id == batch.id
    assert {each.purpose for each in api.files.list()} == {"batch", "batch_output"}
    for each in (file.id, batch.output_file_id):
        assert api.files.delete(each).deleted
    assert not api.files.list().data


def test_lines_and_requests_of_batches_are_counted_in_metrics_and_ps(team: Served) -> None:
    headers = {"x-api-key": "a"}

    def answered() -> int:
        done: int = team.http.get("/localllm/ps", headers=headers).json().get("batches", {}).get("answered", 0)
        return done

    api, before = client(team), answered()
    file = upload(api, chats(3))
    ended(api, api.batches.create(input_file_id=file, endpoint=CHATS, completion_window="24h").id)
    assert answered() == before + 3
    text = team.http.get("/metrics", headers=headers).text
    assert f'localllm_batch_lines_total{{outcome="answered"}} {before + 3}.0' in text
    assert "localllm_batches_running 0.0" in text
    for each in api.files.list():
        api.files.delete(each.id)

    metrics = Metrics()
    metrics.finished("tiny", FINISH)
    metrics.finished("tiny", FINISH, is_batch=True)
    metrics.failed("tiny", "queue_full", is_batch=True)
    text = generate_latest(metrics.registry).decode()
    assert 'localllm_requests_total{end="stop",model="tiny"} 2.0' in text
    assert 'localllm_batch_requests_total{end="stop",model="tiny"} 1.0' in text
    assert 'localllm_batch_requests_total{end="queue_full",model="tiny"} 1.0' in text
    assert 'localllm_batch_tokens_total{kind="completion",model="tiny"} 3.0' in text


def test_a_batch_that_names_another_keys_file_finds_none(team: Served) -> None:
    ann, bob = client(team), client(team, "b")
    file = upload(ann, chats(1))
    batch = ended(ann, ann.batches.create(input_file_id=file, endpoint=CHATS, completion_window="24h").id)
    assert not bob.files.list().data
    assert not bob.batches.list().data
    attempts: tuple[Callable[[], Any], ...] = (
        lambda: bob.batches.create(input_file_id=file, endpoint=CHATS, completion_window="24h"),
        lambda: bob.files.content(file),
        lambda: bob.files.content(batch.output_file_id),
        lambda: bob.files.delete(file),
        lambda: bob.batches.retrieve(batch.id),
        lambda: bob.batches.cancel(batch.id),
        lambda: bob.files.content(f"../../{file}"),
        lambda: bob.files.retrieve("file-" + "0" * 28),
    )
    for asked in attempts:
        with pytest.raises(openai.NotFoundError):
            asked()
    assert ann.files.retrieve(file).id == file
    for each in ann.files.list():
        ann.files.delete(each.id)


def test_wrong_lines_and_values_are_named(team: Served) -> None:
    api = client(team)
    with pytest.raises(openai.BadRequestError, match="purpose: 'vision' cannot be used"):
        api.files.create(file=b"x", purpose="vision")
    with pytest.raises(openai.BadRequestError, match=r"larger than 1 MB \(max_file_mb\)"):
        upload(api, b"x" * 1_500_000)
    file = upload(api, b'{"custom_id": "a"}\n' + chats(1))
    for fields, message in (
        ({"endpoint": "/v1/moderations"}, "endpoint must be one of"),
        ({"endpoint": CHATS, "completion_window": "soon"}, "completion_window must be hours or days"),
        ({"endpoint": CHATS, "metadata": {f"k{n}": "v" for n in range(17)}}, "metadata may have 16 pairs"),
    ):
        with pytest.raises(openai.BadRequestError, match=message):
            api.batches.create(**{"input_file_id": file, "completion_window": "24h", **fields})
    batch = ended(api, api.batches.create(input_file_id=file, endpoint=CHATS, completion_window="24h").id)
    assert batch.status == "failed"
    assert (batch.errors.data[0].line, batch.errors.data[0].code) == (1, "invalid_line")
    assert not team.runtime.requests
    with pytest.raises(openai.BadRequestError, match="ended already"):
        api.batches.cancel(batch.id)
    api.files.delete(file)


def test_a_form_that_is_none_stores_nothing(team: Served) -> None:
    headers = {"x-api-key": "a", "content-type": "multipart/form-data; boundary=b"}
    head = b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    file = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nx\r\n'
    for content, message in (
        (head + file, "its end is missing"),
        (head + b"--b--\r\n", "file is missing"),
        (file + b"--b--\r\n", "purpose is missing"),
        (head + file + file + b"--b--\r\n", "two files"),
        (b"nonsense", "the form is broken"),
        (b"--b\r\n" + b"x" * 5000 + b": y\r\n\r\n", "the form is broken"),
    ):
        refused = team.http.post("/v1/files", content=content, headers=headers)
        assert refused.status_code == 400
        assert message in refused.json()["error"]["message"]
    assert not client(team).files.list().data


def test_a_cancelled_batch_says_of_every_line_what_became_of_it(team: Served) -> None:
    api = client(team)
    team.runtime.script = (Delta("Hel", 1), HANG, Delta("", 1, FINISH))
    file = upload(api, chats(5))
    batch = api.batches.create(input_file_id=file, endpoint=CHATS, completion_window="24h")
    until(lambda: bool(team.runtime.answers) and team.runtime.answers[-1].hangs.is_set())
    with pytest.raises(openai.BadRequestError, match="still reads this file"):
        api.files.delete(file)
    assert len(team.runtime.answers) == 1, "no more at a time than the key may have"
    assert api.batches.cancel(batch.id).status in ("cancelling", "cancelled")
    batch = ended(api, batch.id)
    assert (batch.status, batch.request_counts.failed) == ("cancelled", 5)
    results = [json.loads(line) for line in api.files.content(batch.error_file_id).text.splitlines()]
    assert {each["error"]["code"] for each in results} == {"batch_cancelled"}
    for each in api.files.list():
        api.files.delete(each.id)


def test_anthropics_client_has_messages_answered_and_deletes_them(team: Served) -> None:
    clients: list[Any] = [anthropic.Anthropic(base_url=team.url, api_key=key, max_retries=0) for key in "ab"]
    ann, bob = (each.messages.batches for each in clients)
    params: dict[str, Any] = {"model": "tiny", "max_tokens": 8, "messages": [{"role": "user", "content": "Hi"}]}
    requests = [{"custom_id": f"id-{n}", "params": params} for n in range(3)]
    wrong = {"custom_id": "wrong", "params": {**params, "messages": "none"}}
    batch = ann.create(requests=[*requests, wrong])
    assert (batch.processing_status, batch.request_counts.processing) == ("in_progress", 4)
    until(lambda: ann.retrieve(batch.id).processing_status == "ended")
    counts = ann.retrieve(batch.id).request_counts
    assert (counts.succeeded, counts.errored, counts.processing) == (3, 1, 0)
    results = {each.custom_id: each.result for each in ann.results(batch.id)}
    assert results["id-1"].message.content[0].text == "Hello ✓"
    assert results["wrong"].error.error.type == "invalid_request_error"
    for asked in (bob.retrieve, bob.results, bob.cancel, bob.delete):
        with pytest.raises(anthropic.NotFoundError):
            asked(batch.id)
    assert not bob.list().data
    assert [each.id for each in ann.list()] == [batch.id]
    with pytest.raises(anthropic.BadRequestError, match=r"requests\[1\].custom_id is that of requests\[0\]"):
        ann.create(requests=[requests[0], requests[0]])
    with pytest.raises(anthropic.BadRequestError, match=r"requests\[0\] has more than 100,000 bytes"):
        ann.create(requests=[{"custom_id": "a", "params": {"model": "x" * 100_000}}])
    assert ann.delete(batch.id).type == "message_batch_deleted"
    with pytest.raises(anthropic.NotFoundError):
        ann.retrieve(batch.id)


def test_nobody_without_a_key_reads_or_stores(team: Served) -> None:
    for method, path in (("GET", "/v1/files"), ("POST", "/v1/files"), ("GET", "/v1/batches")):
        assert httpx.request(method, f"{team.url}{path}", trust_env=False).status_code == 401
