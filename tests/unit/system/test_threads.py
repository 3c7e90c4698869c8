"""Threads for work that blocks: a bound on how many, a queue in order, and nobody's place is lost."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator

import pytest

from localllm.errors import QueueFull
from localllm.system.worker_threads import Threads


class Gate:
    """Work that says that it has begun and goes on when it is let."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.may_end = threading.Semaphore(0)

    def work(self, number: int) -> int:
        self.begun.append(number)
        self.may_end.acquire()
        return number


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.may_end.release(100)


async def _until_begun(gate: Gate, count: int) -> None:
    while len(gate.begun) < count:  # noqa: ASYNC110 (threads of its own set it)
        await asyncio.sleep(0.001)


def test_so_many_run_and_the_rest_follows_in_order_of_arrival(gate: Gate) -> None:
    async def scenario() -> None:
        threads = Threads("test", 2)
        tasks = [asyncio.create_task(threads.run(gate.work, number)) for number in range(5)]
        await _until_begun(gate, 2)
        assert threads.is_busy
        for count in (3, 4, 5):
            gate.may_end.release()
            await _until_begun(gate, count)
        gate.may_end.release(2)
        assert await asyncio.gather(*tasks) == [0, 1, 2, 3, 4]
        assert gate.begun[2:] == [2, 3, 4]
        assert not threads.is_busy

    asyncio.run(scenario())


def test_a_full_queue_refuses_and_says_its_numbers(gate: Gate) -> None:
    async def scenario() -> None:
        threads = Threads("test", 1, max_waiting=1, full=": ask later")
        tasks = [asyncio.create_task(threads.run(gate.work, number)) for number in range(2)]
        await _until_begun(gate, 1)
        with pytest.raises(QueueFull, match="1 run and 1 wait already: ask later"):
            await threads.run(gate.work, 9)
        gate.may_end.release(2)
        await asyncio.gather(*tasks)
        gate.may_end.release()
        assert await threads.run(gate.work, 7) == 7

    asyncio.run(scenario())


def test_who_is_cancelled_while_waiting_leaves_the_queue(gate: Gate) -> None:
    async def scenario() -> None:
        threads = Threads("test", 1, max_waiting=1)
        first = asyncio.create_task(threads.run(gate.work, 0))
        await _until_begun(gate, 1)
        for number in range(3):
            waiting = asyncio.create_task(threads.run(gate.work, number))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        last = asyncio.create_task(threads.run(gate.work, 4))
        gate.may_end.release(2)
        assert list(await asyncio.gather(first, last)) == [0, 4]
        assert gate.begun == [0, 4]

    asyncio.run(scenario())


def test_work_that_goes_on_after_a_cancel_keeps_its_place_to_its_end(gate: Gate) -> None:
    async def scenario() -> None:
        threads = Threads("test", 1)
        first = asyncio.create_task(threads.run(gate.work, 0))
        await _until_begun(gate, 1)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        second = asyncio.create_task(threads.run(gate.work, 1))
        await asyncio.sleep(0)
        assert threads.is_busy
        assert gate.begun == [0]
        gate.may_end.release(2)
        assert await second == 1

    asyncio.run(scenario())


def test_what_the_work_raises_is_raised_and_its_context_is_the_callers() -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")

    def fail() -> None:
        raise ValueError(name.get())

    async def scenario() -> None:
        name.set("anna")
        with pytest.raises(ValueError, match="anna"):
            await Threads("test", 1).run(fail)

    asyncio.run(scenario())


def test_a_thread_that_cannot_be_started_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def scenario() -> None:
        threads = Threads("test", 1)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="new thread"):
                await threads.run(int)
        assert not threads.is_busy
        assert await threads.run(int, "7") == 7

    asyncio.run(scenario())
