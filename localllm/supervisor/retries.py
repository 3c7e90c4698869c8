"""Retries requests whose worker died before it had sent any of their answers: on a new worker, one at a time.

One at a time, because one of them may have killed it and must not take the others down a second time. Requests that
arrived since then run beside them and have their own retry. Knows nothing of processes. Lives on one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from localllm.errors import Draining, LocalLLMError, WorkerCrashed
from localllm.supervisor.pending import Pending

logger = logging.getLogger("localllm")
T = TypeVar("T")


class Resuming(Protocol):
    """The part of a `session.Session` that a retry needs."""

    def resume(self, pending: Pending) -> None:
        """Send its request again."""


S = TypeVar("S", bound=Resuming)


class Retries(Generic[S]):
    """Retries of one model."""

    is_silent = True

    def __init__(self, make_session: Callable[[], Awaitable[S]], may_retry: Callable[[], bool]) -> None:
        """`make_session` returns a session that can answer, or raises. `may_retry`: False if the worker dies too
        often."""
        self._make_session = make_session
        self._may_retry = may_retry
        self._lane = asyncio.Lock()
        self._tasks: dict[Pending, asyncio.Task[None]] = {}
        self._closed = False
        self.num_waiting = 0

    def take(self, pending: Pending, crash: WorkerCrashed) -> None:
        """Retry it; a second failure ends it."""
        pending.was_retried, pending.holder = True, self
        self._tasks[pending] = asyncio.get_running_loop().create_task(self._retry(pending, crash))

    def withdraw(self, pending: Pending) -> None:
        if (task := self._tasks.pop(pending, None)) is not None:
            task.cancel()

    async def alone(self, crash: WorkerCrashed, work: Callable[[S], Awaitable[T]]) -> T:
        """The result of `work` with a new session, while no other retry runs. Raises `crash` if there is no session."""
        self.num_waiting += 1
        is_waiting = True
        try:
            async with self._lane:
                session = await self._session(crash)
                self.num_waiting -= 1
                is_waiting = False
                return await work(session)
        finally:
            self.num_waiting -= is_waiting

    def close(self) -> None:
        """Fail all requests: the model is being unloaded."""
        self._closed = True
        for pending in list(self._tasks):
            self.withdraw(pending)
            pending.fail(Draining("the model is being unloaded"))

    async def _retry(self, pending: Pending, crash: WorkerCrashed) -> None:
        async def begin(session: S) -> None:
            session.resume(pending)
            self._tasks.pop(pending, None)
            await pending.begun.wait()

        try:
            await self.alone(crash, begin)
        except LocalLLMError as error:
            pending.fail(error)
        except Exception:
            logger.exception("defect in a retry")
            pending.fail(crash)
        finally:
            self._tasks.pop(pending, None)

    async def _session(self, crash: WorkerCrashed) -> S:
        if not self._closed and self._may_retry():
            try:
                return await self._make_session()
            except LocalLLMError as error:
                again = WorkerCrashed(f"{crash.message}; restarting it failed: {error.message}")
                again.details = crash.details
                raise again from error
        if self._closed:
            raise Draining("the model is being unloaded")
        raise crash
