"""A request whose worker dies before it sent anything of an answer gets one more try, alone. Real child processes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from localllm.errors import Draining, RequestTimeout, WorkerCrashed
from localllm.runtime.runtime import Runtime
from localllm.settings.config import Settings
from localllm.supervisor import managed, pending
from localllm.system import memory
from localllm.types import GenerationRequest
from localllm.types.embeddings import EmbeddingRequest, RerankRequest
from localllm.types.load_options import LoadOptions
from tests.worker.conftest import bad_worker
from tests.worker.test_supervisor import Seen, candidate

TIMEOUT_S = 20
WHOLE = "0 1 2 3 4 5 6 7 "


class Life:
    """A runtime with the model `m`, whose workers do as their requests say."""

    def __init__(self, runtime: Runtime, seen: Seen, lives: Path) -> None:
        self.runtime = runtime
        self.seen = seen
        self._lives = lives

    @property
    def num_workers(self) -> int:
        """That there have been."""
        return self._lives.stat().st_size

    @property
    def pid(self) -> int:
        (model,) = self.runtime.running()
        assert model.pid is not None
        return model.pid

    async def ask(self, what: str, timeout_s: float | None = None) -> str:
        """The whole answer."""
        (answer,) = await self.runtime.submit("m", [GenerationRequest(prompt=what, timeout_s=timeout_s)])
        async with answer:
            return "".join([delta.text async for delta in answer])

    def asking(self, *what: str) -> list[asyncio.Task[str]]:
        return [asyncio.create_task(self.ask(one)) for one in what]

    async def until_busy(self, num_requests: int) -> None:
        while self.runtime.running()[0].num_requests < num_requests:  # noqa: ASYNC110  the runtime has no event for it
            await asyncio.sleep(0)


Scenario = Callable[[Life], Awaitable[None]]


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("BAD_WORKER_LIVES", str(tmp_path / "lives"))
    monkeypatch.setattr(managed, "worker_command", lambda **_: bad_worker("as-told"))
    monkeypatch.setattr(memory, "available_memory", lambda: 8 * 2**30)

    def run(scenario: Scenario, **settings: float) -> None:
        async def main() -> None:
            runtime = Runtime(Settings(**settings))  # type: ignore[arg-type]
            seen = Seen()
            runtime.observe(seen)
            try:
                await runtime._supervisor.load(candidate("m"), LoadOptions())
                await asyncio.wait_for(scenario(Life(runtime, seen, tmp_path / "lives")), TIMEOUT_S)
            finally:
                await runtime.aclose()

        asyncio.run(main())

    return run


def test_what_had_no_token_yet_is_answered_by_the_next_worker(live: Callable[..., None]) -> None:
    async def scenario(life: Life) -> None:
        asking = life.asking("wait", "wait", "wait")
        await life.until_busy(3)
        os.kill(life.pid, signal.SIGKILL)
        assert await asyncio.gather(*asking) == [WHOLE] * 3
        assert life.num_workers == 2
        assert life.seen.told == ["restarted", "stop", "stop", "stop"], "nobody was told of a failure"

    live(scenario)


def test_a_stream_that_was_accepted_goes_on_as_if_nothing_had_happened(live: Callable[..., None]) -> None:
    async def scenario(life: Life) -> None:
        (answer,) = await life.runtime.submit("m", [GenerationRequest(prompt="wait")])
        os.kill(life.pid, signal.SIGKILL)
        assert "".join([delta.text async for delta in answer]) == WHOLE

    live(scenario)


def test_a_process_that_was_stopped_is_replaced_and_its_requests_answered(live: Callable[..., None]) -> None:
    async def scenario(life: Life) -> None:
        os.kill(life.pid, signal.SIGSTOP)
        assert await life.ask("x") == WHOLE
        assert life.num_workers == 2

    live(scenario, worker_timeout_s=2.0)


def test_a_poisoned_request_takes_its_neighbours_down_once_and_not_twice(live: Callable[..., None]) -> None:
    async def scenario(life: Life) -> None:
        neighbours, (poison,) = life.asking("wait", "wait"), life.asking("poison")
        assert await asyncio.gather(*neighbours) == [WHOLE] * 2
        with pytest.raises(WorkerCrashed, match="SIGKILL; it last said: poisoned"):
            await poison
        assert life.seen.told.count("worker_crashed") == 1
        assert await life.ask("x") == WHOLE

    live(scenario)


def test_an_answer_that_had_begun_ends_with_the_error(live: Callable[..., None]) -> None:
    async def scenario(life: Life) -> None:
        (answer,) = await life.runtime.submit("m", [GenerationRequest(prompt="late")])
        assert (await anext(answer)).text == "0 "
        with pytest.raises(WorkerCrashed):
            await anext(answer)
        assert await life.ask("x") == WHOLE
        assert life.num_workers == 2

    live(scenario)


def test_texts_queries_and_questions_are_tried_once_more_too(live: Callable[..., None]) -> None:
    async def scenario(life: Life) -> None:
        runtime = life.runtime
        made = await asyncio.gather(
            runtime.embed("m", EmbeddingRequest(texts=("once",))),
            runtime.rerank("m", RerankRequest(query="once", documents=("a",))),
            runtime.tokenize("m", "once"),
        )
        assert made[0].num_vectors == (1,)
        assert made[1].scores == (1.0,)
        assert made[2] == [1, 2, 3]
        assert life.num_workers == 2
        for poison in (
            runtime.embed("m", EmbeddingRequest(texts=("poison",))),
            runtime.tokenize("m", "poison"),
        ):
            with pytest.raises(WorkerCrashed):
                await poison
        assert life.seen.told.count("worker_crashed") == 1, "the texts, and once"

    live(scenario)


def test_a_saved_slot_is_not_asked_for_twice(live: Callable[..., None]) -> None:
    """What the slot held is gone: a second try would save something else."""

    async def scenario(life: Life) -> None:
        saving = asyncio.create_task(life.runtime.save_slot("m", 0, "x"))
        os.kill(life.pid, signal.SIGSTOP)
        await life.until_busy(1)
        os.kill(life.pid, signal.SIGKILL)
        with pytest.raises(WorkerCrashed):
            await saving

    live(scenario)


def test_who_goes_away_between_two_workers_is_forgotten(live: Callable[..., None]) -> None:
    async def scenario(life: Life) -> None:
        first, second = life.asking("wait"), life.asking("wait")
        await life.until_busy(2)
        (model,) = life.runtime._supervisor._models.values()
        os.kill(life.pid, signal.SIGKILL)
        await life.seen.until("restarted")
        assert model.num_requests == 2
        second[0].cancel()
        assert await first[0] == WHOLE
        assert life.seen.told == ["restarted", "cancelled", "stop"]
        assert model.num_requests == 0

    live(scenario)


def test_time_runs_on_between_two_workers(live: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "DEADLINE_GRACE_S", 0.0)

    async def scenario(life: Life) -> None:
        (running,) = life.asking("wait")
        await life.until_busy(1)
        timed = asyncio.create_task(life.ask("wait", timeout_s=0.5))
        await life.until_busy(2)
        monkeypatch.setattr(managed, "worker_command", lambda **_: bad_worker("hangs"))  # the next one never loads
        os.kill(life.pid, signal.SIGKILL)
        with pytest.raises(RequestTimeout):
            await timed
        assert not running.done()
        running.cancel()

    live(scenario)


def test_an_unload_ends_what_waits_for_another_try(live: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(life: Life) -> None:
        asking = life.asking("wait", "wait")
        await life.until_busy(2)
        texts = asyncio.create_task(life.runtime.embed("m", EmbeddingRequest(texts=("once",))))
        monkeypatch.setattr(managed, "worker_command", lambda **_: bad_worker("hangs"))
        await life.seen.until("restarted")
        await life.runtime.unload("m")
        for one in (*asking, texts):
            with pytest.raises((Draining, WorkerCrashed)):
                await one

    live(scenario)


def test_a_model_that_cannot_be_started_again_says_so(
    live: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(life: Life) -> None:
        asking = life.asking("wait", "wait")
        await life.until_busy(2)
        monkeypatch.setattr(managed, "worker_command", lambda **_: bad_worker("dies-before-hello"))
        os.kill(life.pid, signal.SIGKILL)
        for one in asking:
            with pytest.raises(WorkerCrashed, match=r"SIGKILL.*restarting it failed: .*cannot open shared object"):
                await one

    live(scenario)


def test_a_model_that_dies_of_everything_is_not_loaded_for_every_request(live: Callable[..., None]) -> None:
    async def scenario(life: Life) -> None:
        asking = life.asking(*["poison"] * 8)
        for one in asking:
            with pytest.raises(WorkerCrashed):
                await one
        assert life.num_workers <= managed.MAX_DEATHS_RETRIED + 2
        assert life.seen.told.count("worker_crashed") == 8

    live(scenario)
