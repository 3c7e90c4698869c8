"""Requests that come while their model loads wait for it. The real server and runtime; the worker loads when told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from localllm.server import listening, main
from localllm.settings.config import Settings
from localllm.supervisor import managed
from tests.worker.conftest import bad_worker

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
TIMEOUT_S = 30


class Slow:
    """A server whose model loads once `finish` is called."""

    def __init__(self, fifo: Path) -> None:
        self.url: Future[str] = Future()
        self.loads = threading.Event()
        self.result: Future[int] = Future()
        self._fifo = fifo
        self._stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[int]]] = []

    def finish(self) -> None:
        self._fifo.write_bytes(b"")

    def loading(self, _: float, /) -> None:
        self.loads.set()

    def ready(self, _url: str, _model: str | None, /) -> None:
        pass

    def run(self, settings: Settings, model: Path) -> None:
        async def serve() -> None:
            task = asyncio.create_task(main.serve(settings, [str(model)], self))
            self._stop.append((asyncio.get_running_loop(), task))
            with contextlib.suppress(asyncio.CancelledError):
                await task

        try:
            asyncio.run(serve())
            self.result.set_result(0)
        except BaseException as error:  # noqa: BLE001 (for the test to see)
            self.result.set_exception(error)

    def stop(self) -> None:
        loop, task = self._stop[0]
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            loop.call_soon_threadsafe(task.cancel)


@contextlib.contextmanager
def slow_server(
    settings: Settings, model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Slow, httpx.Client]]:
    fifo = folder / "told"
    os.mkfifo(fifo)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setattr(managed, "worker_command", lambda **_: bad_worker("loads-when-told", str(fifo)))
    slow, bind = Slow(fifo), listening.listener_of

    def bound(*arguments: object, **options: object) -> object:
        listener = bind(*arguments, **options)  # type: ignore[arg-type]
        slow.url.set_result(listening.url_of(listener))
        return listener

    monkeypatch.setattr(main, "listener_of", bound)
    thread = threading.Thread(target=slow.run, args=(settings, model))
    thread.start()
    try:
        url = slow.url.result(TIMEOUT_S)
        with httpx.Client(base_url=url, timeout=TIMEOUT_S, trust_env=False) as http:
            assert slow.loads.wait(TIMEOUT_S)
            yield slow, http
    finally:
        slow.stop()
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def test_a_request_that_comes_during_the_load_is_answered_and_ready_is_not_before(
    tiny_model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with slow_server(Settings(port=0, grace_s=0), tiny_model, folder, monkeypatch) as (slow, http):
        with ThreadPoolExecutor(3) as users:
            chat = users.submit(http.post, "/v1/chat/completions", json=CHAT)
            text = users.submit(http.post, "/v1/completions", json={"model": "tiny", "prompt": "x"})
            only = users.submit(http.post, "/tokenize", json={"content": "x"})  # the only model is meant
            refused = http.get("/ready")
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "loading")
            for path in ("/health", "/v1/health"):
                error = {"code": 503, "message": "Loading model", "type": "unavailable_error"}
                assert error.items() <= http.get(path).json()["error"].items()
            assert not any(each.done() for each in (chat, text, only))
            slow.finish()
            assert chat.result(TIMEOUT_S).status_code == 200
            assert text.result(TIMEOUT_S).status_code == 200
            assert only.result(TIMEOUT_S).json() == {"tokens": [1]}
        assert http.get("/ready").status_code == 200
        assert http.get("/health").json() == {"status": "ok"}


def test_a_stream_that_waits_for_a_load_is_told_so_by_comments(
    tiny_model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(port=0, grace_s=0, keep_alive_s=0.05)
    with (
        slow_server(settings, tiny_model, folder, monkeypatch) as (slow, http),
        http.stream("POST", "/v1/chat/completions", json=CHAT | {"stream": True}) as response,
    ):
        assert response.status_code == 200
        lines = response.iter_lines()
        assert next(lines).startswith(":")
        slow.finish()
        events = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    text = "".join(json.loads(event)["choices"][0]["delta"].get("content", "") for event in events[:-1])
    assert text == "0 1 2 3 4 5 6 7 "


@pytest.mark.parametrize("stream", [False, True])
def test_the_wait_for_a_load_is_bounded_by_the_request(
    tiny_model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    with slow_server(Settings(port=0, grace_s=0, queue_timeout_s=0.1), tiny_model, folder, monkeypatch) as (_, http):
        late = http.post("/v1/chat/completions", json=CHAT | {"stream": stream})
    assert (late.status_code, late.json()["error"]["code"]) == (504, "timeout")
    assert "0.1 s" in late.json()["error"]["message"]


def test_a_load_that_takes_too_long_is_a_503_for_all_that_wait(
    tiny_model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(port=0, grace_s=5, load_timeout_s=1.0)
    with slow_server(settings, tiny_model, folder, monkeypatch) as (slow, http):
        with ThreadPoolExecutor(2) as users:
            waiting = [users.submit(http.post, "/v1/chat/completions", json=CHAT) for _ in range(2)]
            for each in waiting:
                response = each.result(TIMEOUT_S)
                assert (response.status_code, response.json()["error"]["code"]) in ((503, "loading"), (503, "draining"))
        with pytest.raises(Exception, match="did not load within 1 s"):
            slow.result.result(TIMEOUT_S)
