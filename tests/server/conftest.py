"""Real servers on real loopback ports, each on an event loop of its own thread, before a scripted runtime."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from localllm.runtime.runtime import Runtime
from localllm.server.main import serve
from localllm.settings.config import Settings
from tests.server.fake_runtime import FakeRuntime


class Served:
    """A running server."""

    def __init__(self, url: str, runtime: FakeRuntime) -> None:
        self.url = url
        self.runtime = runtime
        self.http = httpx.Client(base_url=url, timeout=10, trust_env=False)

    @property
    def address(self) -> tuple[str, int]:
        url = httpx.URL(self.url)
        assert url.port is not None
        return url.host, url.port


class _Announcer:
    def __init__(self) -> None:
        self.url = ""
        self.is_ready = threading.Event()

    def loading(self, _: float, /) -> None:
        pass

    def ready(self, url: str, _: str | None, /) -> None:
        self.url = url
        self.is_ready.set()


@contextlib.contextmanager
def serving(
    settings: Settings,
    make_runtime: Callable[[Settings], Runtime] = Runtime,
    *,
    model: str | None = None,
    token: str | None = None,
) -> Iterator[str]:
    """The URL of a server for as long as the block lasts."""
    announcer = _Announcer()
    started = threading.Event()
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[int]]] = []

    async def main() -> None:
        models = [] if model is None else [model]
        task = asyncio.create_task(serve(settings, models, announcer, token=token, make_runtime=make_runtime))
        stop.append((asyncio.get_running_loop(), task))
        started.set()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        assert announcer.is_ready.wait(60)
        yield announcer.url
    finally:
        assert started.wait(20)
        loop, task = stop[0]
        loop.call_soon_threadsafe(task.cancel)
        thread.join(20)
        assert not thread.is_alive()


@contextlib.contextmanager
def running(settings: Settings, *, token: str | None = None) -> Iterator[Served]:
    """A server before a scripted runtime, for as long as the block lasts."""
    runtime = FakeRuntime()
    with serving(settings, lambda _: runtime, token=token) as url:
        served = Served(url, runtime)
        with served.http:
            yield served


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Served]:
    with running(Settings(port=0, grace_s=0.1, max_body_bytes=100_000)) as served:
        yield served


@pytest.fixture
def served(shared_server: Served) -> Served:
    """A server without API keys, its runtime as new."""
    shared_server.runtime.reset()
    return shared_server


@pytest.fixture(scope="session")
def shared_large_server() -> Iterator[Served]:
    with running(Settings(port=0, grace_s=0.1)) as served:
        yield served


@pytest.fixture
def large_served(shared_large_server: Served) -> Served:
    """As `served`, with bodies as large as the default allows."""
    shared_large_server.runtime.reset()
    return shared_large_server


@pytest.fixture(scope="session")
def guarded() -> Iterator[Served]:
    """A server that wants the key `sesame` or `another`."""
    with running(Settings(port=0, grace_s=0.1, api_keys="sesame,another", allowed_hosts="Model.Example")) as served:
        yield served


class RequestLog(logging.Handler):
    """The lines that requests end with, each of which is written after its answer went out."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[dict[str, Any]] = []
        self._has_more = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "request":
            with self._has_more:
                self._lines.append(vars(record)["fields"])
                self._has_more.notify_all()

    def lines(self, count: int, id: str | None = None) -> list[dict[str, Any]]:
        """So many, waited for: those of requests of this id, as those of a test before may come late."""

        def found() -> list[dict[str, Any]]:
            return [line for line in self._lines if id in (None, line["id"])]

        with self._has_more:
            self._has_more.wait_for(lambda: len(found()) >= count, timeout=10)
            lines = found()
        assert len(lines) == count, lines
        return lines


@pytest.fixture
def request_log(caplog: pytest.LogCaptureFixture) -> Iterator[RequestLog]:
    caplog.set_level(logging.INFO, "localllm")
    root, handler = logging.getLogger(), RequestLog()
    root.addHandler(handler)  # behind `caplog`'s, which has what this has
    yield handler
    root.removeHandler(handler)
