"""What becomes of a model whose process dies: real child processes that really do."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from localllm.errors import LocalLLMError, WorkerCrashed
from localllm.settings.config import Settings
from localllm.supervisor import managed
from localllm.supervisor.candidate import Candidate
from localllm.supervisor.observer import Observer
from localllm.supervisor.supervisor import Supervisor
from localllm.types import Finish, GenerationRequest, ModelDefaults
from localllm.types.load_options import LoadOptions
from tests.worker.conftest import INFO, bad_worker

TIMEOUT_S = 20


class Seen(Observer):
    """Everything it was told, in order."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.news = asyncio.Event()
        self.is_dead = asyncio.Event()

    async def until(self, what: str) -> None:
        async def wait() -> None:
            while what not in self.told:
                self.news.clear()
                await self.news.wait()

        await asyncio.wait_for(wait(), TIMEOUT_S)

    def _take(self, model_id: str, what: str) -> None:
        assert model_id == "m"
        self.told.append(what)
        self.news.set()

    def finished(self, model_id: str, finish: Finish, *, is_batch: bool = False) -> None:  # noqa: ARG002
        self._take(model_id, finish.reason)

    def failed(self, model_id: str, code: str, *, is_batch: bool = False) -> None:  # noqa: ARG002
        self._take(model_id, code)

    def crashed(self, model_id: str, error: LocalLLMError) -> None:
        assert (model_id, error.code) == ("m", "worker_crashed")
        self.is_dead.set()

    def restarted(self, model_id: str) -> None:
        self._take(model_id, "restarted")


@pytest.fixture
def mode(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How the next worker behaves."""
    arguments = ["behaves"]
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setattr(managed, "worker_command", lambda **_: bad_worker(*arguments))
    return arguments


def candidate(id: str, release: Callable[[], None] = lambda: None) -> Candidate:
    return Candidate(id, Path(f"{id}.gguf"), INFO, ModelDefaults(), release)


async def _loaded() -> tuple[Supervisor, Seen]:
    supervisor = Supervisor(Settings())
    seen = supervisor.observer = Seen()
    await supervisor.load(candidate("m"), LoadOptions())
    return supervisor, seen


def test_a_model_whose_process_dies_is_started_again_before_anybody_asks(mode: list[str]) -> None:
    async def scenario() -> None:
        supervisor, seen = await _loaded()
        session = await supervisor.acquire("m")
        mailbox = session.submit(GenerationRequest(prompt="x")).mailbox
        await mailbox.accepted
        await seen.until("stop")
        os.kill(session.pid, signal.SIGKILL)
        await seen.until("restarted")
        assert supervisor.restarting() == ["m"]
        assert [model.id for model in supervisor.loaded()] == ["m"], "it is still there for who asks"
        again = await asyncio.wait_for(supervisor.acquire("m"), TIMEOUT_S)
        assert again.pid != session.pid
        assert supervisor.restarting() == []
        assert seen.told == ["stop", "restarted"]
        await supervisor.aclose()

    asyncio.run(scenario())


def test_a_model_that_dies_again_and_again_is_not_started_without_a_pause(
    mode: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(managed, "PAUSES_S", (0.0, 1000.0))

    async def scenario() -> None:
        supervisor, seen = await _loaded()
        mode[:] = ["crashes", "0"]
        os.kill((await supervisor.acquire("m")).pid, signal.SIGKILL)
        await seen.until("restarted")
        session = await asyncio.wait_for(supervisor.acquire("m"), TIMEOUT_S)
        mailbox = session.submit(GenerationRequest(prompt="x")).mailbox
        with pytest.raises(WorkerCrashed):
            await asyncio.wait_for(mailbox.get(), TIMEOUT_S)
        assert seen.told == ["restarted", "restarted", "worker_crashed"], "for its one retry it does not wait"
        assert supervisor.restarting() == ["m"], "the next start waits"
        mode[:] = ["behaves"]
        await asyncio.wait_for(supervisor.acquire("m"), TIMEOUT_S)  # but a request does not
        assert seen.told == ["restarted", "restarted", "worker_crashed", "restarted"]
        await supervisor.aclose()

    asyncio.run(scenario())


def test_unloading_is_no_death(mode: list[str]) -> None:
    async def scenario() -> None:
        supervisor, seen = await _loaded()
        await supervisor.unload("m")
        await supervisor.aclose()
        assert seen.told == []

    asyncio.run(scenario())


def test_the_progress_of_a_load_is_reported_to_who_waits_for_it_and_not_after_it_failed(
    mode: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(managed, "PAUSES_S", (1000.0,))

    async def scenario() -> None:
        supervisor, seen = await _loaded()
        failed, joined = list[float](), list[float]()
        mode[:] = ["dies-loading"]
        os.kill((await supervisor.acquire("m")).pid, signal.SIGKILL)
        await asyncio.wait_for(seen.is_dead.wait(), TIMEOUT_S)
        with pytest.raises(WorkerCrashed):
            await asyncio.wait_for(supervisor.load(candidate("m"), LoadOptions(), failed.append), TIMEOUT_S)
        mode[:] = ["behaves"]
        await asyncio.wait_for(supervisor.load(candidate("m"), LoadOptions(), joined.append), TIMEOUT_S)
        assert (failed, joined) == ([], [0.5])
        await supervisor.aclose()

    asyncio.run(scenario())
